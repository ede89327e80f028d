//! Evaluates a scenario: replays its run and compares the first message that the engine delivers
//! with the scenario's expectation.
//!
//! Later messages are not compared. If the first message comes too early, the scenario fails, even
//! if a later message would be as expected. Messages about a deadline or a budget do not count,
//! because scenarios measure how well midcourse detects problems.

use midcourse::{Engine, RunIdentity, Why};

use super::{Expected, Scenario};
use crate::backtest::{BacktestDelivery, BacktestStep, deliveries, step_events};

/// Whether the first message came when it was expected. What the message is about does not matter
/// here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScenarioVerdict {
    InTime,
    TooEarly,
    Late,
    Missed,
    /// No message was expected, and none came.
    Quiet,
    /// No message was expected, and one came.
    FalseAlarm,
}

impl ScenarioVerdict {
    /// The name used in JSON output, which does not change between releases.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InTime => "in_time",
            Self::TooEarly => "too_early",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Quiet => "quiet",
            Self::FalseAlarm => "false_alarm",
        }
    }

    fn of(expected: &Expected, first_delivery: Option<usize>) -> Self {
        match (expected, first_delivery) {
            (Expected::Quiet, None) => Self::Quiet,
            (Expected::Quiet, Some(_)) => Self::FalseAlarm,
            (Expected::Message { .. }, None) => Self::Missed,
            (Expected::Message { first, .. }, Some(event)) if event < *first => Self::TooEarly,
            (Expected::Message { last, .. }, Some(event)) if event > *last => Self::Late,
            (Expected::Message { .. }, Some(_)) => Self::InTime,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScenarioResult {
    pub(crate) verdict: ScenarioVerdict,
    /// Whether the first message is about an expected pattern. `None` if no message came or none
    /// was expected.
    pub(crate) cause_as_expected: Option<bool>,
    steps: Vec<BacktestStep>,
}

impl ScenarioResult {
    /// Whether the first message came in time and is about an expected pattern or, if no message
    /// was expected, whether none came.
    pub(crate) fn is_as_expected(&self) -> bool {
        match self.verdict {
            ScenarioVerdict::InTime => self.cause_as_expected == Some(true),
            ScenarioVerdict::Quiet => true,
            _ => false,
        }
    }

    /// The delivered messages, in order, without those about a deadline or a budget.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = BacktestDelivery<'_>> {
        deliveries(&self.steps)
    }
}

/// Replays a scenario through `engine`, which must be new, and compares the first delivered message
/// with the expectation.
pub(crate) fn evaluate(scenario: &Scenario, engine: &mut Engine) -> ScenarioResult {
    let Scenario { name, expected, events, .. } = scenario;
    let started_at = events.iter().flatten().next().map(|record| record.at()).unwrap_or_default();
    let events = (1..).zip(events.iter().map(|records| {
        // Pass on the times and payloads, but not the sequence numbers of the records. Each record
        // gets a new number, because the engine inserts records between them.
        records.iter().map(|record| (record.at(), record.payload.clone()))
    }));
    let mut steps = step_events(engine, &RunIdentity::root(name.as_str()), started_at, events);
    for step in &mut steps {
        let counts = |why: Option<&Why>| why.is_none_or(|why| !why.cause.is_limit());
        step.step.deliveries.retain(|delivery| counts(delivery.why()));
    }
    let first = deliveries(&steps).next();
    let verdict = ScenarioVerdict::of(expected, first.map(|delivery| delivery.event));
    let cause_as_expected = match expected {
        Expected::Quiet => None,
        Expected::Message { .. } => first.map(|delivery| expected.includes(delivery.cause_name())),
    };
    ScenarioResult { verdict, cause_as_expected, steps }
}

#[cfg(test)]
mod tests {
    use midcourse::Budget;

    use super::super::parse_scenarios;
    use super::*;

    /// Evaluates a scenario and checks the result. The engine delivers a message after a command
    /// has failed three times in the same way. In the run `STUCK`, that is event 4, because event 1
    /// is the user's prompt.
    #[track_caller]
    fn check(
        expect: &str,
        run: &str,
        verdict: ScenarioVerdict,
        cause_as_expected: Option<bool>,
        deliveries: usize,
    ) {
        let text = format!("=== one\nexpect: {expect}\n{run}");
        let scenarios = parse_scenarios(&text).unwrap();
        let result = evaluate(&scenarios[0], &mut Engine::shipped(Budget::default()));
        let judged = (result.verdict, result.cause_as_expected);
        assert_eq!(judged, (verdict, cause_as_expected), "{result:?}");
        assert_eq!(result.deliveries().count(), deliveries, "{result:?}");
        let is_in_time = matches!(verdict, ScenarioVerdict::InTime | ScenarioVerdict::Quiet);
        assert_eq!(result.is_as_expected(), is_in_time && cause_as_expected != Some(false));
    }

    const STUCK: &str = "user: go\n4x bash make !! error: no rule";
    const FINE: &str = "user: go\nbash ls -> a b\nread a -> one\nread b -> two\nbash make -> built";

    #[test]
    fn the_first_delivery_decides() {
        check("repeated_error 4..5", STUCK, ScenarioVerdict::InTime, Some(true), 1);
        check("stagnation|repeated_error 2..4", STUCK, ScenarioVerdict::InTime, Some(true), 1);
        check("repeated_error 5..5", STUCK, ScenarioVerdict::TooEarly, Some(true), 1);
        check("repeated_error 2..3", STUCK, ScenarioVerdict::Late, Some(true), 1);
        check("repeated_error 2..3", FINE, ScenarioVerdict::Missed, None, 0);
        check("quiet", FINE, ScenarioVerdict::Quiet, None, 0);
        check("quiet", STUCK, ScenarioVerdict::FalseAlarm, None, 1);
    }

    #[test]
    fn a_message_in_time_with_another_cause_is_not_as_expected() {
        check("monologue 4..5", STUCK, ScenarioVerdict::InTime, Some(false), 1);
    }

    #[test]
    fn a_message_after_the_last_event_counts() {
        let run = "user: go\n3x bash make !! error: no rule";
        check("repeated_error 4..4", run, ScenarioVerdict::InTime, Some(true), 1);
    }

    #[test]
    fn a_message_about_a_deadline_does_not_count() {
        let run = format!("deadline 1m\n{FINE}");
        check("quiet", &run, ScenarioVerdict::Quiet, None, 0);
        let scenarios = parse_scenarios(&format!("=== one\nexpect: quiet\n{run}")).unwrap();
        let mut engine = Engine::shipped(Budget::default());
        evaluate(&scenarios[0], &mut engine);
        assert!(
            engine.session().delivery_totals().deliveries > 0,
            "the deadline message was delivered"
        );
    }

    #[test]
    fn records_keep_their_times() {
        let run = "~90s bash make -> built\n+2m bash make test -> passed";
        let scenarios = parse_scenarios(&format!("=== one\nexpect: quiet\n{run}")).unwrap();
        let mut engine = Engine::shipped(Budget::default());
        evaluate(&scenarios[0], &mut engine);
        let (first, last) =
            (&scenarios[0].events[0][0], engine.call_just_ended().unwrap().ended_at());
        assert_eq!(last.since(first.at()).as_secs(), 210);
    }
}
