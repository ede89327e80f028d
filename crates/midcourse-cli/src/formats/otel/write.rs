//! Makes the spans of a run from its records, one record after the other.
//!
//! The run is an `invoke_agent` span, a tool call an `execute_tool` span, and a model request with
//! its response a `chat` span. Which span a record is in, and when that span is complete, depends
//! only on the records: reading the run again gives the same spans in the same order, with the same
//! ids. So a single seq says which spans were sent.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::content::genai_message;
use super::event::event;
use super::ids::{SpanId, span_id};
use super::names;
use super::nesting::{Nesting, Subagent};
use super::packed::pack;
use super::record::{
    call_key, ends_call, is_conclusion, kind, message, millis, nanos, role, seq, text,
};
use super::span::{Span, Status};
use super::step::{Call, Frame, set_model};

/// For how many records the span that has them is remembered. Evidence of messages is recent.
const MAX_KNOWN_SEQS: usize = 1024;

/// Makes the spans of one run.
pub(crate) struct RunSpans {
    run_id: String,
    trace_id: [u8; 16],
    /// The first agent span of the run, in which later ones are nested.
    first_agent: SpanId,
    agent: AgentSpan,
    /// Records that get into the next span: they belong to no call and have nothing to show.
    waiting: Vec<Value>,
    open_calls: BTreeMap<String, Call>,
    /// A call that has just ended. Messages about it may follow.
    ended_call: Option<Call>,
    /// Whether the response of the current turn is in a span.
    has_response: bool,
    model: Option<String>,
    next_seq: u64,
    span_of_seq: VecDeque<(u64, SpanId)>,
    nesting: Nesting,
}

/// The span of the run, or of what followed after the run seemed to be over.
#[derive(Default)]
struct AgentSpan {
    span: Span,
    has_records: bool,
    task: Option<Value>,
    response: Option<Value>,
}

impl RunSpans {
    /// `parent` is the span in which the run is nested.
    pub(crate) fn new(
        run_id: &str,
        trace_id: [u8; 16],
        parent: Option<SpanId>,
        subagents: Vec<Subagent>,
    ) -> Self {
        let first_agent = span_id(&["agent", run_id]);
        let span = Span { span_id: first_agent, parent_span_id: parent, ..Span::default() };
        Self {
            run_id: run_id.to_owned(),
            trace_id,
            first_agent,
            agent: AgentSpan { span, ..AgentSpan::default() },
            waiting: Vec::new(),
            open_calls: BTreeMap::new(),
            ended_call: None,
            has_response: false,
            model: None,
            next_seq: 0,
            span_of_seq: VecDeque::new(),
            nesting: Nesting::new(subagents),
        }
    }

    /// The span in which the span of a subagent is nested.
    pub(crate) fn parent_of(&self, subagent: &str) -> SpanId {
        self.nesting.call_of(subagent).unwrap_or(self.first_agent)
    }

    /// How many spans are not complete.
    pub(crate) fn open_spans(&self) -> usize {
        let agent = usize::from(self.agent.has_records);
        self.open_calls.len() + usize::from(self.ended_call.is_some()) + agent
    }

