//! Describes records and entries in the words that `show`, `tail` and `search` share.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use midcourse::{
    AgentMessage, Entry, GapReason, OutcomeVerdict, StoredRecord, TrajectoryPayload, UserContent,
};
use serde_json::Value;

use super::{local_time, plain_name};

/// Arguments that say what a call does, in order of preference. The other arguments are details.
const TELLING_ARGUMENTS: [&str; 12] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
];

/// How a description is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Of little interest to most readers.
    Faint,
    /// What a user or the model said.
    Talk,
    /// A call that failed or was refused, or lost records.
    Bad,
    /// A message of midcourse.
    Message,
}

/// An entry or a record in words. The texts may have any length, and their control characters are
/// not escaped yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// One or two words, at most nine characters.
    pub(crate) label: &'static str,
    pub(crate) tone: Tone,
    pub(crate) text: String,
    /// All arguments of a call, if `text` leaves some out.
    pub(crate) details: Option<String>,
    /// What a tool returned, if `text` does not contain it.
    pub(crate) result: Option<String>,
    /// How long a call took.
    pub(crate) took: Option<Duration>,
}

impl Description {
    fn new(label: &'static str, tone: Tone, text: impl Into<String>) -> Self {
        Self { label, tone, text: text.into(), details: None, result: None, took: None }
    }
}

/// Describes an entry. A call and its result are described together. `entry_of` returns the seq of
/// the entry that contains a record, so that a message refers to entries.
pub(crate) fn describe_entry(entry: &Entry, entry_of: impl Fn(u64) -> u64) -> Description {
    let Some(TrajectoryPayload::ToolStarted { tool_name, args, .. }) = entry.record.payload()
    else {
        return describe(&entry.record, entry_of);
    };
    let (text, details) = describe_call(&tool_name, &args);
    let mut call = Description { details, ..Description::new("no result", Tone::Plain, text) };
    let Some(end) = &entry.end else { return call };
    call.took = Some(end.at.since(entry.record.at));
    (call.label, call.tone) = label_of_end(end.failed, "call");
    match end.payload() {
        Some(TrajectoryPayload::ToolEnded { result, .. }) => {
            call.result = Some(result.comparable_text().into_owned());
        }
        Some(TrajectoryPayload::Denied { reason, .. }) => {
            (call.label, call.took) = ("refused", None);
            call.result = reason;
        }
        _ => {}
    }
    call
}

/// Describes one record.
pub(crate) fn describe_record(record: &StoredRecord) -> Description {
    describe(record, |seq| seq)
}

fn describe(record: &StoredRecord, entry_of: impl Fn(u64) -> u64) -> Description {
    use Tone::{Bad, Faint, Plain};
    let Some(payload) = record.payload() else {
        return Description::new("unread", Faint, record.value.to_string());
    };
    match &payload {
        TrajectoryPayload::RunStarted { identity } => match &identity.parent_run_id {
            Some(parent) => Description::new("started", Plain, format!("by {parent}")),
            None => Description::new("started", Plain, ""),
        },
        TrajectoryPayload::RunEnded { outcome, .. } => {
            // `unknown` is the absence of a word.
            Description::new(
                "ended",
                Plain,
                Some(outcome.as_str()).filter(|it| *it != "unknown").unwrap_or_default(),
            )
        }
        TrajectoryPayload::TurnStarted => Description::new("turn", Faint, ""),
        TrajectoryPayload::TurnEnded { .. } => Description::new("turn end", Faint, ""),
        TrajectoryPayload::MessageAppended { message } => describe_talk(message),
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => {
            let (text, details) = describe_call(tool_name, args);
            Description { details, ..Description::new("call", Plain, text) }
        }
        TrajectoryPayload::ToolEnded { tool_name, result, .. } => {
            let (label, tone) = label_of_end(record.failed, "result");
            Description::new(label, tone, format!("{tool_name}: {}", result.comparable_text()))
        }
        TrajectoryPayload::Denied { tool_name, reason, .. } => {
            let reason = reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            Description::new("refused", Bad, format!("{tool_name}{reason}"))
        }
        TrajectoryPayload::FeedbackDelivered { feedback, text, .. } => {
            let why = feedback.why().map(|why| (why.cause.kind(), why.evidence.as_slice()));
            describe_message(&payload, why, text, entry_of)
        }
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            let why = guidance.injection.why();
            let why = why.map(|why| (why.cause.kind(), why.evidence.as_slice()));
            describe_message(&payload, why, guidance.injection.content(), entry_of)
        }
        TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => {
            let what = describe_outcome(*verdict, *after_calls);
            Description::new("outcome", Tone::Message, format!("of message {delivery_seq}: {what}"))
        }
        TrajectoryPayload::DeadlineSet { at_unix_ms } => {
            let at = at_unix_ms.map_or_else(|| "none".to_owned(), local_time);
            Description::new("deadline", Plain, at)
        }
        TrajectoryPayload::ConfigApplied { config, .. } => {
            let config = if config.is_empty() { "defaults" } else { config.as_str() };
            Description::new("config", Faint, config)
        }
        TrajectoryPayload::FileCreated { path } => Description::new("file", Plain, path.as_str()),
        TrajectoryPayload::Gap { lost, reason } => {
            let reason = match reason {
                GapReason::Rejected => "the store refused them",
                GapReason::Io => "the store could not be written",
                GapReason::Overload => "they came faster than they could be written",
                GapReason::Damage => "the store was damaged",
            };
            Description::new("GAP", Bad, format!("{lost} records were lost here: {reason}"))
        }
        TrajectoryPayload::Resumed => Description::new("resumed", Plain, ""),
        TrajectoryPayload::ContextCompacted { trigger } => {
            Description::new("compacted", Plain, trigger.as_deref().unwrap_or_default())
        }
        TrajectoryPayload::Unread { raw, .. } => Description::new("unread", Faint, raw.as_str()),
        _ => describe_mechanics(&payload),
    }
}

