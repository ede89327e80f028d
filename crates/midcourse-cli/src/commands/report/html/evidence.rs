//! The calls that show why a message was given: their arguments and results, shortened.

use anyhow::Result;
use midcourse::{AgentMessage, CallId, Store, TrajectoryPayload};
use serde_json::Value;

use super::Page;
use crate::commands::report::clock::Clock;
use crate::commands::report::data::{Message, RecordRef};
use crate::commands::report::{pass, words};
use crate::display::one_line;

/// How many calls are shown for a message; the newest ones.
const MAX_CALLS: usize = 6;

/// How much of an argument or a result is shown, in characters.
const MAX_CHARS: usize = 1_200;

/// How far before the end of a call its start is searched, in records.
const MAX_DISTANCE: u64 = 64;

pub(super) fn add(page: &mut Page, store: &Store, message: &Message, clock: &Clock) -> Result<()> {
    let hidden = message.evidence.len().saturating_sub(MAX_CALLS);
    let shown = message.evidence.iter().skip(hidden);
    let mut calls = Vec::new();
    for record in shown {
        calls.extend(find(store, record)?);
    }
    if calls.is_empty() {
        return Ok(());
    }
    page.html("<details>");
    let count = words::count(u64::try_from(calls.len()).unwrap_or(u64::MAX), "call");
    page.element("summary", &format!("The {count} that show it"));
    if hidden > 0 {
        page.element("p class=\"quiet\"", &format!("and {hidden} earlier"));
    }
    for call in calls {
        page.html("<div class=\"call\"><div class=\"meta\">");
        page.element("span class=\"time\"", &clock.time(call.at));
        page.element("span class=\"ref\"", &call.record.to_string());
        page.element("strong", &one_line(&call.tool, 80));
        if let Some(failed) = call.failed {
            match failed {
                true => page.element("span class=\"badge bad\"", "failed"),
                false => page.element("span class=\"badge\"", "succeeded"),
            }
        }
        page.html("</div>");
        if let Some(args) = call.args {
            page.element("pre class=\"args\"", &args);
        }
        page.element("pre", &call.result);
        page.html("</div>\n");
    }
    page.html("</details>\n");
    Ok(())
}

struct Call {
    record: RecordRef,
    at: midcourse::Timestamp,
    tool: String,
    /// `None` if the start of the call was not recorded.
    args: Option<String>,
    result: String,
    failed: Option<bool>,
}

/// Finds the call, or the model response, that the record is about.
fn find(store: &Store, record: &RecordRef) -> Result<Option<Call>> {
    let run = record.run_id.as_str();
    let stored = store.records_or_damage(run, record.seq, 1)?.pop();
    let Some((seq, Ok(stored))) = stored else { return Ok(None) };
    if seq != record.seq {
        return Ok(None);
    }
    let (at, failed) = (stored.at, stored.failed);
    let (tool, id, result) = match stored.into_record().payload {
        TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, .. } => {
            (tool_name, Some(tool_call_id), words::shorten(&result.comparable_text(), MAX_CHARS))
        }
        TrajectoryPayload::Denied { tool_call_id, tool_name, reason } => {
            (tool_name, Some(tool_call_id), format!("refused: {}", reason.unwrap_or_default()))
        }
        TrajectoryPayload::MessageAppended { message: AgentMessage::Assistant { content, .. } } => {
            ("response of the model".into(), None, words::shorten(&content.plain_text(), MAX_CHARS))
        }
        // The record of a deadline, for example, says no more than the message.
        _ => return Ok(None),
    };
    let args = match &id {
        Some(id) => arguments(store, run, seq, id)?,
        None => None,
    };
    Ok(Some(Call { record: record.clone(), at, tool: tool.to_string(), args, result, failed }))
}

/// The arguments of the call that ended at `seq`.
fn arguments(store: &Store, run: &str, seq: u64, id: &CallId) -> Result<Option<String>> {
    let from = seq.saturating_sub(MAX_DISTANCE);
    let count = usize::try_from(seq.saturating_sub(from)).unwrap_or_default();
    let before = store.records_or_damage(run, from, count)?;
    for (_, stored) in before.into_iter().rev() {
        let Ok(stored) = stored else { continue };
        if let TrajectoryPayload::ToolStarted { tool_call_id, args, .. } =
            stored.into_record().payload
            && tool_call_id == *id
        {
            return Ok(Some(shown(&args)));
        }
    }
    Ok(None)
}

/// A command alone; other arguments as JSON.
fn shown(args: &Value) -> String {
    let is_only = args.as_object().is_some_and(|fields| fields.len() == 1);
    match args.get("command") {
        Some(Value::String(command)) if is_only => words::shorten(command, MAX_CHARS),
        Some(Value::Array(_)) if is_only => pass::telling_argument(args),
        _ => {
            let json = serde_json::to_string_pretty(args).unwrap_or_else(|_| args.to_string());
            words::shorten(&json, MAX_CHARS)
        }
    }
}
