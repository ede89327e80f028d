//! Gemini CLI's session files (`~/.gemini/tmp/…/chats/session-*`): one JSON object per line or, before
//! release 0.30, one JSON document with a list of messages.
//!
//! A model response with tool calls has two lines with the same id: one before and one after the calls
//! have ended. A line `$set` changes fields of the session, among them the list of messages; what it
//! repeats is left out. Hooks of Gemini CLI do not report the ids of calls that are in these files.

use std::borrow::Cow;

use midcourse::{AgentMessage, Timestamp, ToolResult, TrajectoryPayload};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::imported_run::{Call, Description, ImportedRun, Seen};
use super::super::payload::tool_ended;
use super::super::{Host, session_run};
use super::decode::without_hook_context;
use super::transcript::TokensWire;
use crate::session_file::{
    Fate, Found, Head, LineTime, Part, SessionFile, SessionReader, for_each_part, parse_time,
};

/// Beginnings of texts that Gemini CLI adds to a conversation in the name of the user.
const INJECTED_TEXTS: [&str; 2] =
    ["<session_context>", "This is the Gemini CLI. We are setting up"];

/// What separates a result from what hooks added to it.
const HOOK_CONTEXT: &str = "\n\n<hook_context>";

/// Beginnings of the errors of calls that the user or a policy refused.
const REFUSALS: [&str; 2] = [
    "Tool execution denied by policy",
    "[Operation Cancelled] Reason: User did not allow tool call",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_message = |line: &serde_json::Map<String, Value>| {
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        ["user", "gemini"].contains(&kind)
            && ["id", "timestamp", "content"].iter().all(|key| line.contains_key(*key))
    };
    let is_header = |line: &serde_json::Map<String, Value>| {
        line.contains_key("sessionId") && line.contains_key("projectHash")
    };
    head.lines.iter().any(|line| is_header(line) || is_message(line))
        || head.has_keys(&["sessionId", "projectHash", "messages"])
        || (head.has_keys(&["id", "timestamp", "type", "content"])
            && memchr::memmem::find(head.bytes, br#""type": "gemini""#).is_some())
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    let folder = file.path.parent().and_then(|folder| folder.file_name());
    Box::new(Reader {
        time: LineTime::new(file),
        session: None,
        id_from_name: file.stem(),
        folder: folder.map(|name| name.to_string_lossy().into_owned()),
        run: None,
        open_id: None,
        seen: Seen::default(),
    })
}

struct Reader {
    time: LineTime,
    session: Option<SessionWire>,
    /// The id of the session, if no line has it.
    id_from_name: String,
    /// Name of the folder, which for a subagent is the id of its parent's session.
    folder: Option<String>,
    run: Option<ImportedRun>,
    /// Id of the response that is read.
    open_id: Option<String>,
    seen: Seen,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionWire {
    session_id: String,
    kind: Option<String>,
    start_time: Option<String>,
}

#[derive(Deserialize)]
struct LineWire<'a> {
    #[serde(borrow, rename = "sessionId")]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, rename = "$set")]
    set: Option<SetWire<'a>>,
    #[serde(borrow, rename = "$rewindTo")]
    rewind: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct SetWire<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageWire {
    id: String,
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    /// A text, or a list of parts.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    thoughts: Vec<ThoughtWire>,
    tokens: Option<TokensWire>,
    model: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallWire>,
}

#[derive(Deserialize)]
struct ThoughtWire {
    #[serde(default)]
    subject: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallWire {
    id: String,
    name: String,
    #[serde(default)]
    args: Value,
    status: Option<String>,
    timestamp: Option<String>,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    result_display: Value,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        match serde_json::from_slice::<LineWire<'_>>(bytes) {
            Ok(LineWire { messages: None, set: Some(set), .. }) => {
                let messages = set.messages.unwrap_or_default();
                let fate = if messages.is_empty() { Fate::Ignored } else { Fate::Used };
                found.count("$set", fate);
                messages.into_iter().for_each(|message| self.read_message(message, found));
            }
            Ok(LineWire { rewind: Some(_), .. }) => found.count("$rewindTo", Fate::Ignored),
            Ok(LineWire { kind: Some(_), .. }) => match serde_json::from_slice(bytes) {
                Ok(message) => self.read_message(message, found),
                Err(error) => found.invalid("(invalid line)", error),
            },
            Ok(LineWire { session_id: Some(_), messages: None, .. }) => {
                match serde_json::from_slice(bytes) {
                    Ok(session) => self.session = Some(session),
                    Err(error) => return found.invalid("(session)", error),
                }
                found.count("(session)", Fate::Used);
            }
            // A document, or one that is cut off.
            Ok(LineWire { messages: Some(_), .. }) | Err(_) => self.read_document(bytes, found),
            Ok(_) => {
                let (at, key) = (self.time.latest(), self.id_from_name.clone());
                self.run(at, found).unread(at, &key, bytes, found);
                found.count("(no type)", Fate::Unknown);
            }
        }
    }

    fn end(&mut self, found: &mut Found) {
        if let Some(run) = &mut self.run {
            run.finish_response(found);
        }
    }
}

impl Reader {
    fn read_document(&mut self, bytes: &[u8], found: &mut Found) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).unwrap_or_default()
            }
        };
        let error = for_each_part(text, &["messages"], |part| match part {
            Part::Field("sessionId", id) => {
                if let Ok(session_id) = serde_json::from_str(id.get()) {
                    let session = SessionWire { session_id, kind: None, start_time: None };
                    self.session = Some(session);
                    found.count("(session)", Fate::Used);
                }
            }
            Part::Field("startTime", time) => {
                let start_time = serde_json::from_str(time.get()).ok();
                if let Some(session) = &mut self.session {
                    session.start_time = start_time;
                }
            }
            Part::Field(..) => {}
            Part::Element(_, _, message) => self.read_message(message, found),
        });
        if let Some(error) = error {
            found.invalid("(invalid document)", error);
        }
    }

    fn read_message(&mut self, message: &RawValue, found: &mut Found) {
        let wire: MessageWire = match serde_json::from_str(message.get()) {
            Ok(wire) => wire,
            Err(error) => return found.invalid("(invalid message)", error),
        };
        let at = self.time.of_line(wire.timestamp.as_deref());
        let kind = wire.kind.clone();
        let fate = match kind.as_str() {
            "gemini" => self.read_response(wire, at, found),
            _ if !self.seen.is_new(("message", &wire.id)) => Fate::Ignored,
            "user" => self.read_user(&wire, at, found),
            "error" => {
                let run = self.run(at, found);
                run.finish_response(found);
                run.error(at, &wire.id, text_of(&wire.content).join("\n"), found);
                run.finish_response(found);
                Fate::Used
            }
            "info" | "warning" => Fate::Ignored,
            _ => {
                let bytes = message.get().as_bytes();
                self.run(at, found).unread(at, &wire.id, bytes, found);
                Fate::Unknown
            }
        };
        found.count(&kind, fate);
    }

    fn read_user(&mut self, message: &MessageWire, at: Timestamp, found: &mut Found) -> Fate {
        let is_injected = |text: &String| {
            INJECTED_TEXTS.iter().any(|beginning| text.trim_start().starts_with(beginning))
        };
        let mut texts = text_of(&message.content);
        texts.retain(|text| !is_injected(text));
        if texts.is_empty() {
            // Context that Gemini CLI adds, or results, which are with the calls too.
            return Fate::Ignored;
        }
        let text = texts.join("\n");
        let prompt = AgentMessage::user(without_hook_context(&text));
        self.run(at, found).message(at, &message.id, prompt, found);
        Fate::Used
    }

    fn read_response(&mut self, message: MessageWire, at: Timestamp, found: &mut Found) -> Fate {
        let MessageWire { id, content, thoughts, tokens, model, tool_calls, .. } = message;
        let is_new = self.seen.is_new(("message", &id));
        let is_open = self.open_id.as_ref() == Some(&id);
        let run = self.run(at, found);
        if !is_open {
            run.finish_response(found);
        }
        if is_new {
            run.describe(at, Description { model, ..Description::default() }, found);
            for ThoughtWire { subject, description } in thoughts {
                let parts: Vec<_> =
                    [subject, description].into_iter().filter(|it| !it.is_empty()).collect();
                run.reasoning(at, &id, parts.join(": "), found);
            }
            for text in text_of(&content) {
                run.text(at, &id, text, found);
            }
            if let Some(tokens) = tokens {
                run.usage(at, id.clone(), tokens.usage(), found);
            }
        }
        let (mut ended, mut is_used) = (Vec::new(), is_new);
        for call in tool_calls {
            if self.seen.is_new(("call", &call.id)) {
                is_used = true;
                let started =
                    Call { id: call.id.clone(), tool: call.name.clone(), args: call.args.clone() };
                self.run(at, found).call(at, &id, started, found);
            }
            if !call.result.is_null() && self.seen.is_new(("result", &call.id)) {
                is_used = true;
                ended.push(call);
            }
        }
        for call in ended {
            let at = call.timestamp.as_deref().and_then(parse_time).unwrap_or(at);
            let id = call.id.clone();
            self.run(at, found).end_call(at, &id, found, |_| end(call));
        }
        self.open_id = Some(id);
        if is_used { Fate::Used } else { Fate::Ignored }
    }

    fn run(&mut self, at: Timestamp, found: &mut Found) -> &mut ImportedRun {
        let Self { run, session, id_from_name, folder, .. } = self;
        run.get_or_insert_with(|| {
            let (id, parent, start) = match session {
                None => (&*id_from_name, None, None),
                Some(session) => {
                    let is_subagent = session.kind.as_deref() == Some("subagent");
                    let parent = folder.as_deref().filter(|_| is_subagent);
                    let start = session.start_time.as_deref().and_then(parse_time);
                    (&session.session_id, parent, start)
                }
            };
            let identity = match parent {
                Some(parent) => session_run(parent, Some(id)),
                None => session_run(id, None),
            };
            ImportedRun::start(identity, Host::Gemini, start.unwrap_or(at), found)
        })
    }
}

