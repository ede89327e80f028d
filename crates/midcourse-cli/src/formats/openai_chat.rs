//! Logs of chat messages in the form of OpenAI's API: a JSON list of messages, an object with
//! `messages`, a list or lines of such objects, or one message per line.
//!
//! Lines and documents are two formats, because lines are read one by one. A conversation that is only
//! a question and its reply is not the run of an agent; it is counted and left out. A run has the id
//! that its conversation has in the file. Otherwise the id is made from the name of the file and the
//! first messages.

mod lines;

use midcourse::Timestamp;
use serde_json::{Map, Value};

use super::chat_message::{AgentSigns, Message, text_field, time_of, usage_of};
use super::elements::for_each_element;
use super::transcript::{Transcript, fingerprint};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};

pub(crate) use lines::{reader as lines_reader, recognises as lines_recognises};

const HOST: &str = "openai-chat";

/// How conversations that are not runs of agents are counted.
const QUESTION_AND_REPLY: &str = "(question and reply)";

/// Fields of a conversation or message that identify the conversation, the best first.
const ID_FIELDS: [&str; 8] = [
    "run_id",
    "session_id",
    "conversation_id",
    "thread_id",
    "trace_id",
    "instance_id",
    "task_id",
    "id",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has_role = memchr::memmem::find(head.bytes, b"\"role\"").is_some();
    has_role && (head.has_keys(&["messages"]) || (head.is_list && head.has_keys(&["role"])))
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { file: FileNotes::new(file) })
}

struct Reader {
    file: FileNotes,
}

/// What is known about the file, and what has been left out of it.
struct FileNotes {
    stem: String,
    modified: Timestamp,
    left_out: u64,
}

impl FileNotes {
    fn new(file: &SessionFile<'_>) -> Self {
        Self { stem: file.stem(), modified: file.modified, left_out: 0 }
    }

    fn leave_out(&mut self, found: &mut Found) {
        self.left_out += 1;
        found.count(QUESTION_AND_REPLY, Fate::Ignored);
    }

    fn report(&self, found: &mut Found) {
        if self.left_out > 0 {
            found.problem = Some(format!(
                "left out {} without a tool call or a second response: no run of an agent",
                counted(self.left_out, "conversation")
            ));
        }
    }
}

/// A number and a noun.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let document = String::from_utf8_lossy(bytes);
        if !document.trim_start().starts_with('[') {
            return read_conversation(&document, None, &mut self.file, found);
        }
        let mut messages = Vec::new();
        let mut has_conversations = false;
        let error = for_each_element(&document, |element| {
            let parsed = serde_json::from_str::<Value>(element.text);
            has_conversations |=
                parsed.as_ref().is_ok_and(|parsed| parsed.get("messages").is_some());
            match parsed {
                _ if has_conversations => {
                    let position = Some(element.position + 1);
                    read_conversation(element.text, position, &mut self.file, found);
                }
                Ok(message) => messages.push(message),
                Err(_) => {}
            }
        });
        if !messages.is_empty() {
            record(&Map::new(), messages, None, &mut self.file, found);
        }
        found.cut_off(error.filter(|_| !has_conversations));
    }

    fn end(&mut self, found: &mut Found) {
        self.file.report(found);
    }
}

/// Reads an object with `messages`, as far as it is valid.
fn read_conversation(text: &str, position: Option<usize>, file: &mut FileNotes, found: &mut Found) {
    let (mut fields, mut messages) = (Map::new(), Vec::new());
    let error = for_each_part(text, &["messages"], |part| match part {
        Part::Field(name, value) => {
            if let Ok(value) = serde_json::from_str(value.get()) {
                fields.insert(name.to_owned(), value);
            }
        }
        Part::Element(_, _, message) => match serde_json::from_str(message.get()) {
            Ok(message) => messages.push(message),
            Err(error) => found.invalid("(message)", error),
        },
    });
    if let Some(error) = error {
        found.invalid("(conversation)", format!("used only what comes before the error: {error}"));
    }
    if messages.is_empty() {
        found.count("(no messages)", Fate::Unknown);
    } else {
        record(&fields, messages, position, file, found);
    }
}

/// Records a whole conversation, if it is the run of an agent.
fn record(
    fields: &Map<String, Value>,
    messages: Vec<Value>,
    position: Option<usize>,
    file: &mut FileNotes,
    found: &mut Found,
) {
    let mut chat = Chat::default();
    for message in messages {
        chat.add(message, fields, position, file, found);
    }
    match &chat.run {
        None => file.leave_out(found),
        // The tokens of the whole conversation.
        Some(run) => {
            if let Some(usage) = fields.get("usage").and_then(usage_of) {
                run.usage("total", usage, found);
            }
        }
    }
}

/// A conversation, while it is being read.
#[derive(Default)]
struct Chat {
    /// Messages from before there was a sign that this is the run of an agent.
    waiting: Vec<Value>,
    signs: AgentSigns,
    run: Option<Transcript>,
}

impl Chat {
    /// Maximum number of messages that wait for a sign of an agent. A longer conversation is recorded
    /// without one.
    const MAX_WAITING: usize = 100;

    /// Adds a message. `fields` are those of its conversation or, in a file with one message per
    /// line, of the message itself.
    fn add(
        &mut self,
        message: Value,
        fields: &Map<String, Value>,
        position: Option<usize>,
        file: &FileNotes,
        found: &mut Found,
    ) {
        if let Some(run) = &mut self.run {
            return record_message(&message, run, found);
        }
        self.signs.add(&Message::parse(&message));
        self.waiting.push(message);
        if !self.signs.is_agent() && self.waiting.len() < Self::MAX_WAITING {
            return;
        }
        let run_id = self.run_id(fields, position, file);
        let at = self.waiting.iter().find_map(message_time).unwrap_or(file.modified);
        let run = self.run.insert(Transcript::start(&run_id, HOST, at, found));
        let model = fields.get("model").and_then(Value::as_str).map(ToOwned::to_owned);
        run.describe(model, None, found);
        for message in std::mem::take(&mut self.waiting) {
            record_message(&message, run, found);
        }
    }

    fn run_id(
        &self,
        fields: &Map<String, Value>,
        position: Option<usize>,
        file: &FileNotes,
    ) -> String {
        let stem = &file.stem;
        if let Some(id) = own_id(fields) {
            return format!("{stem}:{id}");
        }
        let messages: Vec<_> = self.waiting.iter().map(Value::to_string).collect();
        let fingerprint = fingerprint(messages.iter().map(String::as_str));
        match position {
            Some(position) => format!("{stem}:{position}-{fingerprint}"),
            None => format!("{stem}-{fingerprint}"),
        }
    }
}

/// The id that a conversation has in its file.
fn own_id(fields: &Map<String, Value>) -> Option<String> {
    ID_FIELDS.iter().find_map(|name| match fields.get(*name)? {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
}

fn message_time(message: &Value) -> Option<Timestamp> {
    ["timestamp", "created_at", "created", "time"]
        .iter()
        .find_map(|name| time_of(message.get(*name)?))
}

fn record_message(message: &Value, run: &mut Transcript, found: &mut Found) {
    if let Some(at) = message_time(message) {
        run.at = at;
    }
    let mut parsed = Message::parse(message);
    if let Message::Result(result) = &mut parsed {
        // Not OpenAI's, but some programs add it.
        result.is_error = message.get("is_error").and_then(Value::as_bool);
    }
    if let Message::Unknown(_) = &parsed
        && !text_field(message, "type").is_empty()
    {
        parsed = Message::Unknown(format!("type {}", text_field(message, "type")));
    }
    parsed.record(run, found);
}
