//! Cuts long texts, also deep inside JSON values, to a number of characters. The cost is that of
//! reading the text once, whatever it contains.

use serde_json::{Map, Value};

/// The least that an array, an object or one of their members takes of the characters allowed.
const MEMBER_COST: usize = 2;

/// The start of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut<'a> {
    pub(super) text: &'a str,
    /// The length of the whole text, in characters.
    pub(super) length: usize,
    pub(super) is_cut: bool,
}

/// The first `max` characters of a text.
pub(super) fn cut(text: &str, max: usize) -> Cut<'_> {
    let length = text.chars().count();
    let kept = start(text, max);
    Cut { text: kept, length, is_cut: kept.len() < text.len() }
}

/// The first `max` characters of a text, without counting the rest.
pub(super) fn start(text: &str, max: usize) -> &str {
    let end = text.char_indices().nth(max).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

/// A JSON value of at most about `max` characters, the length of the whole value in characters, and
/// whether something was left out. A text that is cut ends in `… (N more characters)`, an array or
/// object in `… (N more)`.
pub(super) fn cut_json(value: &Value, max: usize) -> (Value, usize, bool) {
    let mut cutter = Cutter { left: max, is_cut: false };
    let kept = cutter.cut(value);
    (kept, length(value), cutter.is_cut)
}

/// The length of a value as compact JSON, in characters.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Every byte but the further ones of a character.
            let starts = bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            self.0 = self.0.saturating_add(starts);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Cutter {
    left: usize,
    is_cut: bool,
}

impl Cutter {
    fn take(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }

    fn cut(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.cut_text(text)),
            Value::Array(items) => {
                self.take(MEMBER_COST);
                let mut kept = Vec::new();
                for item in items {
                    if self.left < MEMBER_COST {
                        self.is_cut = true;
                        kept.push(more(items.len() - kept.len()).into());
                        break;
                    }
                    self.take(MEMBER_COST);
                    kept.push(self.cut(item));
                }
                kept.into()
            }
            Value::Object(fields) => {
                self.take(MEMBER_COST);
                let mut kept = Map::new();
                for (name, value) in fields {
                    if self.left < MEMBER_COST {
                        self.is_cut = true;
                        kept.insert("…".to_owned(), more(fields.len() - kept.len()).into());
                        break;
                    }
                    self.take(MEMBER_COST);
                    let name = self.cut_text(name);
                    let value = self.cut(value);
                    kept.insert(name, value);
                }
                kept.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.take(MEMBER_COST);
                value.clone()
            }
        }
    }

    fn cut_text(&mut self, text: &str) -> String {
        let kept = start(text, self.left);
        if kept.len() == text.len() {
            self.take(kept.chars().count());
            return text.to_owned();
        }
        self.left = 0;
        self.is_cut = true;
        let rest = text.get(kept.len()..).unwrap_or_default().chars().count();
        format!("{kept}… ({rest} more characters)")
    }
}

fn more(count: usize) -> String {
    format!("… ({count} more)")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{cut, cut_json};

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!((cut("größer", 3).text, cut("größer", 3).length), ("grö", 6));
        assert!(!cut("größer", 6).is_cut && cut("größer", 5).is_cut);
        let long = "é".repeat(10_000_000);
        assert_eq!((cut(&long, 4_000).text.len(), cut(&long, 4_000).length), (8_000, 10_000_000));
    }

    #[test]
    fn long_texts_deep_inside_json_are_cut() {
        let value = json!({"a": [{"b": "x".repeat(5_000)}], "c": 1});
        let (kept, length, is_cut) = cut_json(&value, 100);
        assert!(is_cut && length > 5_000);
        assert!(kept["a"][0]["b"].as_str().unwrap().ends_with(" more characters)"), "{kept}");
        assert_eq!(kept["…"], "… (1 more)");
        let whole = cut_json(&value, 10_000);
        assert_eq!(whole, (value.clone(), value.to_string().len(), false));
        let (kept, ..) = cut_json(&json!(vec![1; 1_000]), 10);
        assert_eq!(kept, json!([1, 1, "… (998 more)"]));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,60}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".{0,20}", inner), 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_cut_value_is_small_and_a_whole_one_is_unchanged(value in values(), max in 0..400_usize) {
            let (kept, length, is_cut) = cut_json(&value, max);
            prop_assert_eq!(length, value.to_string().chars().count());
            prop_assert_eq!(!is_cut, kept == value);
            let texts = kept.to_string().chars().count();
            // Numbers may be longer than what they count for, and each level may have its note.
            prop_assert!(texts <= 40 * (max + 10), "{} of {}", texts, max);
        }
    }
}
