//! Makes the records of a run from its spans.

use std::collections::{BTreeSet, HashSet};

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, RunIdentity, RunOutcome, StopReason,
    TextContent, Timestamp, ToolCallBlock, ToolResult, TrajectoryPayload, Usage,
};
use serde_json::Value;

use super::attributes::{Attributes, json_value, text_value};
use super::collect::{ReadSpan, ReadStatus};
use super::messages::{self, Message};
use super::tool_calls::{CallEnd, ToolCalls, is_code_step};
use super::trace::{Node, SpanKind};
use crate::session_file::{Found, RunEvents};

/// The host of a run if no span names the agent.
const HOST: &str = "otel";

/// A record with its time, and the order among records of the same time.
struct Item {
    at: Timestamp,
    key: String,
    payload: TrajectoryPayload,
}

struct Run {
    items: Vec<Item>,
    calls: ToolCalls,
    /// Hashes of texts that were in the conversation before.
    seen: HashSet<u64>,
    requests: usize,
    /// Whether the agent's input says what the user wants. Then the model requests of the run are
    /// the framework's.
    has_task: bool,
    model: Option<String>,
}

/// Adds the records of a run. `spans` are the positions of its spans in `nodes`, by their start.
pub(super) fn push_run(
    nodes: &[Node],
    spans: &[usize],
    agent: Option<usize>,
    identity: RunIdentity,
    found: &mut Found,
) {
    let spans = || spans.iter().filter_map(|at| nodes.get(*at));
    let agent = agent.and_then(|at| nodes.get(at)).map(|node| &node.span);
    let Some(start) = spans().map(|node| node.span.start).min() else { return };
    let end = spans().map(|node| node.span.end).max().unwrap_or(start);
    let mut run = Run {
        items: Vec::new(),
        calls: ToolCalls::default(),
        seen: HashSet::new(),
        requests: 0,
        has_task: false,
        model: None,
    };
    if let Some(agent) = agent {
        run.add_task(agent, start);
    }
    for node in spans() {
        let step = || node.parent.and_then(|at| nodes.get(at)).map(|node| &node.span);
        match node.kind {
            SpanKind::Model => {
                run.add_model_call(&node.span, step().filter(|step| is_code_step(step)));
            }
            SpanKind::Tool => run.calls.add_tool_span(&node.span),
            SpanKind::Agent | SpanKind::Chain | SpanKind::Other | SpanKind::None => {}
        }
    }
    run.add_calls();
    let name = agent.and_then(|agent| {
        let name = agent.attributes.text(&["gen_ai.agent.name", "agent.name", "graph.node.id"]);
        name.map(ToOwned::to_owned).or_else(|| agent.service.clone())
    });
    let service = || spans().find_map(|node| node.span.service.clone());
    let host = name.or_else(service).unwrap_or_else(|| HOST.to_owned());
    let outcome = match agent.map(|agent| &agent.status) {
        Some(ReadStatus::Ok) => RunOutcome::Completed,
        Some(ReadStatus::Error(_)) => RunOutcome::Failed,
        Some(ReadStatus::Unset) | None => RunOutcome::Unknown,
    };
    let events = RunEvents::new(identity, &host);
    found.push(events.started(start));
    if let Some(model) = run.model {
        let described = TrajectoryPayload::RunDescribed {
            folder: None,
            command: None,
            host_version: None,
            model: Some(model),
            exit_code: None,
        };
        found.push(events.keyed(start, "about:model", described));
    }
    run.items.sort_by_key(|item| item.at);
    for item in run.items {
        let event = events.event(item.at, item.payload);
        let fact = event.fact.is_none().then_some(item.key);
        found.push(match fact {
            Some(key) => event.with_fact(key),
            None => event,
        });
    }
    let ended = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
    found.push(events.keyed(end, "span:end", ended));
}

impl Run {
    fn push(&mut self, at: Timestamp, key: String, payload: TrajectoryPayload) {
        self.items.push(Item { at, key, payload });
    }

