//! What a launch came to, on one screen: how long it took, what was called and what failed, what
//! was said and what followed.

use std::time::Duration;

use crate::launch::Launch;
use midcourse::{
    DataDir, OutcomeVerdict, RunSummary, Store, StoreError, Timestamp, TrajectoryPayload,
    TrajectoryRecord, has_spilled, now,
};

use super::child::Ended;
use crate::commands::{eprint_line, warn};
use crate::display::{duration, one_line};
use crate::log::Log;

/// Things said that are shown; of more, the first and the last.
const SHOWN: usize = 8;

/// Records read at a time.
const PAGE: usize = 256;

/// The width of a line.
const WIDTH: usize = 76;

/// What a launch came to in one run.
#[derive(Default)]
struct Account {
    calls: u64,
    errors: u64,
    said: Vec<Said>,
}

/// Something that was said, and what followed.
struct Said {
    seq: u64,
    at: Timestamp,
    about: String,
    words: String,
    followed: Option<(OutcomeVerdict, u64)>,
    shadow: bool,
}

/// How a command is watched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watching {
    /// By its hooks.
    pub(crate) hooks: bool,
    /// By a proxy between it and its model.
    pub(crate) proxy: bool,
}

/// Shows what the launch came to. Nothing that goes wrong here is the command's fault.
pub(crate) fn show(
    home: &DataDir,
    launch: &Launch,
    begun: Timestamp,
    ended: &Ended,
    watching: Watching,
) {
    let lasted = now().since(begun);
    let log = Log::new(Some(home), "run");
    let log = log.written_within(lasted).map(|log| log.display().to_string());
    match collect(home, launch, begun) {
        // Of a command that is not watched nothing was to be expected.
        Ok(runs) if runs.is_empty() && !watching.hooks && !watching.proxy => {}
        Ok(runs) if runs.is_empty() => {
            let more = log.map_or_else(String::new, |log| format!("; {log} may say more"));
            let why = if watching.hooks {
                "no hook has reported anything. The command did not get to work, goes on in the \
                 background, or has its hooks switched off"
            } else {
                "no question to a model came through the proxy. The command asked none, or goes \
                 another way than OPENAI_BASE_URL and ANTHROPIC_BASE_URL say"
            };
            warn(&format!("nothing was recorded in {}: {why}{more}", duration(lasted)));
        }
        Ok(runs) => {
            for line in lines(&runs, begun, lasted, ended) {
                eprint_line(&line);
            }
            if let Some(log) = log {
                warn(&format!("not everything went as it should: {log} says what"));
            }
        }
        Err(error) => warn(&format!("what was recorded cannot be read: {error}")),
    }
    if has_spilled(home) {
        warn("some events wait in the spill folder; they come in with the next one");
    }
}

/// The runs of a launch, the oldest first, with what happened in them since.
fn collect(
    home: &DataDir,
    launch: &Launch,
    begun: Timestamp,
) -> Result<Vec<(RunSummary, Account)>, StoreError> {
    let Some(store) = Store::open_read_only(home)? else { return Ok(Vec::new()) };
    let mut runs = Vec::new();
    for (run, from) in store.runs_with_fact("config_applied", &launch.fact(), begun)? {
        let account = account(&store, &run, from)?;
        runs.push((run, account));
    }
    runs.sort_by_key(|(run, _)| run.started);
    Ok(runs)
}

fn account(store: &Store, run: &RunSummary, mut from: u64) -> Result<Account, StoreError> {
    let mut account = Account::default();
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(account) };
        from = last.saturating_add(1);
        for record in page.into_iter().filter_map(|(_, stored)| stored.ok()) {
            account.note(&record.into_record());
        }
    }
}

impl Account {
    fn note(&mut self, record: &TrajectoryRecord) {
        let (why, words, shadow) = match &record.payload {
            TrajectoryPayload::ToolEnded { is_error, .. } => {
                self.calls += 1;
                self.errors += u64::from(*is_error);
                return;
            }
            TrajectoryPayload::Denied { .. } => {
                self.calls += 1;
                self.errors += 1;
                return;
            }
            TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => {
                let said = self.said.iter_mut().find(|said| said.seq == *delivery_seq);
                if let Some(said) = said {
                    said.followed = Some((*verdict, *after_calls));
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
        self.said.push(Said {
            seq: record.seq,
            at: record.at(),
            about: why.map_or("", |why| why.cause.kind()).to_owned(),
            words: words.to_owned(),
            followed: None,
            shadow,
        });
    }
}

fn lines(
    runs: &[(RunSummary, Account)],
    begun: Timestamp,
    lasted: Duration,
    ended: &Ended,
) -> Vec<String> {
    let sum = |count: fn(&Account) -> u64| runs.iter().map(|(_, account)| count(account)).sum();
    let (calls, errors): (u64, u64) = (sum(|it| it.calls), sum(|it| it.errors));
    let helpers = runs.iter().filter(|(run, _)| run.parent_run_id.is_some()).count();
    let mut counts = format!("{}, {errors} failed or refused", calls_in_words(calls));
    if helpers > 0 {
        counts.push_str(&format!("; {helpers} of {} runs were subagents", runs.len()));
    }
    let mut lines =
        vec![String::new(), format!("midcourse: {}, {ended}; {counts}", duration(lasted))];
    let mut said: Vec<&Said> = runs.iter().flat_map(|(_, account)| &account.said).collect();
    said.sort_by_key(|said| said.at);
    lines.extend(said_lines(&said, begun));
    let main = runs.iter().find(|(run, _)| run.parent_run_id.is_none()).or(runs.first());
    if let Some((run, _)) = main {
        lines.push(format!("  look closer: midcourse show {}", one_line(run.run_id.as_str(), 80)));
    }
    lines
}

fn said_lines(said: &[&Said], begun: Timestamp) -> Vec<String> {
    if said.is_empty() {
        return vec!["  nothing was said".to_owned()];
    }
    let is_shadow = said.iter().all(|it| it.shadow);
    let head = match (said.len(), is_shadow) {
        (1, false) => "one thing was said".to_owned(),
        (more, false) => format!("{more} things were said"),
        (1, true) => "one thing would have been said".to_owned(),
        (more, true) => format!("{more} things would have been said"),
    };
    let mut lines = vec![format!("  {head}:")];
    let hidden = said.len().saturating_sub(SHOWN);
    for (place, said) in said.iter().enumerate() {
        match place.checked_sub(SHOWN / 2) {
            Some(0) if hidden > 0 => lines.push(format!("  {:>12}  … {hidden} more …", "")),
            Some(behind) if behind < hidden => {}
            _ => {
                let after = duration(said.at.since(begun));
                lines.push(format!("  {after:>12}  {}", one_line(&said.words, WIDTH)));
                lines.push(format!("  {:>12}  ({}{})", "", said.about, followed(said)));
            }
        }
    }
    lines
}

fn followed(said: &Said) -> String {
    match said.followed {
        None => String::new(),
        Some((OutcomeVerdict::Cleared, calls)) => {
            format!("; it was gone after {}", calls_in_words(calls))
        }
        Some((OutcomeVerdict::Ignored, calls)) => {
            format!("; still there after {}", calls_in_words(calls))
        }
        Some((OutcomeVerdict::RunEnded, calls)) => {
            format!("; the run ended {} later", calls_in_words(calls))
        }
    }
}

fn calls_in_words(calls: u64) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}
