//! `midcourse report --since`: how all runs of a period went, as plain data. It is made of sums over
//! the rows of the runs and of a query for their messages; no run is replayed.

use std::collections::BTreeMap;

use anyhow::Result;
use midcourse::{
    MessageCounts, PatternCount, Period, PeriodTotals, PeriodUsage, RunSummary, Store, Timestamp,
};
use serde::{Serialize, Serializer};

use super::prices::{Basis, Cost, Prices, Tokens};
use super::words;
use crate::display;

/// How many runs are worth a look at most.
const MAX_WORST: usize = 8;

/// A pattern's messages are useless if there are at least this many with a known outcome, and the
/// problem went away after at most this share of them, in percent.
const MIN_DECIDED: u64 = 10;
const MAX_USEFUL_PERCENT: u64 = 20;

/// A report about all runs of a period.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PeriodReport {
    #[serde(serialize_with = "rfc3339")]
    pub(crate) since: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) until: Timestamp,
    pub(crate) host: Option<String>,
    pub(crate) project: Option<String>,
    /// The number of runs, without subagents.
    pub(crate) runs: u64,
    pub(crate) outcomes: Vec<OutcomeCount>,
    pub(crate) subagents: u64,
    pub(crate) time_seconds: u64,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) messages_shown: u64,
    pub(crate) messages_shadow: u64,
    pub(crate) with_trouble: u64,
    pub(crate) time_after_trouble_seconds: u64,
    pub(crate) calls_after_trouble: u64,
    /// Runs whose trouble is unknown, because this release has not analysed them.
    pub(crate) not_analysed: u64,
    pub(crate) patterns: Vec<PatternSum>,
    pub(crate) messages: Vec<MessageSum>,
    /// Patterns whose messages rarely helped, with the setting that turns them off.
    pub(crate) useless: Vec<Useless>,
    pub(crate) models: Vec<UsageSum>,
    pub(crate) projects: Vec<UsageSum>,
    pub(crate) tokens: Tokens,
    pub(crate) cost: Cost,
    pub(crate) worst: Vec<WorthALook>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OutcomeCount {
    /// `None` for runs without a recorded end.
    pub(crate) outcome: Option<String>,
    pub(crate) runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PatternSum {
    pub(crate) pattern: String,
    pub(crate) count: u64,
    pub(crate) runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MessageSum {
    #[serde(rename = "cause")]
    pub(crate) pattern: Option<String>,
    pub(crate) provider: String,
    pub(crate) shown: u64,
    pub(crate) shadow: u64,
    pub(crate) cleared: u64,
    pub(crate) ignored: u64,
    pub(crate) run_ended: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Useless {
    pub(crate) pattern: String,
    pub(crate) messages: u64,
    pub(crate) cleared: u64,
    /// Lines for `midcourse.toml`.
    pub(crate) setting: String,
}

/// Tokens and cost of a model or a project.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct UsageSum {
    /// The model, or the folder of the project; `None` if it is unknown.
    pub(crate) name: Option<String>,
    pub(crate) runs: u64,
    pub(crate) tokens: Tokens,
    pub(crate) cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct WorthALook {
    pub(crate) run_id: midcourse::RunId,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) started: Timestamp,
    pub(crate) outcome: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) calls: u64,
    /// Calls after the first sign of trouble; `None` if there was none.
    pub(crate) calls_after_trouble: Option<u64>,
    /// The pattern that was found most often.
    pub(crate) pattern: Option<String>,
    pub(crate) command: String,
}

pub(crate) fn collect(store: &Store, period: Period, prices: &Prices) -> Result<PeriodReport> {
    let runs = store.period_runs(&period)?;
    let totals = store.period_totals(&period)?;
    let patterns = store.period_patterns(&period)?;
    let usage = store.period_usage(&period)?;
    let messages = store.period_messages(&period)?;
    let worst = store.period_worst(&period, MAX_WORST)?;
    let sum = |rows: &[&PeriodUsage], name| usage_sum(name, rows, prices);
    let grouped = |key: fn(&PeriodUsage) -> Option<String>| {
        let mut groups: BTreeMap<Option<String>, Vec<&PeriodUsage>> = BTreeMap::new();
        for row in &usage {
            groups.entry(key(row)).or_default().push(row);
        }
        let mut sums: Vec<UsageSum> =
            groups.into_iter().map(|(name, rows)| sum(&rows, name)).collect();
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.tokens.input));
        sums
    };
    let all: Vec<&PeriodUsage> = usage.iter().collect();
    let UsageSum { tokens, cost, .. } = sum(&all, None);
    let PeriodTotals { subagents, time_ms, calls, errors, .. } = totals;
    let mut outcomes: Vec<OutcomeCount> = Vec::new();
    let count = runs.count();
    outcomes
        .extend(runs.outcomes.into_iter().map(|(outcome, runs)| OutcomeCount { outcome, runs }));
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.runs));
    Ok(PeriodReport {
        since: period.since,
        until: period.until,
        host: period.host,
        project: period.project,
        runs: count,
        outcomes,
        subagents,
        time_seconds: time_ms / 1_000,
        calls,
        errors,
        messages_shown: totals.deliveries,
        messages_shadow: totals.shadow_deliveries,
        with_trouble: totals.with_trouble,
        time_after_trouble_seconds: totals.time_after_trouble_ms / 1_000,
        calls_after_trouble: totals.calls_after_trouble,
        not_analysed: totals.not_analysed,
        patterns: patterns.into_iter().map(pattern_sum).collect(),
        useless: useless(&messages),
        messages: messages.into_iter().map(message_sum).collect(),
        models: grouped(|row| row.model.clone()),
        projects: grouped(|row| row.folder.clone()),
        tokens,
        cost,
        worst: worst.into_iter().map(worth_a_look).collect(),
    })
}