    /// Whether the text was not in the conversation before.
    fn is_new(&mut self, text: &str) -> bool {
        self.seen.insert(xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }

    /// The agent's input is the task of the run.
    fn add_task(&mut self, agent: &ReadSpan, at: Timestamp) {
        let Some(task) = task(&agent.attributes).filter(|task| !task.trim().is_empty()) else {
            return;
        };
        self.has_task = true;
        self.is_new(&task);
        let appended = TrajectoryPayload::MessageAppended { message: AgentMessage::user(task) };
        self.push(at, format!("span:{}:task", agent.span_id), appended);
    }

    /// Adds a model request and its response. `step` is the step around it, if the agent's actions are
    /// code.
    fn add_model_call(&mut self, span: &ReadSpan, step: Option<&ReadSpan>) {
        let (id, attributes) = (&span.span_id, &span.attributes);
        let model = attributes.text(&[
            "gen_ai.request.model",
            "llm.model_name",
            "gen_ai.response.model",
            "mlflow.llm.model",
        ]);
        let model = model.map(|model| model.trim_matches('"').to_owned());
        if self.model.is_none() {
            self.model.clone_from(&model);
        }
        let input = messages::input(attributes);
        for (number, message) in input.iter().enumerate() {
            self.calls.add_result(message, span.start);
            let is_wanted = match message.role.as_str() {
                "system" => true,
                "user" | "human" => !self.has_task,
                _ => false,
            };
            if message.text.is_empty() || !self.is_new(&message.text) || !is_wanted {
                continue;
            }
            let text = message.text.clone();
            let message = match message.role.as_str() {
                "system" => AgentMessage::System { content: text, timestamp: None },
                _ => AgentMessage::user(text),
            };
            let appended = TrajectoryPayload::MessageAppended { message };
            self.push(span.start, format!("span:{id}:input:{number}"), appended);
        }
        let tools = tool_names(attributes);
        let system = input.iter().filter(|message| message.role == "system");
        let prepared = TrajectoryPayload::ProviderRequestPrepared {
            iteration: self.requests,
            model_id: model,
            system_prompt_chars: system.map(|message| message.text.chars().count()).sum(),
            message_count: input.len(),
            tool_count: tools.len(),
            tools,
            kept_by_server: false,
        };
        self.requests += 1;
        self.push(span.start, format!("span:{id}:request"), prepared);
        let usage = usage(attributes);
        let output = messages::output(attributes);
        let mut calls = Vec::new();
        for call in output.iter().flat_map(|message| message.calls.clone()) {
            let (name, arguments) = (call.name.clone(), call.arguments.clone());
            let id = self.calls.request(call, id, span.end);
            calls.push(ToolCallBlock { id: id.as_str().into(), name: name.into(), arguments });
        }
        let response = response(span, &output, calls, usage);
        if let Some(response) = response {
            if let Some(first) = output.first() {
                self.is_new(&first.text);
            }
            let appended = TrajectoryPayload::MessageAppended { message: response };
            self.push(span.end, format!("span:{id}:output"), appended);
        } else if let Some(usage) = usage {
            self.push(
                span.end,
                format!("span:{id}:usage"),
                TrajectoryPayload::UsageReported { usage },
            );
        }
        if let (Some(step), Some(first)) = (step, output.first()) {
            self.calls.add_code_step(step, first, span.end);
        }
    }

    fn add_calls(&mut self) {
        for call in std::mem::take(&mut self.calls).into_calls() {
            let (id, name) = (call.id.as_str(), call.name.as_str());
            let key = || format!("span:{id}:call");
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: id.into(),
                tool_name: name.into(),
                args: call.arguments,
            };
            self.items.push(Item { at: call.start, key: key(), payload: started });
            let Some((at, end)) = call.end else { continue };
            let ended = match end {
                CallEnd::Denied { reason } => TrajectoryPayload::Denied {
                    tool_call_id: id.into(),
                    tool_name: name.into(),
                    reason,
                },
                CallEnd::Result { text, is_error } => TrajectoryPayload::ToolEnded {
                    tool_call_id: id.into(),
                    tool_name: name.into(),
                    is_error: is_error == Some(true),
                    result: match is_error {
                        None => ToolResult::unflagged(text),
                        Some(true) => ToolResult::error(text),
                        Some(false) => ToolResult::text(text),
                    },
                },
            };
            self.items.push(Item { at: at.max(call.start), key: key(), payload: ended });
        }
    }
}

