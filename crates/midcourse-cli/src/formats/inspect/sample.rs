//! A sample of an Inspect log: the messages of the agent, with times and tokens from the events.

use std::collections::HashMap;

use midcourse::{RunOutcome, Timestamp, Usage};
use serde_json::{Map, Value};

use super::super::chat_message::{AgentSigns, Message, text_field, text_of};
use super::super::transcript::Transcript;
use super::Evaluation;
use crate::session_file::{Fate, Found, Part, for_each_part, parse_time};

const HOST: &str = "inspect";

/// How Inspect refers to a long text that is stored once for the sample.
const ATTACHMENT: &str = "attachment://";

/// The parts of a sample, before they become records.
#[derive(Default)]
struct Sample {
    fields: Map<String, Value>,
    messages: Vec<Value>,
    times: Times,
}

/// What events say about messages and calls.
#[derive(Default)]
struct Times {
    /// When each call began and ended, by its id.
    calls: HashMap<String, (Option<Timestamp>, Option<Timestamp>)>,
    /// When the model was asked, and its tokens, by the id of its message.
    responses: HashMap<String, (Option<Timestamp>, Option<Usage>)>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// Records a sample, as far as its text is valid. Returns whether it is the run of an agent.
pub(super) fn read_sample(text: &str, evaluation: &Evaluation, found: &mut Found) -> bool {
    let mut sample = Sample::default();
    let error = for_each_part(text, &["messages", "events"], |part| match part {
        Part::Element("messages", _, message) => match serde_json::from_str(message.get()) {
            Ok(message) => sample.messages.push(message),
            Err(error) => found.invalid("message", error),
        },
        Part::Element(_, _, event) => match serde_json::from_str(event.get()) {
            Ok(event) => sample.times.add(&event, found),
            Err(error) => found.invalid("event", error),
        },
        Part::Field(name, value) => {
            if let Ok(value) = serde_json::from_str(value.get()) {
                sample.fields.insert(name.to_owned(), value);
            }
        }
    });
    if let Some(error) = &error {
        let what = "used only what comes before the error";
        found.invalid("(sample)", format!("sample: {what}: {error}"));
    }
    // In older logs, the events are one level deeper.
    let older = sample.fields.remove("transcript");
    let older = older.as_ref().and_then(|transcript| transcript.get("events")?.as_array());
    older.into_iter().flatten().for_each(|event| sample.times.add(event, found));
    let messages: Vec<Message> = sample.messages.iter().map(Message::parse).collect();
    let mut signs = AgentSigns::default();
    messages.iter().for_each(|message| signs.add(message));
    if !signs.is_agent() {
        found.count("sample (question and reply)", Fate::Ignored);
        // A sample that is cut off may have been more.
        return error.is_some();
    }
    found.count("sample", Fate::Used);
    sample.record(messages, evaluation, found);
    true
}

impl Times {
    fn add(&mut self, event: &Value, found: &mut Found) {
        let kind = text_field(event, "event");
        let (started, ended) = (time(event, "timestamp"), time(event, "completed"));
        self.first = self.first.or(started);
        self.last = ended.or(started).or(self.last);
        let is_used = match kind {
            "tool" => {
                let id = text_field(event, "id");
                self.calls.insert(id.to_owned(), (started, ended));
                true
            }
            "model" => {
                let message = event.pointer("/output/choices/0/message");
                let id = message.map(|message| text_field(message, "id")).unwrap_or_default();
                let usage = event.pointer("/output/usage").map(usage);
                self.responses.insert(id.to_owned(), (started, usage));
                true
            }
            _ => false,
        };
        let fate = if is_used { Fate::Used } else { Fate::Ignored };
        found.count(&format!("event {kind}"), fate);
    }
}

fn time(event: &Value, name: &str) -> Option<Timestamp> {
    event.get(name).and_then(Value::as_str).and_then(parse_time)
}

/// Tokens under the names of Inspect, where tokens from the cache are counted separately.
fn usage(usage: &Value) -> Usage {
    let count = |name: &str| usage.get(name).and_then(Value::as_i64).unwrap_or(0).max(0);
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_creation_input_tokens: count("input_tokens_cache_write"),
        cache_read_input_tokens: count("input_tokens_cache_read"),
        is_estimate: false,
    }
}

