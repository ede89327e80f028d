//! Bodies: long texts, kept once, compressed, beside the records that hold them.
//!
//! Agents say the same long thing several times (a result, the message that carries it, the turn
//! that holds the message). A text over [`BODY_MIN`] is taken out of the payload, leaving an empty
//! string, and is stored under its hash; the record keeps where it belongs, as a JSON pointer.
//! A text over the store's limit is cut in the middle before that.

use std::borrow::Cow;
use std::cell::RefCell;

use serde_json::Value;
use zstd::bulk::Compressor;

/// A text longer than this, in bytes, is a body of its own.
pub(super) const BODY_MIN: usize = 4 * 1024;

/// No text is longer than a database's value can be; a length beyond it is damage.
const LENGTH_MAX: usize = 1 << 30;

/// Room for the note in the middle of a cut text.
const NOTE_MAX: usize = 160;

/// Fast, and most of what can be had on logs and source.
const LEVEL: i32 = 1;

/// A long text, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    /// Where it belongs in the payload.
    pub(super) pointer: String,
    /// The BLAKE3 of the text.
    pub(super) hash: [u8; 32],
    /// Its length in bytes.
    pub(super) length: usize,
    /// The text, compressed with zstd.
    pub(super) bytes: Vec<u8>,
}

/// A body that cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DamagedBody {
    #[error("it does not unpack")]
    Unpack,
    #[error("it is not the text that was stored")]
    Hash,
    #[error("its place in the record is gone")]
    Place,
}

/// Takes the long texts out of a payload.
pub(super) fn take_out(payload: &mut Value) -> Result<Vec<Body>, std::io::Error> {
    let mut bodies = Vec::new();
    let mut failed = None;
    each_text(payload, &mut |place, text| {
        if text.len() > BODY_MIN && failed.is_none() {
            let hash = *blake3::hash(text.as_bytes()).as_bytes();
            match pack(text) {
                Ok(bytes) => {
                    let length = text.len();
                    bodies.push(Body { pointer: place.pointer.to_owned(), hash, length, bytes });
                    text.clear();
                }
                Err(error) => failed = Some(error),
            }
        }
    });
    failed.map_or(Ok(bodies), Err)
}

/// Puts one text back where it belongs.
pub(super) fn put_back(
    payload: &mut Value,
    pointer: &str,
    hash: &[u8],
    length: usize,
    bytes: &[u8],
) -> Result<(), DamagedBody> {
    let text = unpack(hash, length, bytes)?;
    *payload.pointer_mut(pointer).ok_or(DamagedBody::Place)? = Value::String(text);
    Ok(())
}

/// Unpacks a text and checks that it is the one.
pub(super) fn unpack(hash: &[u8], length: usize, bytes: &[u8]) -> Result<String, DamagedBody> {
    if length > LENGTH_MAX {
        return Err(DamagedBody::Unpack);
    }
    let text = zstd::bulk::decompress(bytes, length).map_err(|_| DamagedBody::Unpack)?;
    if blake3::hash(&text).as_bytes() != hash {
        return Err(DamagedBody::Hash);
    }
    String::from_utf8(text).map_err(|_| DamagedBody::Unpack)
}

/// Packs a text.
pub(super) fn pack(text: &str) -> std::io::Result<Vec<u8>> {
    compressed(text.as_bytes(), LEVEL)
}

thread_local! {
    /// What compresses: making it takes longer than a short text does.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// Bytes, compressed with zstd.
pub(super) fn compressed(bytes: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let mut compressor = match kept.take() {
            Some(compressor) => compressor,
            None => Compressor::new(level)?,
        };
        compressor.set_compression_level(level)?;
        let done = compressor.compress(bytes);
        *kept = Some(compressor);
        done
    })
}

/// A text that is no longer than the limit: its head and its tail, and between them how much is
/// left out, with the hash of the whole. Cutting it again changes nothing.
pub(super) fn cut(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let half = limit.saturating_sub(NOTE_MAX) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(half));
    let (head, tail) = (text.get(..head)?, text.get(tail..)?);
    let (length, left_out) = (text.len(), text.len() - head.len() - tail.len());
    let hash = blake3::hash(text.as_bytes());
    Some(format!("{head}\n[{left_out} of {length} bytes left out; blake3 {hash}]\n{tail}"))
}

/// Where a text stands in a payload.
pub(super) struct Place<'a> {
    /// The whole way to it (RFC 6901).
    pub(super) pointer: &'a str,
    /// The field it is the value of, or is in a list of.
    pub(super) field: &'a str,
}

/// Calls for every text in a payload, except the ids and kinds that tell facts apart. In what hosts
/// and tools fill as they like there are no such ids.
pub(super) fn each_text(payload: &mut Value, call: &mut dyn FnMut(&Place<'_>, &mut String)) {
    walk(payload, "", &mut String::new(), false, call);
}

const IDS: [&str; 6] = ["kind", "role", "tool_call_id", "run_id", "parent_run_id", "type"];
const FREE: [&str; 4] = ["args", "arguments", "details", "payload"];

fn walk(
    value: &mut Value,
    field: &str,
    pointer: &mut String,
    is_free: bool,
    call: &mut dyn FnMut(&Place<'_>, &mut String),
) {
    match value {
        Value::String(text) => call(&Place { pointer, field }, text),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                within(pointer, &index.to_string(), |pointer| {
                    walk(item, field, pointer, is_free, call);
                });
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if is_free || !(IDS.contains(&name.as_str()) && field.is_string()) {
                    let is_free = is_free || FREE.contains(&name.as_str());
                    within(pointer, name, |pointer| walk(field, name, pointer, is_free, call));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Steps into a field and out again.
fn within(pointer: &mut String, name: &str, step: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    let mut name = Cow::Borrowed(name);
    if name.contains(['~', '/']) {
        name = Cow::Owned(name.replace('~', "~0").replace('/', "~1"));
    }
    pointer.push_str(&name);
    step(pointer);
    pointer.truncate(length);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{BODY_MIN, NOTE_MAX, cut, put_back, take_out};

    #[test]
    fn long_texts_go_out_and_come_back() {
        let long = "line\n".repeat(BODY_MIN);
        let whole = json!({"kind": "x", "a/b~c": [1, {"t": long}], "short": "s", "again": long});
        let mut payload = whole.clone();
        let bodies = take_out(&mut payload).unwrap();
        let mut places: Vec<_> = bodies.iter().map(|body| body.pointer.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/again", "/a~1b~0c/1/t"]);
        assert_eq!(bodies[0].hash, bodies[1].hash);
        assert!(payload.to_string().len() < 100);
        for body in &bodies {
            put_back(&mut payload, &body.pointer, &body.hash, body.length, &body.bytes).unwrap();
        }
        assert_eq!(payload, whole);
    }

    proptest! {
        #[test]
        fn a_cut_text_keeps_both_ends(text in "\\PC{0,900}", limit in NOTE_MAX..700_usize) {
            match cut(&text, limit) {
                None => prop_assert!(text.len() <= limit),
                Some(short) => {
                    prop_assert!(short.len() <= limit);
                    prop_assert_eq!(cut(&short, limit), None);
                    let (head, rest) = short.split_once("\n[").unwrap();
                    let (note, tail) = rest.split_once("]\n").unwrap();
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    let left_out = text.len() - head.len() - tail.len();
                    let expected = format!("{left_out} of {} bytes left out", text.len());
                    prop_assert!(note.starts_with(&expected));
                }
            }
        }
    }
}
