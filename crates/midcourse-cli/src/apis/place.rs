//! Places in a body where words fit in, and putting them there.
//!
//! A body is never written anew: words are inserted into the client's bytes, so key order, number
//! forms, white space and escapes are the client's, and with the words cut out it is what was sent.

/// Where words fit into a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    at: usize,
    form: Form,
}

/// What the words have to look like there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The end of a string.
    InString,
    /// The end of a list of parts.
    Part,
    /// Behind a field of an object that lacks its content.
    Content,
    /// The end of a list of messages, one of whose roles this is.
    Message(&'static str),
}

/// Bytes to be put into a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// Where.
    pub at: usize,
    /// What.
    pub text: String,
}

impl Place {
    /// The end of content: of a text, or of a list of parts that has some.
    pub(super) fn end_of(body: &str, content: &str) -> Option<Self> {
        let last = offset(body, content)?.checked_add(content.len())?.checked_sub(1)?;
        let form = if content.starts_with('"') {
            Form::InString
        } else if content.starts_with('[') && content.contains('{') {
            Form::Part
        } else {
            return None;
        };
        Some(Self { at: last, form })
    }

    /// Behind the value of a field, in an object without content.
    pub(super) fn behind(body: &str, value: &str) -> Option<Self> {
        let at = offset(body, value)?.checked_add(value.len())?;
        Some(Self { at, form: Form::Content })
    }

    /// Behind the last message, which ends where its list does.
    pub(super) fn message(body: &str, messages: &str, role: &'static str) -> Option<Self> {
        let at = offset(body, messages)?.checked_add(messages.len())?.checked_sub(1)?;
        Some(Self { at, form: Form::Message(role) })
    }

    /// Whether several words fit in, one behind the other.
    pub(super) fn is_open(&self) -> bool {
        self.form != Form::Content
    }

    /// The words as they have to stand here.
    pub fn insertion(&self, words: &str) -> Insertion {
        let text = match self.form {
            Form::InString => {
                let quoted = quoted(&format!("\n\n{words}"));
                let inside = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                inside.unwrap_or_default().to_owned()
            }
            Form::Part => format!(r#",{{"type":"text","text":{}}}"#, quoted(words)),
            Form::Content => format!(r#","content":{}"#, quoted(words)),
            Form::Message(role) => {
                format!(r#",{{"role":"{role}","content":{}}}"#, quoted(words))
            }
        };
        Insertion { at: self.at, text }
    }
}

fn quoted(words: &str) -> String {
    serde_json::Value::from(words).to_string()
}

/// Where a part of a body begins; nothing, if it is none.
fn offset(body: &str, part: &str) -> Option<usize> {
    let at = part.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    (at.checked_add(part.len())? <= body.len()).then_some(at)
}

/// The body with insertions, which stay in order where they share a place.
pub fn insert(body: &[u8], insertions: &mut [Insertion]) -> Vec<u8> {
    insertions.sort_by_key(|insertion| insertion.at);
    let more: usize = insertions.iter().map(|insertion| insertion.text.len()).sum();
    let mut out = Vec::with_capacity(body.len().saturating_add(more));
    let mut rest = body;
    for Insertion { at, text } in insertions {
        let before = at.saturating_sub(body.len().saturating_sub(rest.len()));
        // A place beyond the end is its end.
        let (front, behind) = rest.split_at_checked(before).unwrap_or((rest, &[]));
        out.extend_from_slice(front);
        out.extend_from_slice(text.as_bytes());
        rest = behind;
    }
    out.extend_from_slice(rest);
    out
}
