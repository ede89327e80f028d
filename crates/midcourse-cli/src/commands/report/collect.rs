//! Collects a report: finds the runs that belong together, reads each, and puts the results in
//! order.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use anyhow::Result;
use midcourse::{RunSummary, Store, StoreError, Timestamp};

use super::data::{
    ChangedFile, FailingCalls, Pause, RunReport, Slice, Subagent, Timeline, Trouble,
};
use super::headline;
use super::pass::{self, Failing, RunFacts, Sums};
use super::prices::{Cost, ModelTokens, Prices, Tokens};

/// Maximum number of subagents in a report.
const MAX_SUBAGENTS: usize = 1_000;

/// Maximum number of pauses in a report.
const MAX_PAUSES: usize = 10;

/// A stretch without records is a pause if it is at least this long, and at least this share of the
/// run.
const MIN_PAUSE: Duration = Duration::from_secs(10 * 60);
const MIN_PAUSE_SHARE: u32 = 30;

/// A run, and the seq from which on the report counts. It is above 0 for a run that was resumed.
pub(crate) struct Part {
    pub(crate) run: RunSummary,
    pub(crate) from: u64,
    /// When the part begins.
    pub(crate) started: Timestamp,
}

/// A run with its subagents, and theirs, from its beginning.
pub(crate) fn family(store: &Store, run: RunSummary) -> Result<Vec<Part>, StoreError> {
    let part = |run: RunSummary| Part { started: run.started, run, from: 0 };
    let mut known = HashSet::from([run.run_id.clone()]);
    let mut parts = Vec::new();
    let mut queue = VecDeque::from([run]);
    while let Some(run) = queue.pop_front() {
        for child in store.children(run.run_id.as_str())? {
            if known.len() <= MAX_SUBAGENTS && known.insert(child.run_id.clone()) {
                queue.push_back(child);
            }
        }
        parts.push(part(run));
    }
    Ok(parts)
}

/// Collects the report about `parts`. The first of them is the run that the report is about.
/// Returns `None` if there are no parts.
pub(crate) fn collect(
    store: &Store,
    parts: Vec<Part>,
    prices: &Prices,
) -> Result<Option<RunReport>> {
    let Some(main) = parts.first() else { return Ok(None) };
    let started = parts.iter().map(|part| part.started).min().unwrap_or(main.started);
    let latest = parts.iter().map(|part| part.run.latest).max().unwrap_or(main.run.latest);
    let mut sums = Sums::new(Timeline::new(started, latest));
    let mut facts = Vec::with_capacity(parts.len());
    for part in &parts {
        facts.push(pass::read(store, &part.run, part.from, &mut sums)?);
    }
    let records = parts.iter().map(|part| part.run.records.saturating_sub(part.from)).sum();
    let mut parts = parts.into_iter().map(|part| part.run).zip(facts);
    let Some((run, main)) = parts.next() else { return Ok(None) };
    let subagents: Vec<Subagent> = parts.map(|(run, facts)| subagent(run, facts)).collect();
    sums.trouble.sort_by_key(|trouble| (trouble.at, trouble.record.seq));
    sums.messages.sort_by_key(|message| (message.at, message.record.seq));
    for Trouble { from, until, .. } in &sums.trouble {
        sums.timeline.mark_trouble(*from, *until);
    }
    let pauses = pauses(&sums);
    let tokens = sums.models.values().fold(Tokens::default(), |mut sum, tokens| {
        sum.add(*tokens);
        sum
    });
    let cost = main.reported_cost.map_or_else(
        || prices.estimate(sums.models.iter().map(|(model, it)| (model.as_deref(), *it))),
        Cost::reported,
    );
    let mut models: Vec<ModelTokens> = Vec::new();
    models.extend(sums.models.into_iter().map(|(model, tokens)| ModelTokens { model, tokens }));
    models.sort_by_key(|model| std::cmp::Reverse(model.tokens.input));
    let mut failing: Vec<FailingCalls> = Vec::new();
    failing.extend(sums.failing.into_iter().map(|((text, kind, refused), calls)| {
        let Failing { count, first, last, error } = calls;
        FailingCalls { text, kind, refused, count, first, last, error }
    }));
    failing.sort_by(|one, other| other.count.cmp(&one.count).then(one.text.cmp(&other.text)));
    let mut files: Vec<ChangedFile> = Vec::new();
    files.extend(sums.files.into_iter().map(|(path, count)| ChangedFile { path, count }));
    files.sort_by(|one, other| other.count.cmp(&one.count).then(one.path.cmp(&other.path)));
    let mut report = RunReport {
        // A run from a store of an older release has no summary.
        task: run.task.or(main.task),
        folder: run.folder,
        command: run.command,
        host_version: run.host_version,
        exit_code: run.exit_code,
        started,
        latest,
        ended: run.ended,
        outcome: run.outcome,
        run_id: run.run_id,
        host: run.host,
        headline: String::new(),
        records,
        calls: sums.calls.saturating_add(u64::try_from(sums.open_calls.len()).unwrap_or(0)),
        errors: sums.errors,
        open_calls: sums.open_calls,
        tokens,
        models,
        cost,
        timeline: sums.timeline,
        first_trouble: sums.trouble.first().cloned(),
        trouble: sums.trouble,
        message_count: sums.message_count,
        messages: sums.messages,
        failing,
        files,
        subagents,
        gaps: sums.gaps,
        pauses,
        compactions: sums.compactions,
        last_words: main.last_words,
    };
    report.headline = headline::text(&report);
    Ok(Some(report))
}

fn subagent(run: RunSummary, facts: RunFacts) -> Subagent {
    Subagent {
        run_id: run.run_id,
        parent_run_id: run.parent_run_id,
        task: run.task.or(facts.task),
        started: run.started,
        latest: run.latest,
        outcome: run.outcome,
        calls: facts.calls,
        errors: facts.errors,
        messages: facts.messages,
    }
}

/// The stretches without records, the longest first. They are as exact as a slice of the timeline.
fn pauses(sums: &Sums) -> Vec<Pause> {
    let timeline = &sums.timeline;
    let count = timeline.slices.len();
    let total = timeline.until.since(timeline.from);
    let shortest = MIN_PAUSE.max(total / MIN_PAUSE_SHARE);
    let mut pauses = Vec::new();
    let mut begin = None;
    for (index, Slice { records, .. }) in timeline.slices.iter().enumerate() {
        match (*records, begin) {
            (0, None) => begin = Some(index),
            (1.., Some(first)) => {
                begin = None;
                let (from, until) =
                    (timeline.time_of(first, count), timeline.time_of(index, count));
                if until.since(from) >= shortest {
                    let mut calls = sums.long_calls.iter();
                    let call = calls.find(|(start, end, _)| *start <= until && *end >= from);
                    let during = call.map(|(_, _, text)| text.clone());
                    pauses.push(Pause { from, until, during });
                }
            }
            _ => {}
        }
    }
    pauses.sort_by_key(|pause| std::cmp::Reverse(pause.length()));
    pauses.truncate(MAX_PAUSES);
    pauses
}
