//! The headline of a report: how the run ended, what went wrong, what midcourse said, and whether
//! that helped, in a few sentences.

use std::time::Duration;

use midcourse::{OutcomeVerdict, RunSummary, Timestamp, now};

use super::clock::Clock;
use super::data::{Message, Pause, RunReport, Trouble};
use super::words;
use crate::display::{duration, one_line};

/// A pause is worth a sentence if it is at least this share of the run.
const WORTH_MENTIONING: u32 = 7;

/// How a run ended, as far as its row in the store says it.
pub(crate) struct Ending<'a> {
    pub(crate) outcome: Option<&'a str>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) has_ended: bool,
    pub(crate) took: Duration,
    pub(crate) latest: Timestamp,
    pub(crate) clock: Clock,
}

/// A run whose latest record is older than this, and that has no recorded end, is over.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);

impl<'a> Ending<'a> {
    pub(crate) fn of_run(run: &'a RunSummary) -> Self {
        Self {
            outcome: run.outcome.as_deref(),
            exit_code: run.exit_code,
            has_ended: run.ended.is_some(),
            took: run.latest.since(run.started),
            latest: run.latest,
            clock: Clock::of_span(run.started, run.latest),
        }
    }

    pub(crate) fn of_report(report: &'a RunReport) -> Self {
        Self {
            outcome: report.outcome.as_deref(),
            exit_code: report.exit_code,
            has_ended: report.ended.is_some(),
            took: report.duration(),
            latest: report.latest,
            clock: Clock::of(report),
        }
    }

    /// The first sentence of the headline.
    pub(crate) fn text(&self) -> String {
        let took = duration(self.took);
        let code = self.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
        if !self.has_ended {
            let last = self.clock.time(self.latest);
            return if now().since(self.latest) > LONGEST_CALL {
                format!("It has no recorded end: it stopped or was killed at {last}, after {took}.")
            } else {
                format!("Still running, or killed: its last record is from {last}, after {took}.")
            };
        }
        match self.outcome {
            Some("completed") => format!("Finished after {took}{code}."),
            Some("failed") => format!("Failed after {took}{code}."),
            Some("aborted") => format!("Stopped by the user or a signal after {took}{code}."),
            Some("limit_reached") => format!("Stopped at a limit of the agent after {took}{code}."),
            Some("unknown") | None if code.is_empty() => {
                format!("Ended after {took}; the agent did not say how.")
            }
            Some("unknown") | None => format!("Ended after {took}{code}."),
            Some(other) => format!("Ended after {took}: {}.", one_line(other, 60)),
        }
    }
}

/// The whole headline.
pub(crate) fn text(report: &RunReport) -> String {
    let mut sentences = vec![Ending::of_report(report).text()];
    sentences.extend(rest(report));
    sentences.join(" ")
}

/// The sentences after the first one.
pub(crate) fn rest(report: &RunReport) -> Vec<String> {
    let clock = Clock::of(report);
    let mut sentences = Vec::new();
    if let Some(call) = report.open_calls.first() {
        let since = clock.time(call.at);
        let text = one_line(&call.text, 60);
        sentences.push(format!("Its last call, {text}, began at {since} and has no result."));
    }
    let worst = worst(report);
    if let Some((trouble, others)) = &worst {
        sentences.push(trouble_sentence(trouble, *others, &clock));
    }
    sentences.extend(messages_sentence(report, worst.is_some()));
    sentences.extend(pause_sentence(report, &clock));
    sentences
}

/// The trouble that took the most calls, and the number of other troubles. Two patterns that show
/// in the same calls count as one.
fn worst(report: &RunReport) -> Option<(&Trouble, usize)> {
    let different = distinct(&report.trouble);
    // If two took equally many calls, the first one.
    let worst = different.iter().rev().max_by_key(|trouble| trouble.count)?;
    Some((worst, different.len().saturating_sub(1)))
}

/// The troubles without those that show in the same stretch of the same run as one that took more
/// calls, in the order of their beginning.
pub(crate) fn distinct(all: &[Trouble]) -> Vec<&Trouble> {
    let mut by_count: Vec<&Trouble> = all.iter().collect();
    by_count.sort_by_key(|it| (std::cmp::Reverse(it.count), it.pattern != "repeated_error"));
    let mut kept: Vec<&Trouble> = Vec::new();
    for trouble in by_count {
        let is_same = |other: &&Trouble| {
            other.record.run_id == trouble.record.run_id
                && other.from <= trouble.until
                && trouble.from <= other.until
        };
        if !kept.iter().any(is_same) {
            kept.push(trouble);
        }
    }
    kept.sort_by_key(|trouble| trouble.at);
    kept
}

