//! The elements of a JSON list whose elements are runs, as texts, so that a run that is cut off can be
//! read as far as it goes.

use serde::Deserialize as _;
use serde_json::value::RawValue;

/// An element of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    /// From 0.
    pub(super) position: usize,
    /// The JSON text of the element. If the document is cut off or invalid: the rest of it.
    pub(super) text: &'a str,
    pub(super) is_complete: bool,
}

/// Calls `take` with every element of a list, in order. Returns the JSON error at which reading
/// stopped, if any.
pub(super) fn for_each_element(
    document: &str,
    mut take: impl FnMut(Element<'_>),
) -> Option<serde_json::Error> {
    let mut rest = document.trim_start().strip_prefix('[').unwrap_or(document);
    for position in 0.. {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.starts_with(']') {
            return None;
        }
        match <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(rest)) {
            Ok(raw) => {
                take(Element { position, text: raw.get(), is_complete: true });
                rest = rest.get(raw.get().len()..).unwrap_or_default();
            }
            Err(error) => {
                if !rest.is_empty() {
                    take(Element { position, text: rest, is_complete: false });
                }
                return Some(error);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::for_each_element;

    fn elements(document: &str) -> (Vec<(String, bool)>, bool) {
        let mut found = Vec::new();
        let error = for_each_element(document, |element| {
            assert_eq!(element.position, found.len());
            found.push((element.text.to_owned(), element.is_complete));
        });
        (found, error.is_some())
    }

    #[test]
    fn a_list_that_is_cut_off_ends_with_its_rest() {
        let whole = r#" [{"a": [1, 2]}, 7 ,"x", {"a": 3}]"#;
        let texts = [r#"{"a": [1, 2]}"#, "7", "\"x\"", r#"{"a": 3}"#];
        assert_eq!(elements(whole), (texts.map(|text| (text.to_owned(), true)).to_vec(), false));
        let (found, is_cut) = elements(whole.get(..whole.len() - 3).unwrap());
        assert!(is_cut);
        assert_eq!(found.last().unwrap(), &(r#"{"a": "#.to_owned(), false));
        for end in 0..whole.len() {
            assert!(elements(whole.get(..end).unwrap()).1, "{end}");
        }
    }
}
