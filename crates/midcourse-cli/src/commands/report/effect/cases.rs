//! Reads the cases of experiments from the store. A case is a problem of a run that an experiment
//! decided about: the messages about it were delivered or withheld.
//!
//! Everything is a recorded fact: the decision is part of the first message, what became of the
//! problem is the outcome of that message, and the plan is the configuration in force.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Result;
use midcourse::{
    Budget, Cause, Engine, OutcomeVerdict, RunCursor, RunFilter, RunId, RunSummary, Store,
    Timestamp, TrajectoryPayload, TrajectoryRecord,
};

use crate::config::Config;
use crate::effect::{Case, CaseEnd, Plan};

/// A run without an end that had no record for so long is over: its agent was killed.
const SILENT_RUN: Duration = Duration::from_secs(24 * 60 * 60);

/// How many runs are read at once.
const PAGE: usize = 100;

/// How many levels of subagents are followed up to the run at the top.
const MAX_LEVELS: usize = 64;

/// Kinds of records that tokens are counted from.
const KINDS_WITH_TOKENS: [&str; 4] =
    ["turn_started", "message_appended", "turn_ended", "usage_reported"];

#[derive(Default)]
pub(super) struct Cases {
    found: Vec<FoundCase>,
    /// Problems that an experiment decided about in runs that record no plan.
    pub(super) without_plan: u64,
}

struct FoundCase {
    plan: Plan,
    case: Case,
    run_id: RunId,
    /// The first message about the problem, and the record that decided its outcome.
    message_seq: u64,
    outcome_seq: Option<u64>,
}

impl Cases {
    pub(super) fn planned(&self) -> Vec<(Plan, Case)> {
        self.found.iter().map(|found| (found.plan.clone(), found.case.clone())).collect()
    }

    /// Counts the tokens of each case. This reads the messages of all runs with a case.
    pub(super) fn add_tokens(&mut self, store: &Store) -> Result<()> {
        for found in &mut self.found {
            let records = store.records_of(found.run_id.as_str(), &KINDS_WITH_TOKENS)?;
            let until = found.outcome_seq.unwrap_or(u64::MAX);
            found.case.tokens = tokens_between(&records, found.message_seq, until);
        }
        Ok(())
    }
}

/// The tokens of the records between two seqs; `None` if the records before `from` have none, because
/// then the host does not report them. Whether it did so after the message must not matter: that
/// may depend on the message.
fn tokens_between(records: &[TrajectoryRecord], from: u64, until: u64) -> Option<u64> {
    let mut engine = Engine::shipped(Budget::default());
    let fold = |engine: &mut Engine, range: std::ops::Range<u64>| {
        records
            .iter()
            .filter(|record| range.contains(&record.seq))
            .for_each(|record| engine.fold(record));
        engine.trajectory().tokens()
    };
    let before = fold(&mut engine, 0..from);
    (before > 0).then(|| fold(&mut engine, from..until).saturating_sub(before))
}

/// Reads all cases. `now` is needed to recognise runs whose agent was killed.
pub(super) fn read(store: &Store, now: Timestamp) -> Result<Cases> {
    let filter = RunFilter { said: true, ..RunFilter::default() };
    let (mut cases, mut roots) = (Cases::default(), Roots { store, known: HashMap::new() });
    let mut after = RunCursor::START;
    loop {
        let (page, last) = store.list_runs(&filter, after, PAGE)?;
        if page.is_empty() {
            return Ok(cases);
        }
        after = last;
        for listed in page {
            read_run(store, &listed.run, now, &mut roots, &mut cases)?;
        }
    }
}

/// Finds the run at the top for each run, with its plan and how it ended.
struct Roots<'a> {
    store: &'a Store,
    known: HashMap<RunId, RunSummary>,
}

impl Roots<'_> {
    fn of(&mut self, run: &RunSummary) -> Result<RunSummary> {
        let mut top = run.clone();
        for _ in 0..MAX_LEVELS {
            let Some(parent) = top.parent_run_id.clone() else { break };
            if !self.known.contains_key(&parent) {
                let Some(found) = self.store.run(parent.as_str())? else { break };
                self.known.insert(parent.clone(), found);
            }
            match self.known.get(&parent) {
                Some(found) => top = found.clone(),
                None => break,
            }
        }
        Ok(top)
    }
}

fn read_run(
    store: &Store,
    run: &RunSummary,
    now: Timestamp,
    roots: &mut Roots<'_>,
    cases: &mut Cases,
) -> Result<()> {
    let kinds = ["config_applied", "feedback_delivered", "guidance_delivered", "outcome"];
    let records = store.records_of(run.run_id.as_str(), &kinds)?;
    if records.iter().all(|record| record.payload.assignment().is_none()) {
        return Ok(());
    }
    let root = roots.of(run)?;
    // A subagent has the plan of the run at the top, unless it records one.
    let mut plan = match root.run_id == run.run_id {
        true => None,
        false => store
            .records_of(root.run_id.as_str(), &["config_applied"])?
            .iter()
            .fold(None, plan_after),
    };
    let is_over = run.ended.is_some() || now.since(run.latest) >= SILENT_RUN;
    let undecided = if is_over { CaseEnd::NotCleared } else { CaseEnd::Open };
    let mut by_cause: BTreeMap<Cause, FoundCase> = BTreeMap::new();
    for record in &records {
        plan = plan_after(plan, record);
        if let TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } = &record.payload {
            let mut found = by_cause.values_mut();
            if let Some(found) = found.find(|found| found.message_seq == *delivery_seq) {
                found.outcome_seq = Some(record.seq);
                found.case.end = match verdict {
                    OutcomeVerdict::Cleared => CaseEnd::Cleared { after_calls: *after_calls },
                    OutcomeVerdict::Ignored | OutcomeVerdict::RunEnded => CaseEnd::NotCleared,
                };
            }
            continue;
        }
        let (why, is_shadow) = match &record.payload {
            TrajectoryPayload::FeedbackDelivered { feedback, shadow, .. } => {
                (feedback.why(), *shadow)
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow, .. } => {
                (guidance.injection.why(), *shadow)
            }
            _ => continue,
        };
        let (Some(why), Some(assignment)) = (why, record.payload.assignment()) else { continue };
        if by_cause.contains_key(&why.cause) {
            continue;
        }
        let Some(plan) = plan.clone() else {
            cases.without_plan = cases.without_plan.saturating_add(1);
            continue;
        };
        let case = Case {
            root: root.run_id.clone(),
            at: record.at(),
            pattern: why.cause.kind().to_owned(),
            host: run.host.clone(),
            assignment,
            is_shadow,
            end: undecided,
            tokens: None,
            success: match root.outcome.as_deref() {
                Some("completed") => Some(true),
                Some("failed" | "limit_reached") => Some(false),
                _ => None,
            },
        };
        let (run_id, message_seq) = (run.run_id.clone(), record.seq);
        let found = FoundCase { plan, case, run_id, message_seq, outcome_seq: None };
        by_cause.insert(why.cause.clone(), found);
    }
    cases.found.extend(by_cause.into_values());
    Ok(())
}

/// The plan in force after a record. `None` if there is no experiment.
fn plan_after(plan: Option<Plan>, record: &TrajectoryRecord) -> Option<Plan> {
    let TrajectoryPayload::ConfigApplied { config, prompt_name: None } = &record.payload else {
        return plan;
    };
    let experiment = Config::parse(config).ok()?.experiment;
    experiment.is_on().then(|| Plan {
        name: experiment.name,
        holdout: experiment.holdout.share(),
        within_calls: experiment.within_calls.get().into(),
        cases: experiment.cases.get().into(),
    })
}
