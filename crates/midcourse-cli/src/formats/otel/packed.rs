//! The records in a span. A text that another attribute of the span has, such as the result of a
//! call, is left out of them and put back when they are read.
//!
//! `midcourse.elided` maps the place of such a text, a JSON pointer into the array of records, to
//! where it is. A text is left out only if it can be put back to the byte. Each text is put back
//! once, so unpacking needs no more memory than the span.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::content;
use super::names::{ELIDED, INPUT_MESSAGES, OUTPUT_MESSAGES, RECORDS, TOOL_ARGUMENTS, TOOL_RESULT};
use super::span::Attributes;

const ARGUMENTS: &str = "arguments";
const RESULT_TEXT: &str = "result text";
const RESULT_BLOCKS: &str = "result blocks";

/// Where the text of a record is in the attributes of its span.
pub(super) enum Place {
    Arguments,
    /// The result is one text.
    ResultText,
    /// The result has several blocks, or other blocks than texts.
    ResultBlocks,
    /// A message of the input, by its number.
    Input(usize),
    /// A message of the output, by its number.
    Output(usize),
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::Arguments => ARGUMENTS.to_owned(),
            Self::ResultText => RESULT_TEXT.to_owned(),
            Self::ResultBlocks => RESULT_BLOCKS.to_owned(),
            Self::Input(number) => format!("input {number}"),
            Self::Output(number) => format!("output {number}"),
        }
    }

    /// The pointer to the text in its record.
    const fn pointer(&self) -> &'static str {
        match self {
            Self::Arguments => "/payload/args",
            Self::ResultText | Self::ResultBlocks => "/payload/result/content",
            Self::Input(_) | Self::Output(_) => "/payload/message/content",
        }
    }
}

/// Adds records to the attributes of a span, each with the place of its text, if it has one. The
/// other attributes must be complete.
pub(super) fn pack(attributes: &mut Attributes, records: Vec<(Value, Option<Place>)>) {
    let mut packed = Vec::new();
    let mut elided = Map::new();
    let mut used = HashSet::new();
    let source = Source::new(attributes);
    for (number, (mut record, place)) in records.into_iter().enumerate() {
        if let Some(place) = place
            && !used.contains(&place.name())
            && let Some(text) = record.pointer_mut(place.pointer())
            && source.find(&place.name()).is_some_and(|found| {
                serde_json::to_vec(&found).ok() == serde_json::to_vec(&*text).ok()
            })
        {
            *text = Value::Null;
            elided.insert(format!("/{number}{}", place.pointer()), place.name().into());
            used.insert(place.name());
        }
        packed.push(record);
    }
    let seqs = packed.iter().filter_map(|record| record.get("seq")?.as_i64()).collect::<Vec<_>>();
    attributes.set(super::names::SEQS, seqs);
    attributes.set_json(RECORDS, &Value::Array(packed));
    if !elided.is_empty() {
        attributes.set_json(ELIDED, &Value::Object(elided));
    }
}

/// The records in the attributes of a span that `pack` wrote. The attributes of another span have
/// none.
pub(super) fn unpack(texts: &impl TextAttributes) -> Option<Vec<Value>> {
    let records = texts.text_of(RECORDS)?;
    let Value::Array(mut records) = serde_json::from_str(records).ok()? else { return None };
    if let Some(elided) = texts.text_of(ELIDED) {
        let Value::Object(elided) = serde_json::from_str(elided).ok()? else { return None };
        let source = Source::new(texts);
        let mut used = HashSet::new();
        for (pointer, place) in &elided {
            if !used.insert(place.as_str()?) {
                return None;
            }
            let (number, pointer) = pointer.strip_prefix('/')?.split_once('/')?;
            let record = records.get_mut(number.parse::<usize>().ok()?)?;
            *record.pointer_mut(&format!("/{pointer}"))? = source.find(place.as_str()?)?;
        }
    }
    Some(records)
}

/// Attributes of a span, in whatever form they were read.
pub(super) trait TextAttributes {
    /// The value of an attribute that is a text.
    fn text_of(&self, name: &str) -> Option<&str>;
}

impl TextAttributes for Attributes {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.text(name)
    }
}

/// The attributes of a span that have texts of records, parsed.
struct Source<'a, T> {
    texts: &'a T,
    input: Value,
    output: Value,
}

impl<'a, T: TextAttributes> Source<'a, T> {
    fn new(texts: &'a T) -> Self {
        let messages = |name| {
            let parsed = texts.text_of(name).and_then(|text| serde_json::from_str(text).ok());
            parsed.unwrap_or_default()
        };
        Self { texts, input: messages(INPUT_MESSAGES), output: messages(OUTPUT_MESSAGES) }
    }

    fn find(&self, place: &str) -> Option<Value> {
        let parsed = |name| serde_json::from_str(self.texts.text_of(name)?).ok();
        match place {
            ARGUMENTS => parsed(TOOL_ARGUMENTS),
            RESULT_BLOCKS => parsed(TOOL_RESULT),
            RESULT_TEXT => {
                let text = self.texts.text_of(TOOL_RESULT)?;
                Some(serde_json::json!([{"type": "text", "text": text}]))
            }
            _ => {
                let (list, number) = place.split_once(' ')?;
                let messages = match list {
                    "input" => &self.input,
                    "output" => &self.output,
                    _ => return None,
                };
                content::content(messages.get(number.parse::<usize>().ok()?)?)
            }
        }
    }
}
