//! The words of records, for the search of a fleet.
//!
//! The fleet's index only has to find every part of a run that may match: the records that it finds are
//! then searched exactly, with the code that searches a store on this machine. So words are cut and
//! normalised here until nothing that the exact search finds can be missed, and the index has only a hash
//! of each: numbers are smaller and faster to compare. Two words with one hash cost a part that is
//! searched for nothing.
//!
//! Several words of a search have to be in one entry: a record, or a call with its result. So each word of a
//! part also has the buckets of the entries that have it; words without a common bucket are in no common
//! entry. The bucket of each record is stored too, so a search reads only the records in common buckets.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use midcourse::{ChainEntry, ChainRecord, RunId, Store};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use zstd::bulk::Decompressor;

/// Words are cut to this many characters.
const MAX_WORD_CHARS: usize = 32;

/// How many bytes of each text, from its start, are searchable: as on this machine.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Some of 64 buckets, as bits. Each entry of a part is in one; which one matters only within the part.
pub(crate) type Buckets = u64;

/// The bucket number of a record. All records of a call have the same one.
pub(crate) fn bucket(record: &ChainRecord) -> u8 {
    let number = match call_of(record) {
        Some(call) => u64::from(hash(call.bytes()).cast_unsigned()),
        None => record.seq,
    };
    u8::try_from(number % u64::from(Buckets::BITS)).unwrap_or_default()
}

/// The hashes of a set of words, each with the buckets of the entries that have it.
#[derive(Default)]
pub(crate) struct Words {
    hashes: HashMap<i32, Buckets, BuildHasherDefault<AsHash>>,
    /// The bucket of the entry whose words are being added.
    bucket: Buckets,
    /// Kept, because to make one takes longer than to use it.
    decompressor: Option<Decompressor<'static>>,
}

/// Uses a number that is a hash already.
#[derive(Default)]
struct AsHash(u64);

impl Hasher for AsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_i32(&mut self, hash: i32) {
        // The table uses the upper bits, too.
        self.0 = u64::from(hash.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The FNV-1a hash of the UTF-8 of a word: a part of the format of the table `words`.
fn hash(bytes: impl Iterator<Item = u8>) -> i32 {
    const OFFSET: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    bytes.fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME)).cast_signed()
}

impl Words {
    /// The hashes of the words of a search, in order.
    pub(crate) fn of(text: &str) -> Vec<i32> {
        let mut words = Self::default();
        words.add(text);
        words.into_sorted().into_iter().map(|(hash, _)| hash).collect()
    }

    /// Adds the words of a text.
    pub(crate) fn add(&mut self, text: &str) {
        let text = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
        if !text.is_ascii() {
            text.split(|it: char| !it.is_alphanumeric() && !is_combining_mark(it))
                .for_each(|word| self.add_word(word));
            return;
        }
        for word in text.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()) {
            if !word.is_empty() {
                let word = word.iter().take(MAX_WORD_CHARS).map(u8::to_ascii_lowercase);
                self.insert(hash(word));
            }
        }
    }

    fn insert(&mut self, hash: i32) {
        *self.hashes.entry(hash).or_default() |= self.bucket;
    }

    fn add_word(&mut self, word: &str) {
        let word = match word.is_ascii() {
            true => word.chars().take(MAX_WORD_CHARS).collect::<String>().to_ascii_lowercase(),
            false => normalised(word),
        };
        if !word.is_empty() {
            self.insert(hash(word.bytes()));
        }
    }

    /// Adds the words of entries of a run, of which `first_seq` is the first record. With the end of a
    /// call come the words of its start, because a search finds a call by the words of both. Of two
    /// channels, one may report the end before the other reports the start.
    pub(crate) fn add_entries(
        &mut self,
        store: &Store,
        run_id: &RunId,
        first_seq: u64,
        entries: &[ChainEntry],
    ) {
        // The bucket of each call, and whether its start and an end of it are among the entries.
        let mut calls: HashMap<&str, (Buckets, bool, bool)> = HashMap::new();
        for entry in entries {
            let ChainEntry::Record(record) = entry else { continue };
            self.bucket = 1 << bucket(record);
            self.add_record(record);
            if let Some(call) = call_of(record) {
                let (bucket, has_start, has_end) = calls.entry(call).or_default();
                *bucket = self.bucket;
                match record.kind.as_str() {
                    "tool_started" => *has_start = true,
                    _ => *has_end = true,
                }
            }
        }
        for (call, (bucket, has_start, has_end)) in calls {
            if !has_start || !has_end {
                self.bucket = bucket;
                self.add_call(store, run_id, first_seq, call);
            }
        }
    }

    /// Adds the words of the records of a call that are before this seq, in the bucket `self.bucket`.
    fn add_call(&mut self, store: &Store, run_id: &RunId, before: u64, call: &str) {
        let start = store.call_seq(run_id.as_str(), call).ok().flatten();
        let entry = start.and_then(|start| store.entry(run_id.as_str(), start).ok().flatten());
        let Some(entry) = entry else { return };
        let records = [Some(entry.record), entry.end].into_iter().flatten();
        for record in records.filter(|record| record.seq < before) {
            self.add_value(&record.value);
        }
    }

    fn add_record(&mut self, record: &ChainRecord) {
        // Of a payload that is not JSON, what comes before the error is added.
        let _ = Texts(self).deserialize(&mut serde_json::Deserializer::from_str(&record.payload));
        for body in &record.bodies {
            let length = usize::try_from(body.length).unwrap_or_default().min(1 << 30);
            if self.decompressor.is_none() {
                self.decompressor = Decompressor::new().ok();
            }
            let Some(decompressor) = &mut self.decompressor else { continue };
            if let Ok(text) = decompressor.decompress(&body.zstd, length) {
                self.add(&String::from_utf8_lossy(&text));
            }
        }
    }

    fn add_value(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.add(text),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.add_value(item)),
            serde_json::Value::Object(fields) => {
                fields.values().for_each(|value| self.add_value(value));
            }
            _ => {}
        }
    }

    /// The hashes in order, with their buckets.
    pub(crate) fn into_sorted(self) -> Vec<(i32, Buckets)> {
        let mut words: Vec<(i32, Buckets)> = self.hashes.into_iter().collect();
        words.sort_unstable();
        words
    }
}