/// The texts of a message.
fn text_of(content: &Value) -> Vec<String> {
    let texts: Vec<&str> = match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => Vec::new(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).map(ToOwned::to_owned).collect()
}

/// The end of a call. The result is what the model reads, as in hooks.
fn end(call: CallWire) -> TrajectoryPayload {
    let responses = match &call.result {
        Value::Array(parts) => parts.as_slice(),
        part => std::slice::from_ref(part),
    };
    let response = responses.iter().find_map(|part| part.pointer("/functionResponse/response"));
    let field = |name: &str| response.and_then(|response| response.get(name)).map(as_text);
    let error = field("error");
    let is_error = error.is_some() || call.status.is_some_and(|status| status != "success");
    let text = error.or_else(|| field("output")).or_else(|| response.map(Value::to_string));
    let text = text.unwrap_or_else(|| as_text(&call.result_display));
    if REFUSALS.iter().any(|beginning| text.starts_with(beginning)) {
        return TrajectoryPayload::Denied {
            tool_call_id: call.id.into(),
            tool_name: call.name.into(),
            reason: Some(text),
        };
    }
    let text = text.split_once(HOOK_CONTEXT).map_or(text.as_str(), |(text, _)| text);
    tool_ended(call.id, call.name, ToolResult { is_error, ..ToolResult::text(text) })
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
