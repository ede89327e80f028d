//! Tests of the analysis: which cases count, and when results are shown.

use midcourse::{Assignment, Timestamp};
use proptest::prelude::*;

use super::{Case, CaseEnd, Plan, PlanReport, Verdict, analyse};

fn plan(cases: u64) -> Plan {
    Plan { name: None, holdout: 0.5, within_calls: 3, cases }
}

/// A case of the run with this number. Cases of even runs are withheld and do not recover.
fn case(run: u64, at: u64) -> Case {
    let (assignment, end) = match run % 2 {
        0 => (Assignment::Withheld, CaseEnd::NotCleared),
        _ => (Assignment::Delivered, CaseEnd::Cleared { after_calls: 1 + run % 3 }),
    };
    Case {
        root: format!("run-{run}").into(),
        at: Timestamp::from_unix_ms(at),
        pattern: "doom_loop".to_owned(),
        host: "agent".to_owned(),
        assignment,
        is_shadow: false,
        end,
        tokens: None,
        success: None,
    }
}

fn cases(runs: std::ops::Range<u64>) -> Vec<Case> {
    runs.map(|run| case(run, run)).collect()
}

#[track_caller]
fn one(planned: u64, cases: Vec<Case>) -> PlanReport {
    let cases = cases.into_iter().map(|case| (plan(planned), case)).collect();
    let mut reports = analyse(cases);
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

#[test]
fn there_is_no_result_before_all_planned_cases_are_decided() {
    let early = one(40, cases(0..39));
    assert_eq!((early.delivered, early.withheld, early.effect), (19, 20, None));
    let mut open = cases(0..40);
    open[7].end = CaseEnd::Open;
    let open = one(40, open);
    assert_eq!((open.open, open.effect), (1, None));
    let effect = one(40, cases(0..40)).effect.unwrap();
    assert_eq!(effect.verdict, Verdict::Helped);
    assert_eq!(effect.recovery.delivered.value, Some(1.0));
    assert_eq!(effect.calls.withheld.value, Some(3.0));
    assert_eq!(effect.tokens.difference, None, "no host reports tokens");
}

#[test]
fn a_problem_that_goes_away_too_late_has_not_recovered() {
    let mut late = cases(0..40);
    late.iter_mut().for_each(|case| case.end = CaseEnd::Cleared { after_calls: 4 });
    assert_eq!(one(40, late).effect.unwrap().recovery.delivered.value, Some(0.0));
}

#[test]
fn only_the_first_problem_of_each_run_counts() {
    let mut all = cases(0..40);
    all.extend(
        (0..40)
            .map(|run| Case { end: CaseEnd::Cleared { after_calls: 1 }, ..case(run, 1_000 + run) }),
    );
    let (alone, with_more) = (one(40, cases(0..40)), one(40, all));
    assert_eq!((with_more.not_first, with_more.later), (40, 0));
    assert_eq!(alone.effect, with_more.effect);
}

#[test]
fn shadow_mode_is_no_comparison() {
    let shadow = (100..140).map(|run| Case { is_shadow: true, ..case(run, run - 100) });
    let report = one(40, cases(0..40).into_iter().chain(shadow).collect());
    assert_eq!(report.effect, one(40, cases(0..40)).effect);
    assert_eq!((report.shadow.cases, report.shadow.withheld), (40, 20));
    let recovery = report.shadow.recovery.unwrap();
    assert!(recovery.value == 0.0 && recovery.high < 0.2, "{recovery:?}");
}

#[test]
fn each_plan_is_analysed_by_itself() {
    let named = Plan { name: Some("second".to_owned()), ..plan(40) };
    let mut all: Vec<_> = cases(0..40).into_iter().map(|case| (plan(40), case)).collect();
    all.extend(cases(40..60).into_iter().map(|case| (named.clone(), case)));
    // A run that already has a case is no case of another plan.
    all.push((named, case(3, 1_000)));
    let reports = analyse(all);
    assert_eq!(reports.len(), 2);
    assert!(reports[0].effect.is_some());
    let second = &reports[1];
    assert_eq!((second.delivered, second.withheld, second.not_first), (10, 10, 1));
    assert_eq!(second.effect, None);
}

#[test]
fn a_side_that_is_too_small_is_not_compared() {
    let mut all = cases(0..40);
    all.iter_mut().skip(8).for_each(|case| case.assignment = Assignment::Delivered);
    let effect = one(40, all).effect.unwrap();
    assert_eq!((effect.verdict, effect.recovery.difference), (Verdict::TooFewCases, None));
}

proptest! {
    #[test]
    fn looking_later_or_in_another_order_changes_nothing(
        runs in prop::collection::vec((0..60_u64, 0..4_u64), 40..120),
    ) {
        let all: Vec<Case> = runs.iter().zip(0..).map(|((run, calls), at)| {
            let end = if *calls == 0 {
                CaseEnd::NotCleared
            } else {
                CaseEnd::Cleared { after_calls: *calls }
            };
            Case { end, ..case(*run, at) }
        }).collect();
        let complete = |count: usize| one(20, all.iter().take(count).cloned().collect()).effect;
        let last = complete(all.len());
        for count in 1..all.len() {
            let effect = complete(count);
            prop_assert!(effect.is_none() || effect == last);
        }
        let reversed = one(20, all.iter().rev().cloned().collect());
        prop_assert_eq!(reversed.effect, last);
    }
}