    /// Takes in the next record, in the form of `export`. Returns the spans that are complete now.
    pub(crate) fn add(&mut self, record: Value) -> Vec<Span> {
        let mut done = Vec::new();
        let key = call_key(&record);
        self.next_seq = seq(&record).unwrap_or_default().saturating_add(1);
        if let Some(ended) = &self.ended_call
            && !is_conclusion(kind(&record))
            && !(ends_call(kind(&record)) && ended.key == key)
        {
            done.extend(self.finish_ended_call());
        }
        self.note(&record);
        match kind(&record) {
            "tool_started" => {
                if self.waiting.iter().any(|record| message(record).is_some()) {
                    done.push(self.chat(None, nanos(&record)));
                }
                let call = self.new_call(record, key);
                // An id that is used twice: the first call has no end.
                let replaced = self.open_calls.insert(call.key.clone(), call);
                done.extend(replaced.map(|call| self.frame().call_span(call)));
            }
            "tool_ended" | "denied" => {
                let known = self.ended_call.take().or_else(|| self.open_calls.remove(&key));
                let at = millis(&record);
                let call = match known {
                    Some(mut call) => {
                        self.know(&record, call.span_id);
                        call.records.push(record);
                        call
                    }
                    None => self.new_call(record, key),
                };
                self.nesting.call_ended(call.span_id, at);
                self.ended_call = Some(call);
            }
            "message_appended" if role(&record) == Some("assistant") => {
                self.has_response = true;
                done.push(self.chat(Some(record), 0));
            }
            "usage_reported" => done.push(self.chat(Some(record), 0)),
            "turn_ended" if !self.has_response => done.push(self.chat(Some(record), 0)),
            "turn_started" | "turn_ended" => {
                self.has_response = false;
                self.waiting.push(record);
            }
            "message_appended"
            | "provider_request_prepared"
            | "context_transform_applied"
            | "tool_gate_applied"
            | "tool_gate_conflict_resolved"
            | "output_tokens_escalation"
            | "file_created"
            | "cost_reported" => self.waiting.push(record),
            _ => self.add_event(&record),
        }
        done
    }

