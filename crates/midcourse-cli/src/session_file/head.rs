//! The beginning of a file, from which its format is recognised.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum number of lines that are parsed to recognise a format.
const MAX_LINES: usize = 20;

/// The beginning of a file. If the file is longer, the end of `bytes` may be in the middle of a
/// line or of a character.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: &'a [u8],
    /// The first lines that are JSON objects, parsed; empty if the file is one document of several
    /// lines.
    pub(crate) lines: Vec<Map<String, Value>>,
    /// If the file begins with a JSON object, or with a list of objects: the keys of (the first of)
    /// these objects, as far as they are in `bytes`.
    pub(crate) keys: Vec<String>,
    /// Whether the file begins with a JSON list.
    pub(crate) is_list: bool,
}

impl<'a> Head<'a> {
    pub(crate) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let lines = lines.take(MAX_LINES).filter_map(|line| serde_json::from_slice(line).ok());
        let mut keys = Vec::new();
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        // An error is expected: the end of a long document is not in `bytes`.
        let _ = KeysSeed(&mut keys).deserialize(&mut deserializer);
        let is_list = bytes.trim_ascii_start().first() == Some(&b'[');
        Self { path, bytes, lines: lines.collect(), keys, is_list }
    }

    pub(crate) fn has_keys(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.keys.iter().any(|found| found == key))
    }

    /// Whether the name of the file, without its folder, satisfies the condition.
    pub(crate) fn is_named(&self, condition: impl FnOnce(&str) -> bool) -> bool {
        self.path.file_name().is_some_and(|name| condition(&name.to_string_lossy()))
    }
}

/// Collects the keys of an object, or of the first object in a list. Stops at the first error.
struct KeysSeed<'k>(&'k mut Vec<String>);

impl<'de> DeserializeSeed<'de> for KeysSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeysSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            self.0.push(key.into_owned());
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        list.next_element_seed(KeysSeed(self.0))?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Head;

    fn keys(text: &str) -> Vec<String> {
        Head::new(Path::new("a.json"), text.as_bytes()).keys
    }

    #[test]
    fn keys_are_found_in_documents_that_are_cut_off() {
        assert_eq!(keys(r#"{"a": {"b": 1}, "c": [1, 2, "#), ["a", "c"]);
        assert_eq!(keys("[\n {\"task_id\": 1, \"traj\": [{\"role\""), ["task_id", "traj"]);
        assert_eq!(keys("no json"), Vec::<String>::new());
    }

    #[test]
    fn lines_that_are_objects_are_parsed() {
        let text = b"{\"type\":\"a\"}\n\nbroken\n{\"type\":\"b\"}\n{\"type\":";
        let head = Head::new(Path::new("x/rollout-1.jsonl"), text);
        let types: Vec<_> = head.lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["a", "b"]);
        assert!(head.is_named(|name| name.starts_with("rollout-")));
    }
}