/// Describes records about model requests and the parts of hosts, which few people read.
fn describe_mechanics(payload: &TrajectoryPayload) -> Description {
    let (label, text) = match payload {
        TrajectoryPayload::UsageReported { usage } => {
            let (input, output) = (usage.input_tokens, usage.output_tokens);
            let end = if usage.is_estimate { " (estimated)" } else { "" };
            ("usage", format!("{input} tokens in, {output} tokens out{end}"))
        }
        TrajectoryPayload::CostReported { total_micro_usd } => {
            ("cost", format!("{total_micro_usd} dollars so far"))
        }
        TrajectoryPayload::ProxyAttached => ("proxy", "attached".to_owned()),
        TrajectoryPayload::RunDescribed { folder, command, host_version, model, exit_code } => {
            let exit_code = exit_code.map(|code| code.to_string());
            let fields = [
                ("folder", folder),
                ("command", command),
                ("version", host_version),
                ("model", model),
                ("exit code", &exit_code),
            ];
            let fields =
                fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let texts: Vec<String> =
                fields.map(|(name, value)| format!("{name} {value}")).collect();
            ("about", texts.join(", "))
        }
        TrajectoryPayload::ProviderRequestPrepared {
            model_id,
            message_count,
            kept_by_server,
            ..
        } => {
            let model = model_id.as_deref().unwrap_or("the model");
            let kept = if *kept_by_server { ", kept by its server" } else { "" };
            ("request", format!("{message_count} messages to {model}{kept}"))
        }
        TrajectoryPayload::ContextTransformApplied { plugin, .. } => ("transform", plugin.clone()),
        TrajectoryPayload::ToolGateApplied { plugin, .. } => ("gate", plugin.clone()),
        TrajectoryPayload::ToolGateConflictResolved { reason, .. } => ("gate", reason.clone()),
        TrajectoryPayload::OutputTokensEscalation { new_cap, .. } => {
            ("retry", format!("with at most {new_cap} output tokens"))
        }
        other => ("record", other.kind().to_owned()),
    };
    Description::new(label, Tone::Faint, text)
}

fn label_of_end(failed: Option<bool>, otherwise: &'static str) -> (&'static str, Tone) {
    match failed {
        Some(true) => ("failed", Tone::Bad),
        _ => (otherwise, Tone::Plain),
    }
}