    /// Completes all spans: the run is over, or treated as over. Records that follow get into a
    /// new agent span, which is nested in the first one.
    pub(crate) fn finish(&mut self) -> Vec<Span> {
        let mut done = Vec::new();
        if !self.agent.has_records {
            return done;
        }
        done.extend(self.finish_ended_call());
        let mut open: Vec<Call> = std::mem::take(&mut self.open_calls).into_values().collect();
        open.sort_by_key(|call| call.first_seq);
        done.extend(open.into_iter().map(|call| self.frame().call_span(call)));
        if self.waiting.iter().any(|record| message(record).is_some()) {
            done.push(self.chat(None, 0));
        }
        let next_agent = span_id(&["agent", &self.run_id, &self.next_seq.to_string()]);
        let next =
            Span { span_id: next_agent, parent_span_id: Some(self.first_agent), ..Span::default() };
        let next = AgentSpan { span: next, ..AgentSpan::default() };
        let mut agent = std::mem::replace(&mut self.agent, next);
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            pack(&mut agent.span.attributes, waiting.into_iter().map(|it| (it, None)).collect());
        }
        done.push(self.agent_span(agent));
        done
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            run_id: &self.run_id,
            trace_id: self.trace_id,
            agent: self.agent.span.span_id,
            latest: self.agent.span.end,
            model: self.model.as_deref(),
        }
    }

    /// Keeps what the spans show about the run as a whole.
    fn note(&mut self, record: &Value) {
        let at = nanos(record);
        let agent = &mut self.agent;
        let attributes = &mut agent.span.attributes;
        if !agent.has_records {
            agent.has_records = true;
            agent.span.start = at;
            let host = record.get("host").and_then(Value::as_str).unwrap_or("agent");
            agent.span.name = format!("invoke_agent {host}");
            attributes.set(names::OPERATION, "invoke_agent");
            attributes.set(names::AGENT_NAME, host);
            attributes.set(names::RUN_ID, self.run_id.as_str());
        }
        agent.span.start = agent.span.start.min(at);
        agent.span.end = agent.span.end.max(at);
        match kind(record) {
            "run_started" => {
                let id = record.pointer("/payload/identity/conversation_id");
                attributes.set_some(names::CONVERSATION_ID, id.and_then(Value::as_str));
            }
            "run_described" => {
                set_some(&mut self.model, text(record, "model"));
                attributes.set_some(names::AGENT_VERSION, text(record, "host_version"));
                attributes.set_some("midcourse.folder", text(record, "folder"));
                attributes.set_some("midcourse.command", text(record, "command"));
                let exit_code = record.pointer("/payload/exit_code").and_then(Value::as_i64);
                attributes.set_some("process.exit.code", exit_code);
            }
            "provider_request_prepared" => set_some(&mut self.model, text(record, "model_id")),
            "run_ended" => {
                let outcome = match record.pointer("/payload/outcome") {
                    Some(Value::String(outcome)) => outcome.clone(),
                    outcome => outcome.unwrap_or(&Value::Null).to_string(),
                };
                agent.span.status = match outcome.as_str() {
                    "completed" => Status::Ok,
                    "failed" => Status::Error("the run failed".to_owned()),
                    _ => Status::Unset,
                };
                attributes.set("midcourse.outcome", outcome);
            }
            "message_appended" => match role(record) {
                Some("user") if agent.task.is_none() => {
                    agent.task = message(record).and_then(genai_message);
                }
                Some("assistant") => agent.response = message(record).and_then(genai_message),
                _ => {}
            },
            _ => {}
        }
    }

    /// Remembers in which span a record is.
    fn know(&mut self, record: &Value, span_id: SpanId) {
        let Some(seq) = seq(record) else { return };
        self.span_of_seq.push_back((seq, span_id));
        if self.span_of_seq.len() > MAX_KNOWN_SEQS {
            self.span_of_seq.pop_front();
        }
    }

    /// Adds an event: to the call that a message of midcourse is about, otherwise to the agent span.
    fn add_event(&mut self, record: &Value) {
        let known = &self.span_of_seq;
        let event = event(record, |seq| {
            let found = known.iter().rev().find(|(known, _)| *known == seq);
            found.map(|(_, span_id)| *span_id)
        });
        let ended = self.ended_call.as_mut();
        let call = match text(record, "tool_call_id") {
            _ if !is_conclusion(kind(record)) => None,
            Some(id) => match ended.filter(|ended| ended.key == id) {
                None => self.open_calls.get_mut(id),
                ended => ended,
            },
            None => ended,
        };
        let (events, span_id) = match call {
            Some(call) => (&mut call.events, call.span_id),
            None => (&mut self.agent.span.events, self.agent.span.span_id),
        };
        events.push(event);
        self.know(record, span_id);
    }

    /// A new call. `record` starts it, or ends it if its start was not recorded.
    fn new_call(&mut self, record: Value, key: String) -> Call {
        let first_seq = seq(&record).unwrap_or_default();
        let span_id = span_id(&["call", &self.run_id, kind(&record), &key]);
        self.nesting.call_started(span_id, millis(&record), record.pointer("/payload/args"));
        let mut records = std::mem::take(&mut self.waiting);
        records.push(record);
        records.iter().for_each(|record| self.know(record, span_id));
        Call { key, span_id, first_seq, records, events: Vec::new() }
    }

    fn finish_ended_call(&mut self) -> Option<Span> {
        let call = self.ended_call.take()?;
        Some(self.frame().call_span(call))
    }

    /// The span of a model request, which ends at `end` or with its last record.
    fn chat(&mut self, last: Option<Value>, end: u64) -> Span {
        let mut records = std::mem::take(&mut self.waiting);
        records.extend(last);
        let last_seq = records.last().and_then(seq).unwrap_or_default();
        let span_id = span_id(&["chat", &self.run_id, &last_seq.to_string()]);
        records.iter().for_each(|record| self.know(record, span_id));
        self.frame().chat_span(span_id, records, end)
    }

    fn agent_span(&self, agent: AgentSpan) -> Span {
        let mut span = agent.span;
        span.trace_id = self.trace_id;
        let attributes = &mut span.attributes;
        set_model(attributes, self.model.as_deref());
        for (messages_name, value_name, message) in [
            (names::INPUT_MESSAGES, names::INPUT_VALUE, agent.task),
            (names::OUTPUT_MESSAGES, names::OUTPUT_VALUE, agent.response),
        ] {
            let Some(message) = message else { continue };
            let parts = message.get("parts").and_then(Value::as_array).into_iter().flatten();
            let texts = parts.filter_map(|part| part.get("content")?.as_str());
            attributes.set(value_name, texts.collect::<Vec<_>>().join("\n"));
            attributes.set_json(messages_name, &json!([message]));
        }
        span
    }
}

fn set_some(field: &mut Option<String>, value: Option<&str>) {
    if let Some(value) = value {
        *field = Some(value.to_owned());
    }
}
