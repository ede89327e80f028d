//! Trajectories that other programs wrote, step by step.
//!
//! A step of the agent becomes a turn: the response, its calls, and their results. The key of an
//! event has the position of its step, so that importing the document again adds nothing.

mod metrics;

use std::collections::HashSet;

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, RunIdentity, StopReason, TextContent,
    Timestamp, ToolCallBlock, ToolResult, TrajectoryPayload, Usage,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::content;
use super::{Fields, Place, count_step, parse_step, time_of};
use crate::session_file::{Fate, Found, RunEvents};
use metrics::{cost_of, total_usage, usage_of};

/// Maximum number of calls, and of results, of a step. Further ones are left out.
const MAX_CALLS: usize = 2_000;

/// Name of the tool of a result that no call asked for: agents whose actions are plain text.
const NO_TOOL: &str = "environment";

pub(super) struct ForeignRun {
    events: RunEvents,
    /// Begins the key of every event. Several documents can belong to one run.
    key: String,
    /// Version and model of the agent, until they are recorded.
    version: Option<String>,
    model: Option<String>,
    /// Time of the latest step, for steps without a time.
    latest: Timestamp,
    /// Ids of the calls so far. Some agents use an id in several steps.
    call_ids: HashSet<String>,
    has_usage: bool,
    /// Sum of what the steps cost, in dollars.
    cost: f64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    New,
    Started,
    Finished,
}

struct Call<'a> {
    id: String,
    /// The id in the document.
    original_id: &'a str,
    name: &'a str,
    results: Vec<&'a Value>,
}

impl ForeignRun {
    pub(super) fn new(fields: &Fields, place: &Place, start: Timestamp) -> Self {
        let text = |name: &str| {
            let text = fields.agent.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(ToOwned::to_owned)
        };
        let host = text("name");
        let key = match &fields.trajectory_id {
            Some(id) => format!("atif:{id}"),
            None => "atif".to_owned(),
        };
        Self {
            events: RunEvents::new(identity_of(fields, place), host.as_deref().unwrap_or("atif")),
            key,
            version: text("version").filter(|version| version != "unknown"),
            model: text("model_name"),
            latest: start,
            call_ids: HashSet::new(),
            has_usage: false,
            cost: 0.0,
            state: State::New,
        }
    }

    /// Adds the start of the run, before its first step. A document that is cut off before that says
    /// too little about the run.
    fn start(&mut self, found: &mut Found) {
        if self.state != State::New {
            return;
        }
        self.state = State::Started;
        found.push(self.events.started(self.latest));
        let (host_version, model) = (self.version.take(), self.model.take());
        if host_version.is_some() || model.is_some() {
            let key = format!("{}:agent", self.key);
            let (folder, command, exit_code) = (None, None, None);
            let described =
                TrajectoryPayload::RunDescribed { folder, command, host_version, model, exit_code };
            self.push(&key, described, found);
        }
    }

    pub(super) const fn identity(&self) -> &RunIdentity {
        &self.events.run
    }

    pub(super) fn read_step(&mut self, step: &RawValue, position: usize, found: &mut Found) {
        let Some(step) = parse_step(step, found) else { return };
        self.start(found);
        if let Some(at) = step.get("timestamp").and_then(Value::as_str).and_then(time_of) {
            self.latest = at;
        }
        let key = format!("{}:{}", self.key, position.saturating_add(1));
        let source = step.get("source").and_then(Value::as_str);
        let is_copied = step.get("is_copied_context") == Some(&Value::Bool(true));
        let fate = match source {
            // The trajectory that this one continues has these turns.
            Some("agent") if is_copied => Fate::Ignored,
            Some("agent") => {
                self.read_turn(&step, &key, found);
                Fate::Used
            }
            Some("user") => {
                let content = content::of_user(step.get("message"));
                self.append(AgentMessage::User { content, timestamp: None }, &key, found);
                self.read_other_results(&step, &key, found);
                Fate::Used
            }
            Some("system") => {
                self.read_system(&step, &key, found);
                Fate::Used
            }
            _ => Fate::Unknown,
        };
        count_step(source, fate, found);
    }

