//! Bodies: long texts, stored once and compressed, apart from the records that contain them.
//!
//! The same long text often occurs in several records: the output of a tool is in the record of the
//! tool's result, in that of the message with the result, and in that of the turn with the message.
//! A text longer than [`BODY_MIN`] is taken out of the payload, which keeps an empty string, and is
//! stored under its hash; the record keeps the text's position as a JSON pointer. If a text is
//! longer than the store's limit, its middle is removed before it is stored.

use std::borrow::Cow;
use std::cell::RefCell;

use serde_json::Value;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// Texts longer than this many bytes are stored separately and compressed, as bodies.
pub(super) const BODY_MIN: usize = 4 * 1024;

/// The greatest length of a stored text, in bytes. Texts are truncated to far less before they are
/// stored, so a row that gives a greater length is damaged, and no memory is allocated for it.
const MAX_LENGTH: usize = 1 << 30;

/// How many bytes of a truncated text are reserved for the note that says how much is left out.
pub(super) const MAX_NOTE_BYTES: usize = 160;

/// The compression level of zstd. This low level is fast and compresses logs and source code well
/// enough.
const LEVEL: i32 = 1;

/// Up to this many bytes, a text is compressed with a smaller table.
const SHORT_TEXT: usize = 16 * 1024;

/// The number of entries in that table, as a power of two: 4,096.
const SHORT_TEXT_TABLE: u32 = 12;

/// A long text that is ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    /// The JSON pointer to the text in the payload.
    pub(super) pointer: String,
    /// The BLAKE3 hash of the text.
    pub(super) hash: [u8; 32],
    /// The length of the text in bytes, before compression.
    pub(super) length: usize,
    /// The text, compressed with zstd.
    pub(super) bytes: Vec<u8>,
}

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DamagedBody {
    #[error("it does not decompress")]
    Unpack,
    #[error("its hash differs from the stored one")]
    Hash,
    #[error("the payload has no such position")]
    Place,
}

/// Takes the long texts out of a payload. Empty strings stay in their places.
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

/// Puts one text back at its position in the payload.
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

/// Decompresses a text and checks its hash.
pub(super) fn unpack(hash: &[u8], length: usize, bytes: &[u8]) -> Result<String, DamagedBody> {
    if length > MAX_LENGTH {
        return Err(DamagedBody::Unpack);
    }
    let text = zstd::bulk::decompress(bytes, length).map_err(|_| DamagedBody::Unpack)?;
    if blake3::hash(&text).as_bytes() != hash {
        return Err(DamagedBody::Hash);
    }
    String::from_utf8(text).map_err(|_| DamagedBody::Unpack)
}

pub(super) fn pack(text: &str) -> std::io::Result<Vec<u8>> {
    compressed(text.as_bytes(), LEVEL)
}

thread_local! {
    /// Creating a compressor takes longer than compressing a short text, so each thread keeps one.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn compressed(bytes: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let mut compressor = match kept.take() {
            Some(compressor) => compressor,
            None => Compressor::new(level)?,
        };
        compressor.set_compression_level(level)?;
        // zstd clears a table of 128 KiB before it compresses even a short text, which takes a hook
        // longer than compressing. 0 is zstd's own choice.
        let is_short = bytes.len() <= SHORT_TEXT;
        compressor.set_parameter(CParameter::HashLog(if is_short {
            SHORT_TEXT_TABLE
        } else {
            0
        }))?;
        let done = compressor.compress(bytes);
        *kept = Some(compressor);
        done
    })
}

/// How many bytes of the beginning, and how many of the end, are kept of a text that is longer than
/// `limit`. With the note between them, both have at most `limit` bytes.
pub(super) const fn kept_len(limit: usize) -> usize {
    limit.saturating_sub(MAX_NOTE_BYTES) / 2
}

/// A text whose middle is left out, with a note in its place. The note has the number of bytes left
/// out and the hash of the whole text.
pub(super) fn without_middle(head: &str, middle: &str, tail: &str) -> String {
    let (left_out, length) = (middle.len(), head.len() + middle.len() + tail.len());
    let mut hasher = blake3::Hasher::new();
    for part in [head, middle, tail] {
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize();
    format!("{head}\n[{left_out} of {length} bytes left out; blake3 {hash}]\n{tail}")
}

/// The position of a text in a payload.
pub(super) struct Position<'a> {
    /// The JSON pointer (RFC 6901) to the text.
    pub(super) pointer: &'a str,
    /// The name of the field that contains the text, directly or in a list.
    pub(super) field: &'a str,
}

/// Calls `call` for every text in a payload except ids and kinds ([`IDS`]), which must stay as they
/// are. Inside a field whose content a host or tool chooses ([`FREE`]), all texts are visited.
pub(super) fn each_text(payload: &mut Value, call: &mut dyn FnMut(&Position<'_>, &mut String)) {
    walk(payload, "", &mut String::new(), false, call);
}

/// Redacts names inside the fields whose content a host or tool chooses, and the ids of tool calls.
/// Calls `redact` for each; if it returns a text, that replaces the name or id.
pub(super) fn each_name(payload: &mut Value, redact: &mut dyn FnMut(&str) -> Option<String>) {
    walk_names(payload, false, redact);
}

fn walk_names(value: &mut Value, is_free: bool, redact: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| walk_names(item, is_free, redact));
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(id) if name == CALL_ID && !is_free => {
                        *id = redact(id).unwrap_or_else(|| std::mem::take(id));
                    }
                    field => {
                        walk_names(field, is_free || FREE.contains(&name.as_str()), redact);
                    }
                }
            }
            if !is_free {
                return;
            }
            let renamed: Vec<_> = fields.keys().map(|name| redact(name)).collect();
            if renamed.iter().any(Option::is_some) {
                let old = std::mem::take(fields).into_iter().zip(renamed);
                *fields = old.map(|((name, field), new)| (new.unwrap_or(name), field)).collect();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const CALL_ID: &str = "tool_call_id";
const IDS: [&str; 6] = ["kind", "role", "tool_call_id", "run_id", "parent_run_id", "type"];
const FREE: [&str; 4] = ["args", "arguments", "details", "payload"];

fn walk(
    value: &mut Value,
    field: &str,
    pointer: &mut String,
    is_free: bool,
    call: &mut dyn FnMut(&Position<'_>, &mut String),
) {
    match value {
        Value::String(text) => call(&Position { pointer, field }, text),
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

/// Runs `step` with the JSON pointer extended by a field, and then shortens the pointer again.
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
    use serde_json::json;

    use super::{BODY_MIN, put_back, take_out};

    #[test]
    fn long_texts_are_taken_out_and_put_back() {
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
}
