//! The summary that `midcourse run` prints at the end: the duration, the number of tool calls, the
//! messages to the agent, and whether the problem that each message is about was gone afterwards.

use std::time::Duration;

use midcourse::{
    DataDir, OutcomeVerdict, RunSummary, Store, StoreError, Timestamp, TrajectoryPayload,
    TrajectoryRecord, has_spilled, now,
};

use super::child::Ended;
use crate::commands::{eprint_line, warn};
use crate::display::{duration, one_line};
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Maximum number of messages to show. If there are more, half of this number is shown from the
/// beginning and half from the end.
const MAX_SHOWN: usize = 8;

/// Maximum number of records that are read from the store at once.
const PAGE_SIZE: usize = 256;

/// Maximum number of characters shown of a message.
const MESSAGE_WIDTH: usize = 76;

/// What happened in one run since the command was started.
#[derive(Default)]
struct RunTotals {
    calls: u64,
    failures: u64,
    messages: Vec<Message>,
}

/// A message to the agent.
struct Message {
    seq: u64,
    at: Timestamp,
    /// The problem or limit that the message is about, such as `doom_loop`; empty if unknown.
    cause: String,
    text: String,
    /// What followed the message, and after how many tool calls; `None` if that was not recorded.
    outcome: Option<(OutcomeVerdict, u64)>,
    /// Whether the message was only recorded and not shown to the agent.
    is_shadow: bool,
}

/// Which of the two, hooks and a proxy, were set up to report what the command does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observed {
    pub(crate) hooks: bool,
    pub(crate) proxy: bool,
}

/// Prints the summary to standard error. `unread` says which traffic midcourse could not read. An
/// error is printed too and not returned, because `midcourse run` must exit with the exit code of
/// the command.
pub(crate) fn print(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
    ended: &Ended,
    observed: Observed,
    unread: Option<&str>,
) {
    let elapsed = now().since(started);
    let log = Log::new(Some(data_dir), "run");
    let log = log.written_within(elapsed).map(|log| log.display().to_string());
    match collect(data_dir, settings, started) {
        // Neither hooks nor a proxy were set up, and a warning said so when the command started.
        Ok(runs) if runs.is_empty() && !observed.hooks && !observed.proxy => {}
        Ok(runs) if runs.is_empty() => {
            let more = log.map_or_else(String::new, |log| format!("; see {log}"));
            let why = if observed.hooks {
                "no hook ran. The command did not start working, continues in the background, or \
                 has its hooks switched off"
            } else {
                "no model request came through midcourse. The command made none, or connects in a \
                 way of its own"
            };
            let why = unread.unwrap_or(why);
            warn(&format!("nothing was recorded in {}: {why}{more}", duration(elapsed)));
        }
        Ok(runs) => {
            for line in lines(&runs, started, elapsed, ended) {
                eprint_line(&line);
            }
            if let Some(log) = log {
                warn(&format!("there were problems; see {log}"));
            }
        }
        Err(error) => warn(&format!("cannot read the recorded runs: {error}")),
    }
    if has_spilled(data_dir) {
        warn("some events are in the spill folder; they are stored with the next event");
    }
}

/// The runs of the launch (this use of `midcourse run`), oldest first. The totals of a run that was
/// resumed cover only the part since the launch.
fn collect(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
) -> Result<Vec<(RunSummary, RunTotals)>, StoreError> {
    let (Some(store), Some(key)) = (Store::open_read_only(data_dir)?, settings.launch_key()) else {
        return Ok(Vec::new());
    };
    let mut runs = Vec::new();
    for (run, first_seq) in store.runs_with_fact("config_applied", &key, started)? {
        let mut totals = totals(&store, &run, first_seq)?;
        // Calls without a result were made too, such as the one that the agent stopped on.
        let open_calls = store.open_call_count(run.run_id.as_str())?;
        totals.calls = totals.calls.saturating_add(open_calls);
        runs.push((run, totals));
    }
    runs.sort_by_key(|(run, _)| run.started);
    Ok(runs)
}

fn totals(store: &Store, run: &RunSummary, mut from: u64) -> Result<RunTotals, StoreError> {
    let mut totals = RunTotals::default();
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE_SIZE)?;
        let Some((last, _)) = page.last() else { return Ok(totals) };
        from = last.saturating_add(1);
        for record in page.into_iter().filter_map(|(_, stored)| stored.ok()) {
            let failed = record.failed;
            totals.add(&record.into_record(), failed);
        }
    }
}

