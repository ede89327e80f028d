//! Reads a JSON document part by part, as far as it is valid. A document that is cut off still gives
//! the parts before the cut.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A part of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// A field of the outermost object.
    Field(&'a str, &'a RawValue),
    /// An element of a list: the name of the field that has the list (empty if the document itself
    /// is a list), the element's position from 0, and the element.
    Element(&'a str, usize, &'a RawValue),
}

/// Calls `take` with every part of a document, in order. The document is an object or a list. Of the
/// object's fields, those named in `lists` are given element by element, if they are lists; all
/// others as one part. Returns the JSON error at which reading stopped, if any.
pub(crate) fn for_each_part(
    document: &str,
    lists: &[&str],
    mut take: impl FnMut(Part<'_>),
) -> Option<serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(document);
    let seed = Parts { lists, take: &mut take };
    seed.deserialize(&mut deserializer).and_then(|()| deserializer.end()).err()
}

struct Parts<'p> {
    lists: &'p [&'p str],
    take: &'p mut dyn FnMut(Part<'_>),
}

impl<'de> DeserializeSeed<'de> for Parts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if self.lists.contains(&&*key) {
                map.next_value_seed(Elements { name: &key, take: &mut *self.take })?;
            } else {
                (self.take)(Part::Field(&key, map.next_value()?));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        Elements { name: "", take: self.take }.visit_seq(list)
    }
}

struct Elements<'p> {
    name: &'p str,
    take: &'p mut dyn FnMut(Part<'_>),
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list in `{}`", self.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut position = 0;
        while let Some(element) = list.next_element()? {
            (self.take)(Part::Element(self.name, position, element));
            position += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, for_each_part};

    fn parts(document: &str) -> (Vec<String>, bool) {
        let mut parts = Vec::new();
        let error = for_each_part(document, &["steps"], |part| {
            parts.push(match part {
                Part::Field(name, value) => format!("{name}={value}"),
                Part::Element(name, position, value) => format!("{name}[{position}]={value}"),
            });
        });
        (parts, error.is_some())
    }

    #[test]
    fn fields_and_elements_are_given_in_order() {
        let (found, is_cut) =
            parts(r#"{"id": 1, "steps": [{"a": 2}, 3], "more": [4], "steps": null}"#);
        assert_eq!(found, ["id=1", r#"steps[0]={"a": 2}"#, "steps[1]=3", "more=[4]"]);
        assert!(!is_cut);
        assert_eq!(parts("[5, 6]").0, ["[0]=5", "[1]=6"]);
    }

    #[test]
    fn a_document_that_is_cut_off_gives_the_parts_before_the_cut() {
        let whole = r#"{"id": 1, "steps": [{"a": 2}, {"a": 3}]}"#;
        for end in 0..whole.len() {
            let (found, is_cut) = parts(whole.get(..end).unwrap());
            assert!(is_cut && found.len() <= 3, "{end}");
        }
        assert_eq!(parts(whole.get(..31).unwrap()).0, ["id=1", r#"steps[0]={"a": 2}"#]);
        assert!(parts(r#"{"steps": 7}"#).1, "a value that is not a list is an error");
    }
}