/// The call that a record is about, if it is one of the records that a search joins to one entry.
fn call_of(record: &ChainRecord) -> Option<&str> {
    let is_call = matches!(record.kind.as_str(), "tool_started" | "tool_ended" | "denied");
    record.fact.as_deref().filter(|_| is_call)
}

/// Finds the records of a run that may have all the words of a search. A call is found by the words of
/// its start and its end.
pub(crate) struct Candidates<'w> {
    wanted: &'w [i32],
    found: Vec<u64>,
    calls: HashMap<String, Call>,
    words: Words,
}

/// The start and the ends of a call, and which of the wanted words they have.
#[derive(Default)]
struct Call {
    seqs: Vec<u64>,
    words: HashSet<i32>,
}

impl<'w> Candidates<'w> {
    pub(crate) fn new(wanted: &'w [i32]) -> Self {
        Self { wanted, found: Vec::new(), calls: HashMap::new(), words: Words::default() }
    }

    /// Looks at the next entries of the run.
    pub(crate) fn add(&mut self, entries: &[ChainEntry]) {
        for entry in entries {
            let ChainEntry::Record(record) = entry else { continue };
            self.words.hashes.clear();
            self.words.add_record(record);
            let wanted = self.wanted;
            self.words.hashes.retain(|hash, _| wanted.contains(hash));
            if let Some(call) = call_of(record) {
                let call = self.calls.entry(call.to_owned()).or_default();
                call.seqs.push(record.seq);
                call.words.extend(self.words.hashes.keys());
            } else if self.words.hashes.len() == self.wanted.len() {
                self.found.push(record.seq);
            }
        }
    }

    /// The seqs of the records that may match.
    pub(crate) fn into_seqs(mut self) -> Vec<u64> {
        let calls = self.calls.into_values();
        let calls = calls.filter(|call| call.words.len() == self.wanted.len());
        self.found.extend(calls.flat_map(|call| call.seqs));
        self.found
    }
}

/// Adds the words of all texts of a JSON value, while it is parsed.
struct Texts<'w>(&'w mut Words);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.add(text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Texts(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(Texts(self.0))?;
        }
        Ok(())
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
    use super::{Words, hash};

    fn hashes(words: &[&str]) -> Vec<i32> {
        let mut hashes: Vec<i32> = words.iter().map(|word| hash(word.bytes())).collect();
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn words_are_letters_and_digits_without_case_and_accents() {
        assert_eq!(
            Words::of("src/Main.rs:12 Café CAFE cafe\u{301}"),
            hashes(&["12", "cafe", "main", "rs", "src"])
        );
        assert_eq!(Words::of(&"x".repeat(100)), hashes(&[&"x".repeat(32)]));
        assert_eq!(Words::of("-- ' \u{0} \n"), [0; 0]);
    }

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(
            [hash([].into_iter()), hash("foobar".bytes())],
            [0x811c_9dc5_u32.cast_signed(), 0xbf9c_f968_u32.cast_signed()]
        );
    }
}
