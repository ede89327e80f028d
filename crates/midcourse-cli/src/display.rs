//! How facts read on a terminal: times, lengths of time, and one line for a record.

use std::borrow::Cow;
use std::time::Duration;

use jiff::tz::TimeZone;
use midcourse::{
    AgentMessage, StoredRecord, Timestamp, TrajectoryPayload, TrajectoryRecord, UserContent,
};

/// A moment in the user's time zone.
pub(crate) fn moment(at: Timestamp) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(
            || "?".to_owned(),
            |at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        )
}

/// A moment for programs, as RFC 3339 in UTC.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| at.unix_ms().to_string(), |at| format!("{at:.3}"))
}

/// A length of time in at most two units.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) => format!("{} ms", time.as_millis()),
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

/// Text that cannot do anything to a terminal: control characters are shown, not sent.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    // These turn the direction of what follows, and can make text read as what it is not.
    let is_turning = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    if !text.contains(|c| is_control(c) || is_turning(c)) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if is_control(c) || is_turning(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    });
    Cow::Owned(shown)
}

/// The beginning of a text, on one line.
pub(crate) fn short(text: &str, width: usize) -> String {
    let text = plain(text);
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.chars().count() > width {
            let cut: String = words.chars().take(width.saturating_sub(1)).collect();
            return format!("{cut}…");
        }
    }
    words
}

/// What a record says, in a word and a text.
pub(crate) fn told(record: &TrajectoryRecord) -> (&'static str, String) {
    match &record.payload {
        TrajectoryPayload::RunStarted { identity } => match &identity.parent_run_id {
            Some(parent) => ("begins", format!("started by {parent}")),
            None => ("begins", String::new()),
        },
        TrajectoryPayload::RunEnded { outcome, .. } => ("ends", outcome.as_str().to_owned()),
        TrajectoryPayload::TurnStarted => ("turn", String::new()),
        TrajectoryPayload::TurnEnded { .. } => ("turn ends", String::new()),
        TrajectoryPayload::MessageAppended { message } => said_by(message),
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => {
            ("call", format!("{tool_name} {args}"))
        }
        TrajectoryPayload::ToolEnded { tool_name, result, is_error, .. } => (
            if *is_error { "failed" } else { "result" },
            format!("{tool_name}: {}", result.comparable_text()),
        ),
        TrajectoryPayload::Denied { tool_name, reason, .. } => {
            ("refused", format!("{tool_name} {}", reason.as_deref().unwrap_or_default()))
        }
        TrajectoryPayload::FeedbackDelivered { feedback, text, shadow, .. } => {
            let evidence = feedback.why().map(|why| why.evidence.clone()).unwrap_or_default();
            (spoke(*shadow), words_of(feedback.provider_name(), &evidence, text))
        }
        TrajectoryPayload::GuidanceDelivered { guidance, shadow } => {
            let why = guidance.injection.why();
            let evidence = why.map(|why| why.evidence.clone()).unwrap_or_default();
            let words = guidance.injection.content();
            (spoke(*shadow), words_of(&guidance.provider_name, &evidence, words))
        }
        TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => (
            "followed",
            format!("what was said in {delivery_seq}: {verdict:?} after {after_calls} calls"),
        ),
        TrajectoryPayload::DeadlineSet { at_unix_ms } => {
            ("deadline", at_unix_ms.map_or_else(|| "none".to_owned(), moment))
        }
        TrajectoryPayload::ConfigApplied { config, .. } => ("config", config.clone()),
        TrajectoryPayload::FileCreated { path } => ("file", path.clone()),
        TrajectoryPayload::UsageReported { usage } => (
            "usage",
            format!("{} tokens in, {} tokens out", usage.input_tokens, usage.output_tokens),
        ),
        TrajectoryPayload::CostReported { total_micro_usd } => {
            ("cost", format!("{total_micro_usd} dollars so far"))
        }
        TrajectoryPayload::ProxyAttached => ("proxy", "attached".to_owned()),
        TrajectoryPayload::Resumed => ("goes on", String::new()),
        TrajectoryPayload::ContextCompacted { trigger } => {
            ("compacted", trigger.clone().unwrap_or_default())
        }
        TrajectoryPayload::Gap { lost, reason } => {
            ("GAP", format!("{lost} records are missing here ({reason:?})"))
        }
        TrajectoryPayload::Unread { raw, .. } => ("unread", raw.clone()),
        TrajectoryPayload::ProviderRequestPrepared { model_id, message_count, .. } => (
            "request",
            format!("{message_count} messages to {}", model_id.as_deref().unwrap_or("the model")),
        ),
        TrajectoryPayload::ContextTransformApplied { plugin, .. } => ("transform", plugin.clone()),
        TrajectoryPayload::ToolGateApplied { plugin, .. } => ("gate", plugin.clone()),
        TrajectoryPayload::ToolGateConflictResolved { reason, .. } => ("gate", reason.clone()),
        TrajectoryPayload::OutputTokensEscalation { new_cap, .. } => {
            ("again", format!("with room for {new_cap} tokens"))
        }
    }
}

const fn spoke(shadow: bool) -> &'static str {
    if shadow { "would say" } else { "SAID" }
}

fn words_of(provider: &str, evidence: &[u64], text: &str) -> String {
    let shown: Vec<String> = evidence.iter().map(u64::to_string).collect();
    match shown.is_empty() {
        true => format!("({provider}) {text}"),
        false => format!("({provider}, see {}) {text}", shown.join(", ")),
    }
}

fn said_by(message: &AgentMessage) -> (&'static str, String) {
    match message {
        AgentMessage::System { content, .. } => ("system", content.clone()),
        AgentMessage::User { content: UserContent::Text(text), .. } => ("user", text.clone()),
        AgentMessage::User { .. } => ("user", "(text and images)".to_owned()),
        AgentMessage::Assistant { content, .. } => ("model", content.plain_text().into_owned()),
        AgentMessage::ToolResult { tool_name, .. } => ("message", format!("result of {tool_name}")),
        AgentMessage::Custom { kind, .. } => ("message", kind.clone()),
    }
}

/// One line for a record.
pub(crate) fn line(stored: StoredRecord, since: Timestamp, width: usize) -> String {
    let (seq, redactions, diverged) = (stored.seq, stored.redactions, stored.diverged.len());
    let record = stored.into_record();
    let (word, text) = told(&record);
    let after = length(record.at().since(since));
    let mut notes = String::new();
    if redactions > 0 {
        notes.push_str(&format!(" [{redactions} redacted]"));
    }
    if diverged > 0 {
        notes.push_str(&format!(" [told differently {diverged} more time(s)]"));
    }
    let line = format!("{seq:>6}  {after:>12}  {word:<9}  {}{notes}", short(&text, width));
    line.trim_end().to_owned()
}
