//! opencode's sessions: rows of its database (`~/.local/share/opencode/opencode.db`), files of its
//! storage folder (before release 1.2), or the document that `opencode export` prints.
//!
//! All of them consist of sessions, messages and the parts of messages. `session_format` passes the
//! parts of a message right after the message. Ids of runs, calls, messages and turns are those that
//! midcourse's plugin reports. A session with a parent is the run of a subagent.

mod wire;

use std::collections::HashMap;

use midcourse::{AgentMessage, Timestamp, TrajectoryPayload};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::Host;
use super::super::imported_run::{Call, Description, ImportedRun, ImportedRuns};
use super::decode::{called_tool, ended, failed};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};
use wire::{Kind, MessageWire, PartWire, PieceWire, SessionWire, StateWire};

/// How a SQLite database begins.
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";

/// Maximum number of sessions that are remembered to find the parents of subagents.
const MAX_SESSIONS: usize = 10_000;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    if head.bytes.starts_with(SQLITE_HEADER) {
        return head.is_named(|name| name.starts_with("opencode"));
    }
    let is_session = |bytes: &[u8]| memchr::memmem::find(bytes, b"\"ses_").is_some();
    (head.has_keys(&["info", "messages"])
        || head.has_keys(&["id", "directory", "title", "time"])
        || head.has_keys(&["id", "role", "sessionID"])
        || head.has_keys(&["id", "messageID", "sessionID", "type"]))
        && is_session(head.bytes)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader {
        file_time: file.modified,
        runs: ImportedRuns::default(),
        parents: HashMap::new(),
        message: None,
        latest: HashMap::new(),
    })
}

struct Reader {
    file_time: Timestamp,
    runs: ImportedRuns,
    /// The parents of the sessions, by session.
    parents: HashMap<String, Option<String>>,
    /// The message whose parts are read.
    message: Option<OpenMessage>,
    /// The latest message of each session.
    latest: HashMap<String, String>,
}

struct OpenMessage {
    id: String,
    session: String,
    is_user: bool,
    at: Timestamp,
    /// The texts of a user.
    texts: Vec<String>,
    /// The ends of the message's calls, which follow their starts.
    ends: Vec<(Timestamp, String, TrajectoryPayload)>,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        match serde_json::from_slice::<PieceWire<'_>>(bytes) {
            Ok(piece) if piece.messages.is_none() => {
                let kind = piece.kind();
                if let Err(error) = self.read_piece(kind, &piece, bytes, found) {
                    found.invalid(kind.name(), error);
                }
            }
            // A document, or one that is cut off.
            Ok(_) | Err(_) => self.read_document(bytes, found),
        }
    }

    fn end(&mut self, found: &mut Found) {
        self.finish_message(found);
        self.runs.finish_responses(found);
    }
}