    fn push(&self, key: &str, payload: TrajectoryPayload, found: &mut Found) {
        found.push(self.events.keyed(self.latest, key, payload));
    }

    fn append(&self, message: AgentMessage, key: &str, found: &mut Found) {
        self.push(key, TrajectoryPayload::MessageAppended { message }, found);
    }

    fn read_system(&self, step: &Value, key: &str, found: &mut Found) {
        if let Some(change) = step.pointer("/extra/context_management") {
            let trigger = change.get("type").and_then(Value::as_str).map(ToOwned::to_owned);
            self.push(key, TrajectoryPayload::ContextCompacted { trigger }, found);
        } else {
            let content = content::plain_text(step.get("message"));
            let message = AgentMessage::System { content, timestamp: None };
            self.append(message, key, found);
        }
        self.read_other_results(step, key, found);
    }

    /// Results of steps that are not the agent's: of something that the system did.
    fn read_other_results(&self, step: &Value, key: &str, found: &mut Found) {
        for (position, result) in results_of(step).iter().enumerate() {
            let content = content::plain_text(result.get("content"));
            if !content.is_empty() {
                let message = AgentMessage::System { content, timestamp: None };
                self.append(message, &format!("{key}:result:{position}"), found);
            }
        }
    }

    fn read_turn(&mut self, step: &Value, key: &str, found: &mut Found) {
        self.push(key, TrajectoryPayload::TurnStarted, found);
        let text = content::plain_text(step.get("message"));
        let usage = step.get("metrics").and_then(usage_of);
        self.has_usage |= usage.is_some();
        self.cost += step.get("metrics").and_then(cost_of).unwrap_or_default();
        let mut blocks = Vec::new();
        if let Some(text) = step.get("reasoning_content").and_then(Value::as_str) {
            blocks.push(AssistantBlock::Reasoning(TextContent { text: text.to_owned() }));
        }
        if !text.is_empty() {
            blocks.push(AssistantBlock::Text(TextContent { text: text.clone() }));
        }
        let mut calls = Vec::new();
        let mut started = Vec::new();
        for (position, call) in list(step.get("tool_calls")).iter().enumerate() {
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
            let (original_id, name) = (field("tool_call_id"), field("function_name"));
            let id = self.unique_id(original_id, &format!("{key}:{position}"));
            blocks.push(AssistantBlock::ToolCall(ToolCallBlock {
                id: id.as_str().into(),
                name: name.into(),
                arguments: Value::Null,
            }));
            started.push(TrajectoryPayload::ToolStarted {
                tool_call_id: id.as_str().into(),
                tool_name: name.into(),
                args: call.get("arguments").cloned().unwrap_or_default(),
            });
            calls.push(Call { id, original_id, name, results: Vec::new() });
        }
        if blocks.iter().any(|block| !matches!(block, AssistantBlock::ToolCall(_))) {
            self.append(response(blocks, calls.is_empty()), key, found);
        }
        if let Some(usage) = usage {
            self.push(key, TrajectoryPayload::UsageReported { usage }, found);
        }
        for call in started {
            found.push(self.events.event(self.latest, call));
        }
        for (position, result) in results_of(step).iter().enumerate() {
            if let Some(call) = call_of(result, &mut calls) {
                call.results.push(result);
            } else if !is_empty(result) {
                // The agent wrote its action as text.
                let id = format!("{key}:result:{position}");
                found.push(self.events.event(
                    self.latest,
                    TrajectoryPayload::ToolStarted {
                        tool_call_id: id.as_str().into(),
                        tool_name: NO_TOOL.into(),
                        args: json!({"input": text}),
                    },
                ));
                let results = vec![result];
                calls.push(Call { id, original_id: "", name: NO_TOOL, results });
            }
        }
        for call in calls.iter().filter(|call| !call.results.is_empty()) {
            found.push(self.events.event(self.latest, end_of_call(call)));
        }
    }