fn trouble_sentence(trouble: &Trouble, others: usize, clock: &Clock) -> String {
    let (from, until) = (clock.time(trouble.from), clock.time(trouble.until));
    let when = if from == until { format!("at {from}") } else { format!("from {from} to {until}") };
    let others = match others {
        0 => String::new(),
        1 => "; there was trouble once more".to_owned(),
        more => {
            let times = words::times(u64::try_from(more).unwrap_or(u64::MAX));
            format!("; there was other trouble {times}")
        }
    };
    format!("It {} {when}{others}.", trouble.text)
}

fn messages_sentence(report: &RunReport, has_trouble: bool) -> Option<String> {
    let about_trouble = |message: &&Message| {
        message.pattern.as_deref().is_some_and(words::can_be_disabled) || message.outcome.is_some()
    };
    let shown: Vec<&Message> =
        report.messages.iter().filter(|message| message.was_shown()).collect();
    let spoken: Vec<&Message> = shown.iter().copied().filter(about_trouble).collect();
    let times = |count: usize| words::times(u64::try_from(count).unwrap_or(u64::MAX));
    if shown.is_empty() && report.message_count > 0 {
        let count = words::count(report.message_count, "message");
        let them = if report.message_count == 1 { "it" } else { "them" };
        let reason = match report.messages.iter().any(|message| message.withheld) {
            true => "withheld by the experiment",
            false => "shadow mode",
        };
        return Some(format!(
            "midcourse recorded {count} and did not show {them} to the agent ({reason})."
        ));
    }
    if spoken.is_empty() {
        return Some(match (has_trouble, shown.len()) {
            (true, 0) => "midcourse said nothing.".to_owned(),
            (true, _) => "midcourse said nothing about it.".to_owned(),
            (false, 0) => "midcourse found no trouble and said nothing.".to_owned(),
            (false, count) => format!(
                "midcourse found no trouble; it spoke {} about time or budget.",
                times(count)
            ),
        });
    }
    let verdict = |message: &&&Message| message.outcome.map(|outcome| outcome.verdict);
    let is = |wanted: OutcomeVerdict| move |message: &&&Message| verdict(message) == Some(wanted);
    let cleared = spoken.iter().filter(is(OutcomeVerdict::Cleared)).count();
    let ignored = spoken.iter().filter(is(OutcomeVerdict::Ignored)).count();
    let ended = spoken.iter().filter(is(OutcomeVerdict::RunEnded)).count();
    let result = match (spoken.len(), cleared, ignored, ended) {
        (1, ..) => {
            let outcome = spoken.first().and_then(|message| words::outcome(message));
            outcome.map(|outcome| format!(", and {outcome}"))
        }
        (_, 0, 0, 0) => None,
        (all, 0, ignored, _) if ignored == all => {
            Some("; the problem was still there after each message".to_owned())
        }
        // What became of the problem after the other messages is not known.
        (_, 0, ignored @ 1.., _) => {
            let ignored = words::number(u64::try_from(ignored).unwrap_or(u64::MAX));
            Some(format!("; the problem was still there after {ignored} of these messages"))
        }
        (_, 0, 0, _) => Some("; the run ended before it was clear whether that helped".to_owned()),
        (_, 1, _, _) => {
            let place = spoken.iter().position(|it| is(OutcomeVerdict::Cleared)(&it));
            let place = words::ordinal(place.unwrap_or_default().saturating_add(1));
            Some(format!("; the problem went away after the {place} message"))
        }
        (_, _, 0, 0) => Some("; each time the problem went away".to_owned()),
        (_, cleared, ignored, _) => Some(format!(
            "; the problem went away after {} of these messages and stayed after {}",
            words::number(u64::try_from(cleared).unwrap_or(u64::MAX)),
            words::number(u64::try_from(ignored).unwrap_or(u64::MAX)),
        )),
    };
    let withheld = match report.messages.iter().filter(|message| message.withheld).count() {
        0 => String::new(),
        count => {
            let count = words::count(u64::try_from(count).unwrap_or(u64::MAX), "more message");
            format!(" The experiment withheld {count}.")
        }
    };
    let result = result.unwrap_or_default();
    Some(format!("midcourse spoke {}{result}.{withheld}", times(spoken.len())))
}

fn pause_sentence(report: &RunReport, clock: &Clock) -> Option<String> {
    let pause = report.pauses.first()?;
    let Pause { from, until, during } = pause;
    if pause.length() < report.duration() / WORTH_MENTIONING {
        return None;
    }
    let (from, until) = (clock.time(*from), clock.time(*until));
    let during = match during {
        Some(call) => format!(" while {} ran", one_line(call, 60)),
        None => String::new(),
    };
    Some(format!("Nothing happened from {from} to {until}{during}."))
}
