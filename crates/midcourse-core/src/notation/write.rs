//! Writes records in the notation. Parsing the output gives the same records again, as far as the
//! notation can express them.

use std::collections::VecDeque;

use serde_json::Value;

use super::parse::{has_mark, repetition};
use super::{STEP_MS, plain_args, plain_key};
use crate::analysis::call_failed;
use crate::record::{AgentMessage, CallId, TrajectoryPayload, TrajectoryRecord, UserContent};
use crate::time::Timestamp;

/// Writes records as text that `parse_notation` reads, one line for each call, message or other
/// event. A record that the notation cannot express becomes a comment with the record's kind.
///
/// Call ids, seqs, and the images and structured data of a result are not written.
pub fn write_notation(records: &[TrajectoryRecord]) -> String {
    let mut writer = Writer { text: String::new(), now: None, turn_started: false };
    let mut ends: Ends = records.iter().filter_map(end_of).collect();
    let mut rest = records.iter();
    while let Some(record) = rest.next() {
        if matches!(record.payload, TrajectoryPayload::TurnStarted) {
            writer.write_turn(record.at(), rest.as_slice());
        } else {
            writer.write(record, &mut ends);
        }
    }
    writer.text
}

/// The records that end calls, each with the call's id. `write_call` removes the record that ends
/// its call.
type Ends<'a> = VecDeque<(&'a CallId, &'a TrajectoryRecord)>;

fn end_of(record: &TrajectoryRecord) -> Option<(&CallId, &TrajectoryRecord)> {
    match &record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, .. }
        | TrajectoryPayload::Denied { tool_call_id, .. } => Some((tool_call_id, record)),
        _ => None,
    }
}

struct Writer {
    text: String,
    now: Option<Timestamp>,
    /// Whether the next call is the first call of its turn. If it is not, its line begins with `&`.
    turn_started: bool,
}

impl Writer {
    fn write(&mut self, record: &TrajectoryRecord, ends: &mut Ends<'_>) {
        match &record.payload {
            // The line of the call contains its end.
            TrajectoryPayload::ToolEnded { .. } | TrajectoryPayload::Denied { .. } => {}
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                self.write_call(record.at(), tool_call_id, tool_name, args, ends);
            }
            payload => match line_of(record) {
                Some(line) => self.write_line(record.at(), &line),
                None => self.text.push_str(&format!("# {}\n", payload.kind())),
            },
        }
    }

    /// Writes the start of a turn. The line of a call starts a turn by itself, so the start is
    /// written only if no call follows it at the same time.
    fn write_turn(&mut self, at: Timestamp, rest: &[TrajectoryRecord]) {
        let is_call = |record: &TrajectoryRecord| {
            matches!(record.payload, TrajectoryPayload::ToolStarted { .. })
        };
        let is_turn =
            |record: &TrajectoryRecord| matches!(record.payload, TrajectoryPayload::TurnStarted);
        let has_line = |record: &&TrajectoryRecord| {
            is_call(record) || is_turn(record) || line_of(record).is_some()
        };
        let next = rest.iter().find(has_line);
        self.turn_started = next.is_some_and(|next| next.at() == at && is_call(next));
        if !self.turn_started {
            self.write_line(at, "turn");
        }
    }

    fn write_line(&mut self, at: Timestamp, line: &str) {
        let since = match self.now.replace(at) {
            Some(before) => at.since(before).as_millis(),
            None => u128::from(STEP_MS),
        };
        if since != u128::from(STEP_MS) {
            self.text.push_str(&format!("+{since}ms "));
        } else if line.starts_with('#') || repetition(line).1 != line {
            // Only the first word of a line can be a repetition, or begin a comment.
            self.text.push_str("1x ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write_call(
        &mut self,
        at: Timestamp,
        id: &CallId,
        tool: &str,
        args: &Value,
        ends: &mut Ends<'_>,
    ) {
        let end = ends.iter().position(|(known, _)| *known == id);
        let end = end.and_then(|index| ends.remove(index)).map(|(_, record)| record);
        let ended_at = end.map_or(at, TrajectoryRecord::at);
        let mut line = String::new();
        let took = ended_at.since(at).as_millis();
        if took > 0 {
            line.push_str(&format!("~{took}ms "));
        }
        if !std::mem::take(&mut self.turn_started) {
            line.push_str("& ");
        }
        line.push_str(tool);
        let plain = args.get(plain_key(tool)).and_then(Value::as_str).unwrap_or_default();
        if plain_args(tool, plain) == *args && is_plain(plain) {
            if !plain.is_empty() {
                line.push(' ');
                line.push_str(plain);
            }
        } else {
            line.push(' ');
            line.push_str(&args.to_string());
        }
        let (mark, text) = match end.map(|record| &record.payload) {
            Some(TrajectoryPayload::ToolEnded { result, is_error, .. }) => {
                // The notation has no mark for a result without an error flag, so the text of such
                // a result decides between the marks for success and for an error.
                let failed = if result.is_error_unknown {
                    call_failed(tool, || args.clone(), result, *is_error)
                } else {
                    *is_error
                };
                (if failed { "!!" } else { "->" }, quoted(&result.comparable_text()))
            }
            Some(TrajectoryPayload::Denied { reason, .. }) => {
                ("xx", reason.as_deref().map(quoted).unwrap_or_default())
            }
            _ => ("..", String::new()),
        };
        line.push(' ');
        line.push_str(mark);
        if !text.is_empty() {
            line.push(' ');
            line.push_str(&text);
        }
        self.write_line(at, &line);
        self.now = Some(ended_at);
    }
}

/// The line for a record that is neither part of a call nor the start of a turn; `None` if the
/// notation cannot express it.
fn line_of(record: &TrajectoryRecord) -> Option<String> {
    Some(match &record.payload {
        TrajectoryPayload::MessageAppended { message } => match message {
            AgentMessage::User { content: UserContent::Text(text), .. } => {
                format!("user: {}", quoted(text))
            }
            AgentMessage::Assistant { content, .. } => {
                format!("assistant: {}", quoted(&content.plain_text()))
            }
            _ => return None,
        },
        TrajectoryPayload::ContextCompacted { .. } => "compaction".to_owned(),
        TrajectoryPayload::Resumed => "resume".to_owned(),
        TrajectoryPayload::DeadlineSet { at_unix_ms: None } => "deadline none".to_owned(),
        TrajectoryPayload::DeadlineSet { at_unix_ms: Some(at) } => {
            format!("deadline {}ms", at.since(record.at()).as_millis())
        }
        TrajectoryPayload::FileCreated { path } => format!("file {}", quoted(path)),
        TrajectoryPayload::ConfigApplied { prompt_name: Some(name), .. } => {
            format!("prompt {}", quoted(name))
        }
        TrajectoryPayload::RunEnded { outcome, .. } => format!("end {}", quoted(outcome.as_str())),
        _ => return None,
    })
}

/// Whether an argument can be written as plain text and parsed back.
fn is_plain(text: &str) -> bool {
    text.trim() == text && !text.starts_with('{') && !text.contains('\n') && !has_mark(text)
}

/// The text itself, or the text in quotes if the parser would otherwise change or split it.
fn quoted(text: &str) -> String {
    let is_safe = text.trim() == text
        && !text.starts_with('"')
        && !text.contains(['\n', '\r'])
        && !has_mark(text);
    if is_safe { text.to_owned() } else { Value::from(text).to_string() }
}