    /// The id of a call; `key` if the id is empty, or if another call of the run has it.
    fn unique_id(&mut self, id: &str, key: &str) -> String {
        let is_new = !id.is_empty() && self.call_ids.insert(id.to_owned());
        if is_new { id.to_owned() } else { format!("{id}:{key}") }
    }

    /// Adds totals that the steps do not have.
    pub(super) fn finish(&mut self, final_metrics: &Value, found: &mut Found) {
        if self.state != State::Started {
            return;
        }
        self.state = State::Finished;
        let key = format!("{}:total", self.key);
        let usage: Option<Usage> = total_usage(final_metrics).filter(|_| !self.has_usage);
        if let Some(usage) = usage {
            self.push(&key, TrajectoryPayload::UsageReported { usage }, found);
        }
        let dollars = final_metrics.get("total_cost_usd").and_then(Value::as_f64);
        let dollars = dollars.unwrap_or(self.cost);
        if let Some(total_micro_usd) = dollars.try_into().ok().filter(|_| dollars > 0.0) {
            self.push(&key, TrajectoryPayload::CostReported { total_micro_usd }, found);
        }
    }
}

fn identity_of(fields: &Fields, place: &Place) -> RunIdentity {
    let (session, trajectory) = (fields.session_id.as_deref(), fields.trajectory_id.as_deref());
    match &place.parent {
        None => RunIdentity::root(session.or(trajectory).unwrap_or(&place.fallback_id)),
        Some(parent) => {
            // Subagents may share the session of their parent.
            let session = session.filter(|session| *session != parent.run_id.as_str());
            let id = trajectory.or(session).unwrap_or(&place.fallback_id);
            RunIdentity::child_of(parent, format!("{}.{id}", parent.run_id))
        }
    }
}

fn response(blocks: Vec<AssistantBlock>, is_last: bool) -> AgentMessage {
    AgentMessage::Assistant {
        content: AssistantContent { blocks },
        stop_reason: if is_last { StopReason::EndTurn } else { StopReason::ToolUse },
        error_message: None,
        timestamp: None,
        usage: None,
    }
}

/// The call that a result belongs to: the one that it names, or the first one without a result if it
/// names none.
fn call_of<'a, 'v>(result: &Value, calls: &'a mut [Call<'v>]) -> Option<&'a mut Call<'v>> {
    match result.get("source_call_id").and_then(Value::as_str) {
        Some(id) => calls.iter_mut().find(|call| call.original_id == id),
        None => calls.iter_mut().find(|call| call.results.is_empty()),
    }
}

fn is_empty(result: &Value) -> bool {
    content::parts(result.get("content")).is_empty()
}

/// The end of a call, with all its results.
fn end_of_call(call: &Call<'_>) -> TrajectoryPayload {
    let flag = |result: &Value, name: &str| result.get("extra")?.get(name)?.as_bool();
    let contents = || call.results.iter().map(|result| result.get("content"));
    let (tool_call_id, tool_name) = (call.id.as_str().into(), call.name.into());
    if call.results.iter().any(|result| flag(result, "is_denied") == Some(true)) {
        let reason = contents().map(content::plain_text).collect::<Vec<_>>().join("\n");
        return TrajectoryPayload::Denied { tool_call_id, tool_name, reason: Some(reason) };
    }
    // Harbor's converters use the second name.
    let flags = call.results.iter().filter_map(|result| {
        flag(result, "is_error").or_else(|| flag(result, "tool_result_is_error"))
    });
    let known = flags.reduce(|one, other| one || other);
    let is_error = known.unwrap_or(false);
    TrajectoryPayload::ToolEnded {
        tool_call_id,
        tool_name,
        result: ToolResult {
            content: contents().flat_map(content::of_result).collect(),
            is_error,
            is_error_unknown: known.is_none(),
            ..ToolResult::default()
        },
        is_error,
    }
}

fn results_of(step: &Value) -> &[Value] {
    list(step.pointer("/observation/results"))
}

fn list(value: Option<&Value>) -> &[Value] {
    let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    items.get(..MAX_CALLS).unwrap_or(items)
}
