//! Whether messages help: compares problems that the agent got a message about with problems whose
//! messages an experiment withheld at random.
//!
//! [`analyse`] is a pure function of the cases and their plans; `commands::report` reads both from
//! the store. The analysis follows the plan that was recorded before the runs: it takes the planned number
//! of cases, the first ones in the order of time and one of each run, and shows no result before all
//! of them are decided. So it does not matter how often, or when, somebody looks.

mod interval;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use midcourse::{Assignment, RunId, Timestamp};
use serde::{Serialize, Serializer};

pub(crate) use interval::Estimate;
use interval::{Share, mean, mean_difference, number, share_difference};

use crate::display;

/// How many cases each side has to have before the two are compared.
pub(crate) const MIN_CASES_PER_SIDE: usize = 10;

/// A problem of a run that messages were made about, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// The run that a person started: for a subagent, the run at the top.
    pub(crate) root: RunId,
    /// When the first message about the problem was made.
    pub(crate) at: Timestamp,
    pub(crate) pattern: String,
    pub(crate) host: String,
    pub(crate) assignment: Assignment,
    /// Whether the run was in shadow mode, in which the agent gets no message at all.
    pub(crate) is_shadow: bool,
    pub(crate) end: CaseEnd,
    /// Tokens from the message to the end of the case; `None` if the host reports no tokens.
    pub(crate) tokens: Option<u64>,
    /// Whether the run at the top finished; `None` if that is not known.
    pub(crate) success: Option<bool>,
}

impl Case {
    fn is_withheld(&self) -> bool {
        self.assignment == Assignment::Withheld
    }

    fn has_recovered(&self, plan: &Plan) -> bool {
        matches!(self.end, CaseEnd::Cleared { after_calls } if after_calls <= plan.within_calls)
    }
}

/// How the first message about a problem ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseEnd {
    /// The problem was gone after this many calls.
    Cleared { after_calls: u64 },
    /// The problem was still there, or the run was over before that was clear.
    NotCleared,
    /// Not decided yet.
    Open,
}

/// What was planned before the runs of an experiment. Cases with the same plan are analysed together.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Plan {
    pub(crate) name: Option<String>,
    /// The share of problems whose messages are withheld.
    pub(crate) holdout: f64,
    /// A problem counts as recovered if it is gone within this many calls.
    pub(crate) within_calls: u64,
    /// How many cases are analysed.
    pub(crate) cases: u64,
}

/// What is known about one plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PlanReport {
    pub(crate) plan: Plan,
    /// When the first case happened.
    #[serde(serialize_with = "rfc3339")]
    pub(crate) since: Timestamp,
    /// Cases of the plan so far, on each side; never more than planned.
    pub(crate) delivered: u64,
    pub(crate) withheld: u64,
    /// How many of these cases are not decided yet.
    pub(crate) open: u64,
    /// Cases that came after the planned number. They are not analysed.
    pub(crate) later: u64,
    /// Problems in runs that have an earlier case. They are not analysed.
    pub(crate) not_first: u64,
    pub(crate) shadow: ShadowCases,
    /// `None` until all planned cases are there and decided.
    pub(crate) effect: Option<Effect>,
}

/// Cases of runs in shadow mode. They are not compared with those of other runs: somebody chose the
/// mode, so the runs may differ in other ways, too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ShadowCases {
    pub(crate) cases: u64,
    /// How many of them the experiment drew to be withheld.
    pub(crate) withheld: u64,
    /// The share of the latter that recovered; `None` if they are too few.
    pub(crate) recovery: Option<Estimate>,
}

/// The comparison of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Effect {
    pub(crate) verdict: Verdict,
    /// The planned comparison: the share of cases that recovered. All others are exploratory.
    pub(crate) recovery: Comparison,
    /// Calls until the problem was gone; a case that did not recover counts as the planned calls.
    pub(crate) calls: Comparison,
    /// Tokens until the problem was gone or the case was decided: geometric means and their ratio.
    pub(crate) tokens: Comparison,
    /// The share of cases whose run finished, where that is known.
    pub(crate) success: Comparison,
    pub(crate) patterns: Vec<Group>,
    pub(crate) hosts: Vec<Group>,
}

/// What the planned comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Helped,
    Hurt,
    /// The interval contains zero.
    NotShown,
    /// One side has too few cases.
    TooFewCases,
}

/// The recovery of some of the cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) recovery: Comparison,
}

/// A figure on both sides, and how they differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) delivered: Side,
    pub(crate) withheld: Side,
    /// Delivered minus withheld, for tokens delivered over withheld; `None` if there is not enough
    /// data.
    pub(crate) difference: Option<Estimate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Side {
    pub(crate) cases: u64,
    /// `None` if there are no cases.
    pub(crate) value: Option<f64>,
}

/// Analyses cases by their plans. The plans are in the order of their first cases.
pub(crate) fn analyse(mut cases: Vec<(Plan, Case)>) -> Vec<PlanReport> {
    cases.sort_by(|(_, one), (_, other)| (one.at, &one.root).cmp(&(other.at, &other.root)));
    let (mut plans, mut roots): (Vec<PlannedCases>, _) = (Vec::new(), HashSet::new());
    for (plan, case) in cases {
        let index = plans.iter().position(|known| known.plan == plan).unwrap_or_else(|| {
            plans.push(PlannedCases { plan, since: case.at, first: Vec::new(), not_first: 0 });
            plans.len().saturating_sub(1)
        });
        let Some(planned) = plans.get_mut(index) else { continue };
        // A later problem of a run depends on the messages before it. So only the first problem of
        // each run is a fair comparison, and only such cases are independent of each other.
        if roots.insert(case.root.clone()) {
            planned.first.push(case);
        } else {
            planned.not_first += 1;
        }
    }
    plans.into_iter().map(PlannedCases::analyse).collect()
}

