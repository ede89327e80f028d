//! How often each kind of line occurred in a file, and what became of it.

use std::collections::BTreeMap;

/// Maximum number of kinds that are counted separately. Further kinds are counted together, so that
/// a file with a new kind in every line does not use up the memory.
const MAX_KINDS: usize = 200;
const OTHER_KINDS: &str = "(other kinds)";

/// Maximum length of the name of a kind, in bytes.
const MAX_NAME_LEN: usize = 60;

/// What became of a line, or of a part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It became records.
    Used,
    /// Its kind is known and contains nothing to record, or only what other lines contain too.
    Ignored,
    /// Its kind is not known.
    Unknown,
    /// It could not be parsed, or not to its end.
    Invalid,
}

/// Counts of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KindCounts {
    pub(crate) used: u64,
    pub(crate) ignored: u64,
    pub(crate) unknown: u64,
    pub(crate) invalid: u64,
}

impl KindCounts {
    fn add(&mut self, other: Self) {
        self.used += other.used;
        self.ignored += other.ignored;
        self.unknown += other.unknown;
        self.invalid += other.invalid;
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<String, KindCounts>);

impl Counts {
    pub(crate) fn add(&mut self, kind: &str, fate: Fate) {
        let mut counts = KindCounts::default();
        *match fate {
            Fate::Used => &mut counts.used,
            Fate::Ignored => &mut counts.ignored,
            Fate::Unknown => &mut counts.unknown,
            Fate::Invalid => &mut counts.invalid,
        } = 1;
        self.add_counts(kind, counts);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (kind, counts) in &other.0 {
            self.add_counts(kind, *counts);
        }
    }

    /// The kinds in alphabetical order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, KindCounts)> {
        self.0.iter().map(|(kind, counts)| (kind.as_str(), *counts))
    }

    pub(crate) fn total(&self) -> KindCounts {
        let mut total = KindCounts::default();
        self.0.values().for_each(|counts| total.add(*counts));
        total
    }

    fn add_counts(&mut self, kind: &str, counts: KindCounts) {
        let kind = kind.get(..kind.floor_char_boundary(MAX_NAME_LEN)).unwrap_or(kind);
        if let Some(known) = self.0.get_mut(kind) {
            known.add(counts);
        } else {
            let kind = if self.0.len() < MAX_KINDS { kind } else { OTHER_KINDS };
            self.0.entry(kind.to_owned()).or_default().add(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Fate, MAX_KINDS, OTHER_KINDS};

    #[test]
    fn the_number_of_kinds_is_limited_and_nothing_is_left_out() {
        let mut counts = Counts::default();
        for kind in 0..1_000 {
            counts.add(&format!("kind {kind}"), Fate::Unknown);
        }
        counts.add("kind 0", Fate::Used);
        assert_eq!(counts.iter().count(), MAX_KINDS + 1);
        assert_eq!((counts.total().unknown, counts.total().used), (1_000, 1));
        let (_, others) = counts.iter().find(|(kind, _)| *kind == OTHER_KINDS).unwrap();
        assert_eq!(others.unknown, 800);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let mut counts = Counts::default();
        counts.add(&"é".repeat(100), Fate::Used);
        assert_eq!(counts.iter().next().unwrap().0.len(), 60);
    }
}
