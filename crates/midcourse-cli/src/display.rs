//! Formats values for a terminal: times, durations, untrusted text, and records as one line.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::tz::TimeZone;
use midcourse::{
    AgentMessage, GapReason, OutcomeVerdict, StoredRecord, Timestamp, TrajectoryPayload,
    TrajectoryRecord, UserContent,
};
use serde_json::Value;

/// Formats a time in the user's time zone.
pub(crate) fn local_time(at: Timestamp) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(
            || "?".to_owned(),
            |at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        )
}

/// Formats a time for programs: RFC 3339 in UTC.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| at.unix_ms().to_string(), |at| format!("{at:.3}"))
}

/// Formats a duration in at most two units, such as hours and minutes.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) => format!("{} ms", duration.as_millis()),
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

/// Escapes control characters, which could send commands to the terminal, and characters that
/// change the writing direction. Newlines and tabs are kept.
pub(crate) fn escape_control_chars(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// A JSON value on one line. Characters that a terminal or an editor does not show are escaped, as
/// JSON allows it.
pub(crate) fn json_line(value: &Value) -> String {
    let json = value.to_string();
    if !json.contains(is_hidden) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether a character is not shown, or changes how the text around it is shown: control
/// characters, those that change the writing direction, those without a width, and tags. With them,
/// a text could hide what a command really does, or contain words that only a model reads.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Puts a text on one line of at most `max_chars` characters, with control characters escaped.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let text = escape_control_chars(text);
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > max_chars {
            let cut: String = line.chars().take(max_chars.saturating_sub(1)).collect();
            return format!("{cut}…");
        }
    }
    line
}

/// Describes a record for the terminal. Returns a label of at most nine characters, and a text of
/// any length whose control characters are not escaped yet. If the record is the end of a tool
/// call, `failed` says whether the call failed.
pub(crate) fn describe(record: &TrajectoryRecord, failed: Option<bool>) -> (&'static str, String) {
    match &record.payload {
        TrajectoryPayload::RunStarted { identity } => match &identity.parent_run_id {
            Some(parent) => ("started", format!("by {parent}")),
            None => ("started", String::new()),
        },
        TrajectoryPayload::RunEnded { outcome, .. } => ("ended", outcome.as_str().to_owned()),
        TrajectoryPayload::TurnStarted => ("turn", String::new()),
        TrajectoryPayload::TurnEnded { .. } => ("turn end", String::new()),
        TrajectoryPayload::MessageAppended { message } => describe_message(message),
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => {
            ("call", format!("{tool_name} {args}"))
        }
        TrajectoryPayload::ToolEnded { tool_name, result, .. } => (
            if failed == Some(true) { "failed" } else { "result" },
            format!("{tool_name}: {}", result.comparable_text()),
        ),
        TrajectoryPayload::Denied { tool_name, reason, .. } => {
            ("denied", format!("{tool_name} {}", reason.as_deref().unwrap_or_default()))
        }
        TrajectoryPayload::FeedbackDelivered { feedback, text, shadow, .. } => {
            let evidence = feedback.why().map(|why| why.evidence.as_slice()).unwrap_or_default();
            let text = describe_delivery(feedback.provider_name(), evidence, text);
            (delivery_label(*shadow), text)
        }
        TrajectoryPayload::GuidanceDelivered { guidance, shadow } => {
            let why = guidance.injection.why();
            let evidence = why.map(|why| why.evidence.as_slice()).unwrap_or_default();
            let content = guidance.injection.content();
            let text = describe_delivery(&guidance.provider_name, evidence, content);
            (delivery_label(*shadow), text)
        }
        TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => {
            let what = match verdict {
                OutcomeVerdict::Cleared => "problem cleared",
                OutcomeVerdict::Ignored => "problem still present",
                OutcomeVerdict::RunEnded => "run ended",
            };
            ("outcome", format!("of delivery {delivery_seq}: {what} after {after_calls} calls"))
        }
        TrajectoryPayload::DeadlineSet { at_unix_ms } => {
            ("deadline", at_unix_ms.map_or_else(|| "none".to_owned(), local_time))
        }
        TrajectoryPayload::ConfigApplied { config, .. } => ("config", config.clone()),
        TrajectoryPayload::FileCreated { path } => ("file", path.clone()),
        TrajectoryPayload::UsageReported { usage } => (
            "usage",
            format!(
                "{} tokens in, {} tokens out{}",
                usage.input_tokens,
                usage.output_tokens,
                if usage.is_estimate { " (estimated)" } else { "" }
            ),
        ),
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
        TrajectoryPayload::Resumed => ("resumed", String::new()),
        TrajectoryPayload::ContextCompacted { trigger } => {
            ("compacted", trigger.clone().unwrap_or_default())
        }
        TrajectoryPayload::Gap { lost, reason } => {
            let reason = match reason {
                GapReason::Rejected => "the store refused them",
                GapReason::Io => "the store could not be written",
                GapReason::Overload => "they came faster than they could be written",
                GapReason::Damage => "the store was damaged",
            };
            ("GAP", format!("{lost} records were lost here: {reason}"))
        }
        TrajectoryPayload::Unread { raw, .. } => ("unread", raw.clone()),
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
    }
}