/// The cases of a plan, in the order of time.
struct PlannedCases {
    plan: Plan,
    since: Timestamp,
    /// The first case of each run.
    first: Vec<Case>,
    not_first: u64,
}

impl PlannedCases {
    fn analyse(self) -> PlanReport {
        let Self { plan, since, first, not_first } = self;
        let (shadow, mut live): (Vec<&Case>, Vec<&Case>) =
            first.iter().partition(|case| case.is_shadow);
        let planned = usize::try_from(plan.cases).unwrap_or(usize::MAX);
        let later = live.len().saturating_sub(planned);
        live.truncate(planned);
        let open = live.iter().filter(|case| case.end == CaseEnd::Open).count();
        let is_complete = live.len() == planned && open == 0;
        let withheld = live.iter().filter(|case| case.is_withheld()).count();
        PlanReport {
            since,
            delivered: count(live.len().saturating_sub(withheld)),
            withheld: count(withheld),
            open: count(open),
            later: count(later),
            not_first,
            shadow: shadow_cases(&plan, &shadow),
            effect: is_complete.then(|| effect(&plan, &live)),
            plan,
        }
    }
}

fn shadow_cases(plan: &Plan, cases: &[&Case]) -> ShadowCases {
    let withheld: Vec<&Case> = cases.iter().copied().filter(|case| case.is_withheld()).collect();
    let recovered = withheld.iter().filter(|case| case.has_recovered(plan)).count();
    let share = Share { count: number(recovered), of: number(withheld.len()) };
    ShadowCases {
        cases: count(cases.len()),
        withheld: count(withheld.len()),
        recovery: (withheld.len() >= MIN_CASES_PER_SIDE).then(|| share.estimate()),
    }
}

fn effect(plan: &Plan, cases: &[&Case]) -> Effect {
    let recovered = |case: &Case| Some(case.has_recovered(plan));
    let recovery = compare_shares(cases, recovered);
    let verdict = match recovery.difference {
        None => Verdict::TooFewCases,
        Some(Estimate { low, .. }) if low > 0.0 => Verdict::Helped,
        Some(Estimate { high, .. }) if high < 0.0 => Verdict::Hurt,
        Some(_) => Verdict::NotShown,
    };
    let groups = |key: fn(&Case) -> &str| {
        let mut groups: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
        for case in cases {
            groups.entry(key(case)).or_default().push(case);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
        let group = |(name, cases): (&str, Vec<&Case>)| Group {
            name: name.to_owned(),
            recovery: compare_shares(&cases, recovered),
        };
        groups.into_iter().map(group).collect()
    };
    let calls = |case: &Case| {
        let calls = match case.end {
            CaseEnd::Cleared { after_calls } => after_calls.min(plan.within_calls),
            CaseEnd::NotCleared | CaseEnd::Open => plan.within_calls,
        };
        Some(whole(calls))
    };
    // Tokens have a long tail, so their logarithms are compared. The logarithm of 0 has no value.
    let log_tokens = |case: &Case| case.tokens.map(|tokens| whole(tokens.max(1)).ln());
    let tokens = compare_means(cases, log_tokens);
    let exp = |side: Side| Side { value: side.value.map(f64::exp), ..side };
    Effect {
        verdict,
        recovery,
        calls: compare_means(cases, calls),
        tokens: Comparison {
            delivered: exp(tokens.delivered),
            withheld: exp(tokens.withheld),
            difference: tokens.difference.map(|difference| difference.map(f64::exp)),
        },
        success: compare_shares(cases, |case| case.success),
        patterns: groups(|case| &case.pattern),
        hosts: groups(|case| &case.host),
    }
}

/// Compares the shares of cases for which `value` is true; cases without a value do not count.
fn compare_shares(cases: &[&Case], value: impl Fn(&Case) -> Option<bool>) -> Comparison {
    compare(
        cases,
        |case| value(case).map(f64::from),
        |delivered, withheld| {
            let share =
                |values: &[f64]| Share { count: values.iter().sum(), of: number(values.len()) };
            Some(share_difference(share(delivered), share(withheld)))
        },
    )
}

fn compare_means(cases: &[&Case], value: impl Fn(&Case) -> Option<f64>) -> Comparison {
    compare(cases, value, mean_difference)
}

fn compare(
    cases: &[&Case],
    value: impl Fn(&Case) -> Option<f64>,
    difference: impl Fn(&[f64], &[f64]) -> Option<Estimate>,
) -> Comparison {
    let values = |assignment| {
        let side = cases.iter().filter(|case| case.assignment == assignment);
        side.filter_map(|case| value(case)).collect::<Vec<f64>>()
    };
    let side = |values: &[f64]| Side { cases: count(values.len()), value: mean(values) };
    let (delivered, withheld) = (values(Assignment::Delivered), values(Assignment::Withheld));
    let is_enough = delivered.len().min(withheld.len()) >= MIN_CASES_PER_SIDE;
    Comparison {
        delivered: side(&delivered),
        withheld: side(&withheld),
        difference: if is_enough { difference(&delivered, &withheld) } else { None },
    }
}

fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&display::rfc3339(*at))
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls and tokens are far below 2^52")]
const fn whole(number: u64) -> f64 {
    number as f64
}