fn pattern_sum(PatternCount { pattern, count, runs }: PatternCount) -> PatternSum {
    PatternSum { pattern, count, runs }
}

fn message_sum(counts: MessageCounts) -> MessageSum {
    let MessageCounts { pattern, provider, shown, shadow, cleared, ignored, run_ended } = counts;
    MessageSum { pattern, provider, shown, shadow, cleared, ignored, run_ended }
}

/// Sums rows. The cost is what hosts reported, and an estimate for the other runs.
fn usage_sum(name: Option<String>, rows: &[&PeriodUsage], prices: &Prices) -> UsageSum {
    let mut tokens = Tokens::default();
    rows.iter().for_each(|row| tokens.add(Tokens::of(&row.tokens)));
    let reported: u64 = rows.iter().map(|row| row.reported_micro_usd).sum();
    let unpriced = rows.iter().map(|row| (row.model.as_deref(), Tokens::of(&row.unpriced)));
    let mut cost = prices.estimate(unpriced);
    #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53 micro-dollars")]
    let reported = reported as f64 / 1e6;
    if reported > 0.0 {
        if let Some(usd) = &mut cost.usd {
            *usd += reported;
            cost.basis = Basis::PartlyEstimated;
        } else if cost.unknown_models.is_empty() {
            cost = Cost { usd: Some(reported), basis: Basis::Reported, ..Cost::default() };
        }
    }
    let runs = rows.iter().map(|row| row.runs).sum();
    UsageSum { name, runs, tokens, cost }
}

/// The patterns whose messages rarely helped. Messages of all providers count together, because the
/// setting turns off all of them.
fn useless(messages: &[MessageCounts]) -> Vec<Useless> {
    let mut sums: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for counts in messages {
        let Some(pattern) = counts.pattern.as_deref() else { continue };
        let (count, decided, cleared) = sums.entry(pattern).or_default();
        *count += counts.shown;
        *decided += counts.cleared + counts.ignored;
        *cleared += counts.cleared;
    }
    let is_useless = |(pattern, (_, decided, cleared)): &(&str, (u64, u64, u64))| {
        words::can_be_disabled(pattern)
            && *decided >= MIN_DECIDED
            && cleared.saturating_mul(100) <= decided.saturating_mul(MAX_USEFUL_PERCENT)
    };
    let found = sums.into_iter().filter(is_useless);
    found
        .map(|(pattern, (messages, _, cleared))| Useless {
            pattern: pattern.to_owned(),
            messages,
            cleared,
            setting: format!("[patterns.{pattern}]\nenabled = false"),
        })
        .collect()
}

fn worth_a_look(run: RunSummary) -> WorthALook {
    let trouble = run.findings.trouble;
    let patterns = run.findings.patterns.into_iter();
    WorthALook {
        command: format!("midcourse report {}", super::text::quoted(&run.run_id)),
        started: run.started,
        outcome: run.outcome,
        task: run.task,
        calls: run.calls,
        calls_after_trouble: trouble.map(|trouble| run.calls.saturating_sub(trouble.calls)),
        pattern: patterns.max_by_key(|(_, count)| *count).map(|(pattern, _)| pattern),
        run_id: run.run_id,
    }
}

fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&display::rfc3339(*at))
}
