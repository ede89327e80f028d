//! Makes the records of a run from its messages, tool calls and results, in the order of the file.
//!
//! The readers of files that consist of messages share this module. The keys of records are their
//! positions in the run, so importing a file again, or after it has grown, adds only what is missing.
//! Call ids that occur twice in a run are told apart by a number.

use std::collections::HashMap;

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, DecisionPoint, MicroUsd, RunIdentity,
    RunOutcome, StopReason, TextContent, Timestamp, ToolCallBlock, ToolResult, TrajectoryPayload,
    Usage,
};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::session_file::{Found, RunEvents};

/// Maximum number of calls without a result that are remembered.
const MAX_OPEN_CALLS: usize = 1_000;

/// A model response.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Default)]
pub(super) struct Call {
    /// The id in the file; empty if the format has none.
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) args: Value,
}

/// The result of a tool call.
#[derive(Debug, Default)]
pub(super) struct CallResult {
    /// The id of the call; empty if the format has none. Then it is the result of the oldest call
    /// without one.
    pub(super) id: String,
    /// The name of the tool; empty if the file has it only at the call.
    pub(super) tool: String,
    pub(super) text: String,
    /// `None` if the file does not say whether the call failed.
    pub(super) is_error: Option<bool>,
}

/// A run, while its file is being read.
#[derive(Debug)]
pub(super) struct Transcript {
    events: RunEvents,
    /// Time of the next records.
    pub(super) at: Timestamp,
    /// Whether several agents talk to each other: after the response of one, another is asked.
    pub(super) is_group_chat: bool,
    messages: u64,
    responses: u64,
    calls: u64,
    open: Vec<OpenCall>,
    /// How often each call id has occurred, by its hash.
    ids: HashMap<u64, u32>,
}

#[derive(Debug)]
struct OpenCall {
    id_in_file: String,
    /// The id in the records.
    id: String,
    tool: String,
}

impl Transcript {
    /// `host` names the agent or dataset.
    pub(super) fn start(run_id: &str, host: &str, at: Timestamp, found: &mut Found) -> Self {
        let events = RunEvents::new(RunIdentity::root(run_id), host);
        found.push(events.started(at));
        let ids = HashMap::new();
        let is_group_chat = false;
        Self {
            is_group_chat,
            events,
            at,
            messages: 0,
            responses: 0,
            calls: 0,
            open: Vec::new(),
            ids,
        }
    }

    pub(super) fn describe(
        &self,
        model: Option<String>,
        host_version: Option<String>,
        found: &mut Found,
    ) {
        if model.is_none() && host_version.is_none() {
            return;
        }
        let described = TrajectoryPayload::RunDescribed {
            folder: None,
            command: None,
            host_version,
            model,
            exit_code: None,
        };
        found.push(self.events.keyed(self.at, "about", described));
    }

    /// Records a message of the user to this run.
    pub(super) fn user(&mut self, text: String, found: &mut Found) {
        self.append(AgentMessage::user(text), found);
    }

    pub(super) fn system(&mut self, text: String, found: &mut Found) {
        self.append(AgentMessage::System { content: text, timestamp: None }, found);
    }

    /// Records a message that nobody wrote in this run, such as a demonstration or a reminder.
    pub(super) fn generated(&mut self, kind: &str, text: String, found: &mut Found) {
        let payload = Value::String(text);
        self.append(
            AgentMessage::Custom { kind: kind.to_owned(), payload, timestamp: None },
            found,
        );
    }

    pub(super) fn response(&mut self, response: Response, found: &mut Found) {
        let Response { text, reasoning, calls, usage } = response;
        self.responses += 1;
        if !calls.is_empty() {
            let key = format!("turn:{}", self.responses);
            found.push(self.events.keyed(self.at, key, TrajectoryPayload::TurnStarted));
        }
        let calls: Vec<_> = calls.into_iter().map(|call| (self.unique_id(&call), call)).collect();
        let mut blocks = Vec::new();
        if !reasoning.trim().is_empty() {
            blocks.push(AssistantBlock::Reasoning(TextContent { text: reasoning }));
        }
        if !text.trim().is_empty() {
            blocks.push(AssistantBlock::Text(TextContent { text }));
        }
        if blocks.is_empty() {
            // The message adds nothing to the records of its calls.
            if let Some(usage) = usage {
                self.usage(&format!("response:{}", self.responses), usage, found);
            }
        } else {
            blocks.extend(calls.iter().map(|(id, call)| {
                AssistantBlock::ToolCall(ToolCallBlock {
                    id: id.into(),
                    name: call.tool.as_str().into(),
                    arguments: Value::Null,
                })
            }));
            let is_end = calls.is_empty();
            let message = AgentMessage::Assistant {
                content: AssistantContent { blocks },
                stop_reason: if is_end { StopReason::EndTurn } else { StopReason::ToolUse },
                error_message: None,
                timestamp: None,
                usage,
            };
            self.append(message, found);
        }
        for (id, call) in calls {
            self.start_call(id, call, found);
        }
    }

