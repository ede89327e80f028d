//! Chat messages as JSON lines: a conversation per line, or a message per line.

use std::collections::HashMap;

use serde_json::Value;

use super::{Chat, FileNotes, own_id, read_conversation};
use crate::session_file::{Fate, Found, Head, SessionFile, SessionReader};

/// Maximum number of conversations in a file with one message per line. Messages of further
/// conversations are counted as unknown.
const MAX_CHATS: usize = 1_000;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_role = |value: &Value| value.get("role").is_some_and(Value::is_string);
    let is_chat = |line: &serde_json::Map<String, Value>| match line.get("messages") {
        Some(Value::Array(messages)) => messages.first().is_some_and(is_role),
        _ => line.get("role").is_some_and(Value::is_string) && line.contains_key("content"),
    };
    // The first line may be longer than the part of the file that is known here.
    let is_long_line = || {
        head.bytes.first() == Some(&b'{')
            && !head.bytes.contains(&b'\n')
            && head.has_keys(&["messages"])
            && memchr::memmem::find(head.bytes, b"\"role\"").is_some()
    };
    head.lines.iter().any(is_chat) || is_long_line()
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { file: FileNotes::new(file), lines: 0, chats: HashMap::new() })
}

struct Reader {
    file: FileNotes,
    lines: usize,
    /// The conversations of a file with one message per line, by id. Messages without an id belong
    /// to the same one.
    chats: HashMap<Option<String>, Chat>,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        self.lines += 1;
        let line = String::from_utf8_lossy(bytes);
        match serde_json::from_str(&line) {
            Ok(Value::Object(fields)) if fields.contains_key("role") => {
                let mut id_fields = fields.clone();
                // Here, this identifies the message.
                id_fields.remove("id");
                let id = own_id(&id_fields);
                if self.chats.len() == MAX_CHATS && !self.chats.contains_key(&id) {
                    return found.count("(too many conversations)", Fate::Unknown);
                }
                let chat = self.chats.entry(id).or_default();
                chat.add(Value::Object(fields), &id_fields, None, &self.file, found);
            }
            Ok(Value::Object(fields)) if !fields.contains_key("messages") => {
                found.count("(no messages)", Fate::Unknown);
            }
            Ok(Value::Object(_)) => {
                read_conversation(&line, Some(self.lines), &mut self.file, found);
            }
            Ok(_) => found.count("(not an object)", Fate::Unknown),
            Err(_) if line.contains("\"messages\"") => {
                read_conversation(&line, Some(self.lines), &mut self.file, found);
            }
            Err(error) => found.invalid("(invalid line)", error),
        }
    }

    fn end(&mut self, found: &mut Found) {
        for _ in self.chats.values().filter(|chat| chat.run.is_none()) {
            self.file.leave_out(found);
        }
        self.file.report(found);
    }
}