impl Reader {
    /// Reads a document of `opencode export`.
    fn read_document(&mut self, bytes: &[u8], found: &mut Found) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).unwrap_or_default()
            }
        };
        let error = for_each_part(text, &["messages"], |part| {
            let result = match part {
                Part::Field("info", session) => self.read_raw(Kind::Session, session, found),
                Part::Field(..) => Ok(()),
                Part::Element(_, _, message) => self.read_exported(message, found),
            };
            if let Err(error) = result {
                found.invalid("(document)", error);
            }
        });
        if let Some(error) = error {
            found.invalid("(document)", error);
        }
    }

    fn read_exported(
        &mut self,
        message: &RawValue,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let exported: wire::ExportedWire<'_> = serde_json::from_str(message.get())?;
        self.read_raw(Kind::Message, exported.info, found)?;
        for part in exported.parts {
            if let Err(error) = self.read_raw(Kind::Part, part, found) {
                found.invalid(Kind::Part.name(), error);
            }
        }
        Ok(())
    }

    fn read_raw(
        &mut self,
        kind: Kind,
        raw: &RawValue,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let piece = serde_json::from_str(raw.get())?;
        self.read_piece(kind, &piece, raw.get().as_bytes(), found)
    }

    fn read_piece(
        &mut self,
        kind: Kind,
        piece: &PieceWire<'_>,
        bytes: &[u8],
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        // In the database, ids are in columns and the rest is in `data`.
        let data = piece.data.map_or(bytes, |data| data.get().as_bytes());
        let id = piece.id.clone().unwrap_or_default();
        match kind {
            Kind::Session => {
                self.finish_message(found);
                self.read_session(&id, serde_json::from_slice(data)?, found);
                found.count(kind.name(), Fate::Used);
            }
            Kind::Message => {
                self.finish_message(found);
                let message: MessageWire = serde_json::from_slice(data)?;
                let name = format!("message {}", message.role);
                let session = piece.session_id.clone().unwrap_or_default();
                let fate = self.read_message(&id, session, message, found);
                found.count(&name, fate);
            }
            Kind::Part => {
                let part: PartWire = serde_json::from_slice(data)?;
                let name = format!("part {}", part.kind);
                let fate = match &self.message {
                    Some(message) if piece.message_id.as_ref() == Some(&message.id) => {
                        self.read_part(&id, part, bytes, found)
                    }
                    // A file that belongs to a session and was named or found by itself.
                    _ => Fate::Ignored,
                };
                found.count(&name, fate);
            }
            Kind::Unknown => found.count(kind.name(), Fate::Unknown),
        }
        Ok(())
    }

    fn read_session(&mut self, id: &str, session: SessionWire, found: &mut Found) {
        if id.is_empty() || self.parents.len() >= MAX_SESSIONS {
            return;
        }
        let parent = session.parent_id.filter(|parent| !parent.is_empty());
        self.parents.insert(id.to_owned(), parent);
        let at = session.time.unwrap_or_default().created.unwrap_or(self.file_time);
        if let Some(run) = self.run(id, at, found) {
            let about = Description {
                folder: session.directory,
                host_version: session.version,
                model: None,
            };
            run.describe(at, about, found);
        }
    }

    fn read_message(
        &mut self,
        id: &str,
        session: String,
        message: MessageWire,
        found: &mut Found,
    ) -> Fate {
        let is_user = match message.role.as_str() {
            "user" => true,
            "assistant" => false,
            _ => return Fate::Unknown,
        };
        if id.is_empty() || session.is_empty() || !self.parents.contains_key(&session) {
            return Fate::Ignored;
        }
        let at = message.time.unwrap_or_default().created.unwrap_or(self.file_time);
        let before = self.latest.insert(session.clone(), id.to_owned());
        let Some(run) = self.run(&session, at, found) else { return Fate::Unknown };
        if !is_user {
            if let Some(before) = before {
                run.start_turn(at, format!("after:{before}"), found);
            }
            let about = Description { model: message.model_id, ..Description::default() };
            run.describe(at, about, found);
            if let Some(error) = message.error {
                run.error(at, id, error.text(), found);
            }
            if let Some(tokens) = message.tokens.filter(|_| message.finish.is_some()) {
                run.usage(at, id.to_owned(), tokens.usage(), found);
            }
        }
        self.message = Some(OpenMessage {
            id: id.to_owned(),
            session,
            is_user,
            at,
            texts: Vec::new(),
            ends: Vec::new(),
        });
        Fate::Used
    }

    fn read_part(&mut self, id: &str, part: PartWire, bytes: &[u8], found: &mut Found) -> Fate {
        let Some(mut message) = self.message.take() else { return Fate::Ignored };
        let fate = self.read_part_of(&mut message, id, part, bytes, found);
        self.message = Some(message);
        fate
    }

    fn read_part_of(
        &mut self,
        message: &mut OpenMessage,
        id: &str,
        part: PartWire,
        bytes: &[u8],
        found: &mut Found,
    ) -> Fate {
        let at = message.at;
        let key = message.id.clone();
        let Some(run) = self.run(&message.session, at, found) else { return Fate::Unknown };
        let text = part.text.unwrap_or_default();
        match (part.kind.as_str(), part.state) {
            // opencode itself wrote a synthetic text.
            ("text", _) if part.synthetic || text.is_empty() => return Fate::Ignored,
            ("text", _) if message.is_user => message.texts.push(text),
            ("text", _) => run.text(at, &key, text, found),
            ("reasoning", _) if text.is_empty() => return Fate::Ignored,
            ("reasoning", _) => run.reasoning(at, &key, text, found),
            ("tool", Some(state)) => {
                let (Some(call), Some(tool)) = (part.call_id, part.tool) else {
                    return Fate::Unknown;
                };
                let time = state.time.unwrap_or_default();
                let start = time.start.unwrap_or(at);
                let started = Call {
                    id: call.clone(),
                    tool: called_tool(tool.clone(), &state.input),
                    args: state.input.clone(),
                };
                run.call(start, &key, started, found);
                if let Some(end) = end(call.clone(), tool, state) {
                    message.ends.push((time.end.unwrap_or(start), call, end));
                }
            }
            ("compaction", _) => {
                let compacted = TrajectoryPayload::ContextCompacted { trigger: None };
                run.fact(at, format!("part:{id}"), compacted, found);
            }
            (
                "step-start" | "step-finish" | "snapshot" | "patch" | "file" | "agent" | "retry"
                | "subtask",
                _,
            ) => return Fate::Ignored,
            _ => {
                run.unread(at, id, bytes, found);
                return Fate::Unknown;
            }
        }
        Fate::Used
    }

    /// Records the message whose parts have been read.
    fn finish_message(&mut self, found: &mut Found) {
        let Some(message) = self.message.take() else { return };
        let Some(run) = self.run(&message.session, message.at, found) else { return };
        run.finish_response(found);
        if message.is_user && !message.texts.is_empty() {
            let prompt = AgentMessage::user(message.texts.join("\n"));
            run.message(message.at, &message.id, prompt, found);
        }
        for (at, call, end) in message.ends {
            run.end_call(at, &call, found, |_| end);
        }
    }

    fn run(&mut self, session: &str, at: Timestamp, found: &mut Found) -> Option<&mut ImportedRun> {
        let identity = match self.parents.get(session).and_then(Option::as_deref) {
            Some(parent) => (parent, Some(session)),
            None => (session, None),
        };
        self.runs.run(Host::Opencode, identity, at, found)
    }
}

/// The end of a call, as midcourse's plugin reports it; `None` if the call has not ended.
fn end(call: String, tool: String, state: StateWire) -> Option<TrajectoryPayload> {
    match state.status.as_str() {
        "completed" => {
            // An exit code of null means that the command was killed; the plugin says `none`.
            let exit = match state.metadata.get("exit") {
                Some(Value::Null) => Value::String("none".to_owned()),
                Some(exit) => exit.clone(),
                None => Value::Null,
            };
            Some(ended(call, tool, &state.input, state.output.unwrap_or_default(), &exit))
        }
        "error" => {
            let tool = called_tool(tool, &state.input);
            Some(failed(call, tool, state.error.unwrap_or_default()))
        }
        _ => None,
    }
}