/// The model's response; `None` if the span has none.
fn response(
    span: &ReadSpan,
    output: &[Message],
    calls: Vec<ToolCallBlock>,
    usage: Option<Usage>,
) -> Option<AgentMessage> {
    let error = match &span.status {
        ReadStatus::Error(error) => Some(error.clone()),
        ReadStatus::Ok | ReadStatus::Unset => None,
    };
    let text = |text: &str| TextContent { text: text.to_owned() };
    let mut blocks = Vec::new();
    for message in output {
        if !message.reasoning.is_empty() {
            blocks.push(AssistantBlock::Reasoning(text(&message.reasoning)));
        }
        if !message.text.is_empty() {
            blocks.push(AssistantBlock::Text(text(&message.text)));
        }
    }
    let has_calls = !calls.is_empty();
    blocks.extend(calls.into_iter().map(AssistantBlock::ToolCall));
    if blocks.is_empty() && error.is_none() {
        return None;
    }
    let reason = output.iter().find_map(|message| message.finish_reason.as_deref());
    let reason = reason.or_else(|| span.attributes.text(&["llm.finish_reason"]));
    let stop_reason = match reason {
        _ if error.is_some() => StopReason::Error,
        _ if has_calls => StopReason::ToolUse,
        Some("length" | "max_tokens") => StopReason::MaxTokens,
        Some("tool_call" | "tool_calls" | "tool_use") => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    Some(AgentMessage::Assistant {
        content: AssistantContent { blocks },
        stop_reason,
        error_message: error,
        timestamp: None,
        usage,
    })
}

fn usage(attributes: &Attributes) -> Option<Usage> {
    let input = attributes.number(&[
        "gen_ai.usage.input_tokens",
        "llm.token_count.prompt",
        "gen_ai.usage.prompt_tokens",
    ]);
    let output = attributes.number(&[
        "gen_ai.usage.output_tokens",
        "llm.token_count.completion",
        "gen_ai.usage.completion_tokens",
    ]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let read = attributes.number(&[
        "gen_ai.usage.cache_read.input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ]);
    let written = attributes.number(&[
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ]);
    let count = |tokens: Option<i64>| tokens.unwrap_or_default().max(0);
    Some(Usage {
        input_tokens: count(input),
        output_tokens: count(output),
        cache_creation_input_tokens: count(written),
        cache_read_input_tokens: count(read),
        is_estimate: false,
    })
}

/// What an agent was asked to do.
fn task(attributes: &Attributes) -> Option<String> {
    const FIELDS: [&str; 7] =
        ["task", "input", "query", "question", "prompt", "message", "content"];
    let value = attributes.value(&["input.value", "mlflow.spanInputs", "traceloop.entity.input"]);
    let of_messages = || {
        let messages = messages::input(attributes);
        messages.into_iter().rev().find(|message| message.role == "user").map(|it| it.text)
    };
    let Some(value) = value.map(json_value) else { return of_messages() };
    let named = FIELDS.iter().find_map(|field| value.get(field)?.as_str());
    match named {
        Some(task) => Some(task.to_owned()),
        None => of_messages().or_else(|| Some(text_value(&value))),
    }
}

/// The names of the tools that the model may call.
fn tool_names(attributes: &Attributes) -> Vec<String> {
    let name = |schema: &Value| {
        let schema = json_value(schema);
        let function = schema.get("function").unwrap_or(&schema);
        function.get("name").map(text_value)
    };
    let definitions = attributes.value(&["gen_ai.tool.definitions"]).map(json_value);
    let definitions = definitions.as_ref().and_then(Value::as_array).into_iter().flatten();
    let schemas = attributes.numbered("llm.tools").map(|(_, _, schema)| schema);
    definitions.chain(schemas).filter_map(name).collect::<BTreeSet<_>>().into_iter().collect()
}