    /// Records the result of a call. If the file does not contain the call itself, the result
    /// stands for it. Returns whether the result is new: a call has only one.
    pub(super) fn result(&mut self, result: CallResult, found: &mut Found) -> bool {
        let is_of = |open: &OpenCall| result.id.is_empty() || open.id_in_file == result.id;
        let OpenCall { id, tool, .. } = if let Some(at) = self.open.iter().position(is_of) {
            self.open.remove(at)
        } else {
            if !result.id.is_empty() && self.ids.contains_key(&xxh3_64(result.id.as_bytes())) {
                return false;
            }
            let call = Call { id: result.id, tool: result.tool, args: Value::Null };
            let id = self.unique_id(&call);
            self.start_call(id, call, found);
            let Some(started) = self.open.pop() else { return false };
            started
        };
        let is_error = result.is_error.unwrap_or(false);
        let is_error_unknown = result.is_error.is_none();
        let ended = TrajectoryPayload::ToolEnded {
            tool_call_id: id.into(),
            tool_name: tool.into(),
            result: ToolResult { is_error, is_error_unknown, ..ToolResult::text(result.text) },
            is_error,
        };
        found.push(self.events.event(self.at, ended));
        true
    }

    /// Whether a call has no result yet.
    pub(super) fn has_open_call(&self) -> bool {
        !self.open.is_empty()
    }

    /// Records tokens that belong to no message.
    pub(super) fn usage(&self, key: &str, usage: Usage, found: &mut Found) {
        let reported = TrajectoryPayload::UsageReported { usage };
        found.push(self.events.keyed(self.at, format!("usage:{key}"), reported));
    }

    /// Records what the whole run has cost, in US dollars.
    #[expect(clippy::cast_possible_truncation, reason = "the amount is an integer in this range")]
    pub(super) fn cost(&self, dollars: f64, found: &mut Found) {
        let micro = (dollars * 1e6).round();
        if micro.is_finite() && micro > 0.0 && micro < 1e15 {
            let total_micro_usd = MicroUsd::from_micro(micro as u64);
            let reported = TrajectoryPayload::CostReported { total_micro_usd };
            found.push(self.events.keyed(self.at, "cost", reported));
        }
    }

    pub(super) fn end(&self, outcome: RunOutcome, found: &mut Found) {
        let ended = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
        found.push(self.events.keyed(self.at, "end", ended));
    }

    fn append(&mut self, message: AgentMessage, found: &mut Found) {
        self.messages += 1;
        let key = format!("message:{}", self.messages);
        // These messages are followed by a model request, like those of a user.
        let is_point = match &message {
            AgentMessage::Custom { .. } => self.responses > 0,
            AgentMessage::Assistant { content, .. } => {
                self.is_group_chat && !content.has_tool_calls()
            }
            _ => false,
        };
        let appended = TrajectoryPayload::MessageAppended { message };
        let mut event = self.events.keyed(self.at, key, appended);
        if is_point {
            event.decision_point = Some(DecisionPoint::PreToolSelection);
        }
        found.push(event);
    }

    fn start_call(&mut self, id: String, call: Call, found: &mut Found) {
        let started = TrajectoryPayload::ToolStarted {
            tool_call_id: id.as_str().into(),
            tool_name: call.tool.as_str().into(),
            args: call.args,
        };
        found.push(self.events.event(self.at, started));
        if self.open.len() == MAX_OPEN_CALLS {
            self.open.remove(0);
        }
        self.open.push(OpenCall { id_in_file: call.id, id, tool: call.tool });
    }

    /// An id that no other call of this run has: the one in the file, if it is the first such call.
    fn unique_id(&mut self, call: &Call) -> String {
        self.calls += 1;
        if call.id.is_empty() {
            return format!("call-{}", self.calls);
        }
        let count = self.ids.entry(xxh3_64(call.id.as_bytes())).or_default();
        *count += 1;
        match count {
            1 => call.id.clone(),
            count => format!("{}#{count}", call.id),
        }
    }
}

/// A short text that differs if `parts` differ, for ids of runs that have none of their own.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{:08x}", hasher.digest() & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Call {
        Call { id: id.to_owned(), tool: "bash".to_owned(), args: Value::Null }
    }

    fn result(id: &str) -> CallResult {
        CallResult { id: id.to_owned(), text: "ok".to_owned(), ..CallResult::default() }
    }

    fn call_ids(found: &Found) -> Vec<(&str, &str)> {
        let events = found.records.iter().flat_map(|record| &record.events);
        let of = |event: &'_ midcourse::Event| event.payload.call_id().is_some();
        events
            .filter(|event| of(event))
            .map(|event| (event.payload.kind(), event.payload.call_id().unwrap().as_str()))
            .collect()
    }

    #[test]
    fn calls_with_the_same_id_are_told_apart() {
        let mut found = Found::default();
        let mut run = Transcript::start("r", "test", Timestamp::default(), &mut found);
        for _ in 0..2 {
            run.response(Response { calls: vec![call("a")], ..Response::default() }, &mut found);
            assert!(run.result(result("a"), &mut found));
        }
        assert!(!run.result(result("a"), &mut found), "a second result");
        assert_eq!(
            call_ids(&found),
            [
                ("tool_started", "a"),
                ("tool_ended", "a"),
                ("tool_started", "a#2"),
                ("tool_ended", "a#2")
            ]
        );
    }

    #[test]
    fn results_without_ids_belong_to_the_oldest_open_call() {
        let mut found = Found::default();
        let mut run = Transcript::start("r", "test", Timestamp::default(), &mut found);
        let calls = vec![call(""), call("")];
        run.response(Response { calls, ..Response::default() }, &mut found);
        run.result(result(""), &mut found);
        run.result(result(""), &mut found);
        run.result(result("unknown"), &mut found);
        let ids: Vec<_> = call_ids(&found).into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, ["call-1", "call-2", "call-1", "call-2", "unknown", "unknown"]);
        assert!(!run.has_open_call());
    }
}