const fn delivery_label(shadow: bool) -> &'static str {
    if shadow { "shadow" } else { "DELIVERED" }
}

fn describe_delivery(provider: &str, evidence: &[u64], text: &str) -> String {
    let seqs: Vec<String> = evidence.iter().map(u64::to_string).collect();
    match seqs.is_empty() {
        true => format!("({provider}) {text}"),
        false => format!("({provider}, see {}) {text}", seqs.join(", ")),
    }
}

fn describe_message(message: &AgentMessage) -> (&'static str, String) {
    match message {
        AgentMessage::System { content, .. } => ("system", content.clone()),
        AgentMessage::User { content: UserContent::Text(text), .. } => ("user", text.clone()),
        AgentMessage::User { .. } => ("user", "(text and images)".to_owned()),
        AgentMessage::Assistant { content, .. } => ("model", content.plain_text().into_owned()),
        AgentMessage::ToolResult { tool_name, .. } => ("message", format!("result of {tool_name}")),
        AgentMessage::Custom { kind, .. } => ("message", kind.clone()),
    }
}

/// Formats a record as one line: its sequence number, the time since `started`, a label, and a text
/// of at most `max_chars` characters.
pub(crate) fn record_line(stored: StoredRecord, started: Timestamp, max_chars: usize) -> String {
    let (seq, redactions, conflicts) = (stored.seq, stored.redactions, stored.conflicts.len());
    let failed = stored.failed;
    let record = stored.into_record();
    let (label, text) = describe(&record, failed);
    let after = duration(record.at().since(started));
    let mut notes = String::new();
    if redactions > 0 {
        notes.push_str(&format!(" [{redactions} redacted]"));
    }
    if conflicts > 0 {
        notes.push_str(&format!(" [conflicting reports: {conflicts}]"));
    }
    let line = format!("{seq:>6}  {after:>12}  {label:<9}  {}{notes}", one_line(&text, max_chars));
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{escape_control_chars, json_line};

    #[test]
    fn hidden_characters_are_escaped_and_keep_their_meaning_in_json() {
        let hidden = "a\u{200b}b\u{202e}c\u{e0041}d\u{7f}e";
        assert_eq!(escape_control_chars(hidden), "a\\u{200b}b\\u{202e}c\\u{e0041}d\\u{7f}e");
        let line = json_line(&json!({"text": hidden, "lines": "x\ny"}));
        assert!(line.is_ascii(), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["text"], hidden);
        let plain = json!({"text": "größer 👍"});
        assert_eq!(json_line(&plain), plain.to_string());
    }
}