impl RunTotals {
    /// Adds a record to the totals. If the record is the end of a tool call, `failed` says whether
    /// the call failed or was refused.
    fn add(&mut self, record: &TrajectoryRecord, failed: Option<bool>) {
        let (why, text, is_shadow) = match &record.payload {
            TrajectoryPayload::ToolEnded { .. } | TrajectoryPayload::Denied { .. } => {
                self.calls += 1;
                self.failures += u64::from(failed == Some(true));
                return;
            }
            TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => {
                let mut messages = self.messages.iter_mut();
                if let Some(message) = messages.find(|message| message.seq == *delivery_seq) {
                    message.outcome = Some((*verdict, *after_calls));
                }
                return;
            }
            TrajectoryPayload::FeedbackDelivered { feedback, shadow, .. } => {
                (feedback.why(), feedback.summary(), *shadow)
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow } => {
                (guidance.injection.why(), guidance.injection.content(), *shadow)
            }
            _ => return,
        };
        self.messages.push(Message {
            seq: record.seq,
            at: record.at(),
            cause: why.map_or("", |why| why.cause.kind()).to_owned(),
            text: text.to_owned(),
            outcome: None,
            is_shadow,
        });
    }
}

fn lines(
    runs: &[(RunSummary, RunTotals)],
    started: Timestamp,
    elapsed: Duration,
    ended: &Ended,
) -> Vec<String> {
    let sum = |count: fn(&RunTotals) -> u64| runs.iter().map(|(_, totals)| count(totals)).sum();
    let (calls, failures): (u64, u64) = (sum(|it| it.calls), sum(|it| it.failures));
    let subagents = runs.iter().filter(|(run, _)| run.parent_run_id.is_some()).count();
    let mut counts = format!("{}, {failures} failed or refused", count(calls, "tool call"));
    if subagents > 0 {
        counts.push_str(&format!("; {subagents} of {} runs were subagents", runs.len()));
    }
    let mut lines =
        vec![String::new(), format!("midcourse: {}, {ended}; {counts}", duration(elapsed))];
    let mut messages: Vec<&Message> =
        runs.iter().flat_map(|(_, totals)| &totals.messages).collect();
    messages.sort_by_key(|message| message.at);
    lines.extend(message_lines(&messages, started));
    let main = runs.iter().find(|(run, _)| run.parent_run_id.is_none()).or(runs.first());
    if let Some((run, _)) = main {
        lines.push(format!("  details: midcourse show {}", one_line(run.run_id.as_str(), 80)));
    }
    lines
}

fn message_lines(messages: &[&Message], started: Timestamp) -> Vec<String> {
    if messages.is_empty() {
        return vec!["  no messages".to_owned()];
    }
    let number = u64::try_from(messages.len()).unwrap_or(u64::MAX);
    let all_shadow = messages.iter().all(|message| message.is_shadow);
    let heading = if all_shadow { "recorded, not delivered" } else { "delivered" };
    let mut lines = vec![format!("  {} {heading}:", count(number, "message"))];
    let hidden = messages.len().saturating_sub(MAX_SHOWN);
    for (index, message) in messages.iter().enumerate() {
        match index.checked_sub(MAX_SHOWN / 2) {
            Some(0) if hidden > 0 => lines.push(format!("  {:>12}  … {hidden} more …", "")),
            Some(after_first) if after_first < hidden => {}
            _ => {
                let after = duration(message.at.since(started));
                lines.push(format!("  {after:>12}  {}", one_line(&message.text, MESSAGE_WIDTH)));
                lines.push(format!("  {:>12}  ({}{})", "", message.cause, outcome(message)));
            }
        }
    }
    lines
}

fn outcome(message: &Message) -> String {
    let Some((verdict, calls)) = message.outcome else { return String::new() };
    let calls = count(calls, "call");
    match verdict {
        OutcomeVerdict::Cleared => format!("; cleared after {calls}"),
        OutcomeVerdict::Ignored => format!("; still there after {calls}"),
        OutcomeVerdict::RunEnded => format!("; the run ended {calls} later"),
    }
}

/// Formats a number with its noun: `1 call`, `2 calls`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