impl Sample {
    fn record(&self, messages: Vec<Message>, evaluation: &Evaluation, found: &mut Found) {
        let at = self.times.first.unwrap_or(evaluation.at);
        let mut run = Transcript::start(&self.run_id(evaluation), HOST, at, found);
        run.describe(evaluation.model.clone(), evaluation.version.clone(), found);
        let is_input = |message: &Value| text_field(message, "source") == "input";
        let has_input = self.messages.iter().any(is_input);
        for (mut message, raw) in messages.into_iter().zip(&self.messages) {
            match &mut message {
                Message::Assistant(response) => {
                    let id = text_field(raw, "id");
                    let (asked, usage) = self
                        .times
                        .responses
                        .get(id)
                        .filter(|_| !id.is_empty())
                        .copied()
                        .unwrap_or_default();
                    run.at = asked.unwrap_or(run.at);
                    response.usage = usage;
                    response.text = self.resolve(std::mem::take(&mut response.text));
                }
                Message::Result(result) => {
                    let times = self.times.calls.get(&result.id).copied().unwrap_or_default();
                    run.at = times.1.or(times.0).unwrap_or(run.at);
                    let error = raw.get("error").filter(|error| !error.is_null());
                    // Set if the tool failed, but not if a command that it ran did.
                    result.is_error = error.map(|_| true);
                    result.text = self.resolve(std::mem::take(&mut result.text));
                    let reason = error.map(|error| text_field(error, "message"));
                    if let Some(reason) = reason.filter(|_| result.text.trim().is_empty()) {
                        result.text = reason.to_owned();
                    }
                }
                Message::User(text) | Message::System(text) => {
                    *text = self.resolve(std::mem::take(text));
                }
                Message::Unknown(_) => {}
            }
            match message {
                // The agent's program wrote it, to keep the model going.
                Message::User(text) if has_input && text_field(raw, "source").is_empty() => {
                    run.generated("reminder", text, found);
                    found.count("user (generated)", Fate::Used);
                }
                message => message.record(&mut run, found),
            }
        }
        run.at = self.times.last.unwrap_or(run.at);
        if let Some(outcome) = self.outcome() {
            run.end(outcome, found);
        }
    }

    fn run_id(&self, evaluation: &Evaluation) -> String {
        let field = |name: &str| text_of(self.fields.get(name));
        let unique = Some(field("uuid")).filter(|uuid| !uuid.is_empty());
        let unique = unique.as_ref().unwrap_or(&evaluation.id);
        format!("{}:{}:{}-{unique}", evaluation.task, field("id"), field("epoch"))
    }

    /// The text, or the attachment that it refers to.
    fn resolve(&self, text: String) -> String {
        let Some(id) = text.strip_prefix(ATTACHMENT) else { return text };
        let attachment = self.fields.get("attachments").and_then(|all| all.get(id)?.as_str());
        attachment.map(ToOwned::to_owned).unwrap_or(text)
    }

    /// How the run ended, if the log leaves no doubt: all scores are "correct" or all "incorrect".
    /// What a number means depends on the scorer.
    fn outcome(&self) -> Option<RunOutcome> {
        let is_set = |name: &str| self.fields.get(name).is_some_and(|value| !value.is_null());
        let scores = self.fields.get("scores").and_then(Value::as_object);
        let verdicts: Option<Vec<bool>> = scores.and_then(|scores| {
            let verdict = |score: &Value| match score.get("value")? {
                Value::String(value) if value == "C" => Some(true),
                Value::String(value) if value == "I" => Some(false),
                Value::Bool(value) => Some(*value),
                _ => None,
            };
            scores.values().map(verdict).collect()
        });
        let verdicts = verdicts.unwrap_or_default();
        match verdicts.first() {
            Some(first) if verdicts.iter().all(|verdict| verdict == first) => {
                Some(if *first { RunOutcome::Completed } else { RunOutcome::Failed })
            }
            _ if is_set("error") => Some(RunOutcome::Failed),
            _ if is_set("limit") => Some(RunOutcome::LimitReached),
            _ => None,
        }
    }
}
