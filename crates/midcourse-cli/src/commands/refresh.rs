//! Brings summaries of runs up to date before they are shown: those of runs that an older release
//! stored, and findings of another release's engine. The engine replays these runs.

use std::time::{Duration, Instant};

use midcourse::{DeliveryPolicy, Findings, RunSummary, Store, StoreError, StoreSettings};

use super::replayed_run::ReplayedRun;
use crate::terminal::warn;

/// The most time for which outdated summaries may delay the output of a command. The next commands
/// compute those that are left.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Maximum number of runs that are looked up at once.
const MAX_RUNS: usize = 2_000;

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 256;

/// Which summaries are brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outdated {
    /// Those that are missing, and those with findings of another engine.
    Wrong,
    /// Also those of runs that no engine has analysed, such as imported ones.
    WrongOrNotAnalysed,
}

/// Computes outdated summaries again, those of the newest runs first. If that fails, for example
/// because the store cannot be written, the summaries are shown as they are.
pub(super) fn refresh(store: &Store, outdated: Outdated) {
    if let Err(error) = refresh_some(store, outdated, Some(MAX_TIME)) {
        warn_about(&error);
    }
}

/// Computes all outdated summaries again, and those of runs that no engine has analysed. If that fails,
/// the rest stay as they are.
#[cfg(feature = "fleet")]
pub(super) fn refresh_all(store: &Store) {
    loop {
        match refresh_some(store, Outdated::WrongOrNotAnalysed, None) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return warn_about(&error),
        }
    }
}

fn warn_about(error: &StoreError) {
    warn(&format!("cannot bring the list of runs up to date: {error}"));
}

/// Computes some outdated summaries again, in this time if it is limited. Returns whether there may be more.
fn refresh_some(
    store: &Store,
    outdated: Outdated,
    time: Option<Duration>,
) -> Result<bool, StoreError> {
    let with_unanalysed = outdated == Outdated::WrongOrNotAnalysed;
    let runs = store.outdated_runs(with_unanalysed, MAX_RUNS)?;
    if runs.is_empty() {
        return Ok(false);
    }
    let Ok(mut writer) = Store::open(store.data_dir(), StoreSettings::default()) else {
        return Ok(false);
    };
    let begun = Instant::now();
    let (is_page, mut refreshed) = (runs.len() == MAX_RUNS, 0_usize);
    for run in runs {
        if time.is_some_and(|most| begun.elapsed() > most) {
            break;
        }
        let found = replay(store, &run)?;
        // If the run has grown meanwhile, a later command computes its summary.
        match writer.recount(&run.run_id, run.records, &found) {
            Ok(done) => refreshed = refreshed.saturating_add(usize::from(done)),
            Err(StoreError::Locked | StoreError::Unwritable(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(is_page && refreshed > 0)
}

/// What the engine finds in a run.
fn replay(store: &Store, run: &RunSummary) -> Result<Findings, StoreError> {
    let mut replayed = ReplayedRun::new(DeliveryPolicy::default(), run.parent_run_id.is_some());
    let mut found = Findings::default();
    let mut from = 0;
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        from = last.saturating_add(1);
        // A damaged record is skipped; the commands that show records report it.
        for stored in page.into_iter().filter_map(|(_, stored)| stored.ok()) {
            let source = stored.source.clone();
            let record = stored.into_record();
            if record.payload.is_conclusion() {
                continue;
            }
            if let Ok(step) = replayed.step(&record, Some(&source), None) {
                let calls = replayed.engine().trajectory().tool_call_count();
                found.add(&step.patterns, calls);
            }
        }
    }
}
