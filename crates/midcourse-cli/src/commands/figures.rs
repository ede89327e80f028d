//! Figures for people and programs: shares and medians.

/// Of how many (the second), how many (the first).
pub(super) type Share = (usize, usize);

/// A share as people read it.
pub(super) fn share(share: Option<Share>) -> String {
    match share {
        None => "–".to_owned(),
        Some((some, of)) => format!("{} %", (some * 100 + of / 2) / of.max(1)),
    }
}

/// A share where there is something to have one of.
pub(super) const fn share_of(some: usize, of: usize) -> Option<Share> {
    if of > 0 { Some((some, of)) } else { None }
}

/// A share in hundredths, unrounded.
#[expect(clippy::cast_precision_loss, reason = "counts of what is in files")]
pub(super) fn percent((some, of): Share) -> f64 {
    some as f64 * 100.0 / of.max(1) as f64
}

/// The middle of some values.
pub(super) fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
