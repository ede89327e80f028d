//! The words of records, for the search of a fleet.
//!
//! The fleet's index only has to find every part of a run that may match: the records that it finds are
//! then searched exactly, with the code that searches a store on this machine. So words are cut and
//! normalised here until nothing that the exact search finds can be missed.

use std::collections::HashSet;

use midcourse::{ChainEntry, ChainRecord, RunId, Store};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Words are cut to this many characters.
const MAX_WORD_CHARS: usize = 32;

/// How many bytes of each text, from its start, are searchable: as on this machine.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// A set of words.
#[derive(Debug, Default)]
pub(crate) struct Words(HashSet<String>);

impl Words {
    /// Adds the words of a text.
    pub(crate) fn add(&mut self, text: &str) {
        let text = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
        for word in text
            .split(|character: char| !character.is_alphanumeric() && !is_combining_mark(character))
        {
            if word.is_empty() {
                continue;
            }
            let is_plain = word.len() <= MAX_WORD_CHARS
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            if is_plain {
                if !self.0.contains(word) {
                    self.0.insert(word.to_owned());
                }
                continue;
            }
            let word = normalised(word);
            if !word.is_empty() {
                self.0.insert(word);
            }
        }
    }

    /// Adds the words of entries of a run, of which `first_seq` is the first record. With the end of a
    /// call come the words of its start, because a search finds a call by the words of both.
    pub(crate) fn add_entries(
        &mut self,
        store: &Store,
        run_id: &RunId,
        first_seq: u64,
        entries: &[ChainEntry],
    ) {
        for entry in entries {
            let ChainEntry::Record(record) = entry else { continue };
            self.add_record(record);
            if !matches!(record.kind.as_str(), "tool_ended" | "denied") {
                continue;
            }
            let fact = record.fact.as_deref();
            let start = fact.and_then(|call| store.call_seq(run_id.as_str(), call).ok().flatten());
            // A start in this part is added anyway.
            let Some(start) = start.filter(|start| *start < first_seq) else { continue };
            let found = store.records(run_id.as_str(), start, 1).unwrap_or_default();
            for record in found {
                self.add_json(&record.value);
            }
        }
    }

    fn add_record(&mut self, record: &ChainRecord) {
        if let Ok(payload) = serde_json::from_str(&record.payload) {
            self.add_json(&payload);
        }
        for body in &record.bodies {
            let length = usize::try_from(body.length).unwrap_or_default().min(1 << 30);
            let text = zstd::bulk::decompress(&body.zstd, length);
            if let Ok(text) = text.map(|text| String::from_utf8_lossy(&text).into_owned()) {
                self.add(&text);
            }
        }
    }

    fn add_json(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.add(text),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.add_json(item)),
            serde_json::Value::Object(fields) => {
                fields.values().for_each(|value| self.add_json(value));
            }
            _ => {}
        }
    }

    /// The words in order.
    pub(crate) fn into_sorted(self) -> Vec<String> {
        let mut words: Vec<String> = self.0.into_iter().collect();
        words.sort_unstable();
        words
    }
}

/// A word without upper case and accents, cut to a bounded length.
fn normalised(word: &str) -> String {
    let plain = word.nfkd().filter(|character| !is_combining_mark(*character));
    let plain = plain.flat_map(char::to_lowercase).filter(|character| character.is_alphanumeric());
    plain.take(MAX_WORD_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::Words;

    fn words(text: &str) -> Vec<String> {
        let mut words = Words::default();
        words.add(text);
        words.into_sorted()
    }

    #[test]
    fn words_are_letters_and_digits_without_case_and_accents() {
        assert_eq!(
            words("src/Main.rs:12 Café CAFE cafe\u{301}"),
            ["12", "cafe", "main", "rs", "src"]
        );
        assert_eq!(words(&"x".repeat(100)), ["x".repeat(32)]);
        assert_eq!(words("-- ' \u{0} \n"), [""; 0]);
    }
}