/// What became of the problem that a message is about.
pub(crate) fn describe_outcome(verdict: OutcomeVerdict, after_calls: u64) -> String {
    let calls = if after_calls == 1 { "call" } else { "calls" };
    match verdict {
        OutcomeVerdict::Cleared => format!("the problem went away after {after_calls} {calls}"),
        OutcomeVerdict::Ignored => {
            format!("the problem was still there after {after_calls} {calls}")
        }
        OutcomeVerdict::RunEnded => format!("the run ended first, after {after_calls} {calls}"),
    }
}

/// Describes a message for the agent: what it is about, the entries that show it, and the text.
fn describe_message(
    payload: &TrajectoryPayload,
    why: Option<(&str, &[u64])>,
    text: &str,
    entry_of: impl Fn(u64) -> u64,
) -> Description {
    let about = why.map_or_else(String::new, |(cause, evidence)| {
        let seqs: BTreeSet<u64> = evidence.iter().map(|seq| entry_of(*seq)).collect();
        let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
        match seqs.is_empty() {
            true => format!("({}) ", plain_name(cause)),
            false => format!("({}, see {}) ", plain_name(cause), seqs.join(", ")),
        }
    });
    let label = match payload {
        _ if payload.is_withheld() => "withheld",
        _ if payload.reached_agent() => "message",
        _ => "shadow",
    };
    Description::new(label, Tone::Message, format!("{about}{text}"))
}

fn describe_talk(message: &AgentMessage) -> Description {
    let (label, text) = match message {
        AgentMessage::System { content, .. } => ("system", content.clone()),
        AgentMessage::User { content: UserContent::Text(text), .. } => ("user", text.clone()),
        AgentMessage::User { .. } => ("user", "(text and images)".to_owned()),
        AgentMessage::Assistant { content, error_message: None, .. } => {
            ("model", content.plain_text().into_owned())
        }
        AgentMessage::Assistant { content, error_message: Some(error), .. } => {
            let text = format!("{} (error: {error})", content.plain_text());
            return Description::new("model", Tone::Bad, text.trim_start());
        }
        AgentMessage::ToolResult { tool_name, .. } => ("result", format!("of {tool_name}")),
        AgentMessage::Custom { kind, .. } => ("other", kind.clone()),
    };
    Description::new(label, Tone::Talk, text)
}

/// A call in one text: the tool and the argument that says most. Returns all arguments as well if
/// that leaves some out.
fn describe_call(tool: &str, args: &Value) -> (String, Option<String>) {
    let has_more =
        args.as_object().is_some_and(|fields| fields.len() > 1) && telling_argument(args).is_some();
    let pretty = || serde_json::to_string_pretty(args).unwrap_or_else(|_| args.to_string());
    (call_text(tool, args), has_more.then(pretty))
}

/// A call in one text: the tool and the argument that says most, or all arguments.
pub(crate) fn call_text(tool: &str, args: &Value) -> String {
    match (telling_argument(args), args) {
        (Some(telling), _) => format!("{tool} {telling}"),
        (None, Value::Null) => tool.to_owned(),
        (None, Value::Object(fields)) if fields.is_empty() => tool.to_owned(),
        (None, Value::String(text)) => format!("{tool} {text}").trim_end().to_owned(),
        (None, args) => format!("{tool} {args}"),
    }
}

/// The argument that says most about what a call does.
fn telling_argument(args: &Value) -> Option<Cow<'_, str>> {
    let fields = args.as_object()?;
    TELLING_ARGUMENTS.iter().find_map(|name| match fields.get(*name)? {
        Value::String(text) if !text.trim().is_empty() => Some(Cow::Borrowed(text.as_str())),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(Cow::Owned(words?.join(" ")))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::describe_call;

    #[test]
    fn a_call_is_described_by_the_argument_that_says_most() {
        let text = |args| describe_call("bash", &args).0;
        assert_eq!(text(json!({"command": "make", "timeout": 5})), "bash make");
        assert_eq!(text(json!({"command": ["bash", "-lc", "ls"]})), "bash bash -lc ls");
        assert_eq!(text(json!({"n": 1})), r#"bash {"n":1}"#);
        assert_eq!(text(json!({})), "bash");
        assert_eq!(text(json!(null)), "bash");
        assert_eq!(text(json!("x")), "bash x");
        assert!(describe_call("t", &json!({"path": "a", "n": 1})).1.unwrap().contains("\"n\": 1"));
        assert_eq!(describe_call("t", &json!({"path": "a"})).1, None);
    }
}
