//! Finds where text can be inserted into a request body, and inserts it.
//!
//! A body is never parsed and serialised again: text is inserted between the client's own bytes. So
//! key order, number formats, white space and escapes do not change, and removing the inserted
//! bytes gives back exactly what the client sent.

/// A position in a request body at which text can be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InsertionPoint {
    /// Byte offset into the request body.
    offset: usize,
    form: Form,
}

/// Where in the JSON the text is inserted. This determines which JSON syntax (quotes, braces, field
/// names) has to be inserted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Before the closing quote of a JSON string.
    StringEnd,
    /// Before the closing bracket of a list of content blocks.
    NewBlock,
    /// Before the closing bracket of a list of contents in the Responses API.
    NewInputText,
    /// Before the closing bracket of a list of parts in Gemini's API.
    NewPart,
    /// Like `NewBlock`. The text is marked as a note that does not come from the user.
    NewReminder,
    /// After a field of a JSON object that has no `content` field. The object gets a `content`
    /// field with the text.
    NewContentField,
    /// Before the closing bracket of the list of messages. The text becomes a message with this
    /// role.
    NewMessage(&'static str),
}

/// Bytes to insert into a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insertion {
    /// Byte offset into the request body.
    pub(crate) offset: usize,
    /// JSON, escaped and ready to insert.
    pub(crate) json: String,
}

impl InsertionPoint {
    /// A position at the end of a message's content. `None` unless the content is a string or a
    /// list with at least one block.
    pub(super) fn at_end_of_content(body: &str, content: &str) -> Option<Self> {
        let last = offset_in(body, content)?.checked_add(content.len())?.checked_sub(1)?;
        let form = if content.starts_with('"') {
            Form::StringEnd
        } else if content.starts_with('[') && content.contains('{') {
            Form::NewBlock
        } else {
            return None;
        };
        Some(Self { offset: last, form })
    }

    /// The same position, in a list of contents in the Responses API.
    pub(super) fn as_input_text(self) -> Self {
        Self { form: Form::NewInputText, ..self }
    }

    /// A position after the last part of a message in Gemini's API. `None` unless `parts` is a list
    /// with at least one part.
    pub(super) fn as_part(body: &str, parts: &str) -> Option<Self> {
        let point = Self::at_end_of_content(body, parts)?;
        (point.form == Form::NewBlock).then_some(Self { form: Form::NewPart, ..point })
    }

    /// The same position, if it is in a list of content blocks. There the text becomes a block that is
    /// marked as a note, in the way of Claude Code. `None` for any other position.
    pub(super) fn as_reminder(self) -> Option<Self> {
        (self.form == Form::NewBlock).then_some(Self { form: Form::NewReminder, ..self })
    }

    /// A position directly after a field's value, in a JSON object that has no `content` field. An
    /// insertion adds this field.
    pub(super) fn after_field(body: &str, value: &str) -> Option<Self> {
        let offset = offset_in(body, value)?.checked_add(value.len())?;
        Some(Self { offset, form: Form::NewContentField })
    }

    /// A position after the last message, at which a new message with this role is added.
    pub(super) fn as_last_message(body: &str, messages: &str, role: &'static str) -> Option<Self> {
        let offset = offset_in(body, messages)?.checked_add(messages.len())?.checked_sub(1)?;
        Some(Self { offset, form: Form::NewMessage(role) })
    }

    /// Whether more than one text can be inserted here. This is false if the text becomes the
    /// `content` field of an object, because an object cannot have two `content` fields.
    pub(super) fn accepts_several(&self) -> bool {
        self.form != Form::NewContentField
    }

    /// The bytes to insert so that this text appears at this point.
    pub(crate) fn insertion(&self, text: &str) -> Insertion {
        let json = match self.form {
            Form::StringEnd => {
                let quoted = quoted(&format!("\n\n{text}"));
                let inside = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                inside.unwrap_or_default().to_owned()
            }
            Form::NewBlock => format!(r#",{{"type":"text","text":{}}}"#, quoted(text)),
            Form::NewInputText => {
                format!(r#",{{"type":"input_text","text":{}}}"#, quoted(text))
            }
            Form::NewPart => format!(r#",{{"text":{}}}"#, quoted(text)),
            Form::NewReminder => {
                let text = format!("<system-reminder>\n{text}\n</system-reminder>");
                format!(r#",{{"type":"text","text":{}}}"#, quoted(&text))
            }
            Form::NewContentField => format!(r#","content":{}"#, quoted(text)),
            Form::NewMessage(role) => {
                format!(r#",{{"role":"{role}","content":{}}}"#, quoted(text))
            }
        };
        Insertion { offset: self.offset, json }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The byte offset of `part`, which must be a slice of `body`; `None` if it is not.
fn offset_in(body: &str, part: &str) -> Option<usize> {
    let offset = part.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    (offset.checked_add(part.len())? <= body.len()).then_some(offset)
}

/// Returns the body with all insertions made. Insertions at the same offset keep their order.
pub(crate) fn insert(body: &[u8], insertions: &mut [Insertion]) -> Vec<u8> {
    insertions.sort_by_key(|insertion| insertion.offset);
    let added: usize = insertions.iter().map(|insertion| insertion.json.len()).sum();
    let mut out = Vec::with_capacity(body.len().saturating_add(added));
    let mut rest = body;
    for Insertion { offset, json } in insertions {
        let before = offset.saturating_sub(body.len().saturating_sub(rest.len()));
        // If the offset is beyond the end of the body, insert at the end.
        let (front, after) = rest.split_at_checked(before).unwrap_or((rest, &[]));
        out.extend_from_slice(front);
        out.extend_from_slice(json.as_bytes());
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}
