//! Judging: what came in a scenario, and whether that was right.
//!
//! The first word decides: whoever speaks too early was wrong, whatever is said later. Words about a
//! deadline or a budget are about the world and not about trouble, and do not count.

use midcourse::{Engine, RunIdentity};

use super::{Expected, Scenario};
use crate::backtest::{Spoken, feed};

/// How the first word stands to what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioVerdict {
    /// It came when it was due.
    InTime,
    /// It came before there was reason to speak.
    TooEarly,
    /// It came when it was of no use any more.
    Late,
    /// It never came.
    Missed,
    /// None was expected and none came.
    Quiet,
    /// None was expected and one came.
    Spoken,
}

impl ScenarioVerdict {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InTime => "in_time",
            Self::TooEarly => "too_early",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Quiet => "quiet",
            Self::Spoken => "spoken",
        }
    }

    fn of(expected: &Expected, first_word: Option<usize>) -> Self {
        match (expected, first_word) {
            (Expected::Quiet, None) => Self::Quiet,
            (Expected::Quiet, Some(_)) => Self::Spoken,
            (Expected::Word { .. }, None) => Self::Missed,
            (Expected::Word { first, .. }, Some(event)) if event < *first => Self::TooEarly,
            (Expected::Word { last, .. }, Some(event)) if event > *last => Self::Late,
            (Expected::Word { .. }, Some(_)) => Self::InTime,
        }
    }
}

/// What came in a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// How the first word stands to what was expected, whatever it is about.
    pub verdict: ScenarioVerdict,
    /// Whether the first word is about what was expected; nothing where no word came, or none was
    /// expected.
    pub named_as_expected: Option<bool>,
    /// The words that count, in order.
    pub words: Vec<Spoken>,
}

impl Judgement {
    /// Whether all was as expected: the moment and the pattern, or the quiet.
    pub fn is_right(&self) -> bool {
        match self.verdict {
            ScenarioVerdict::InTime => self.named_as_expected == Some(true),
            ScenarioVerdict::Quiet => true,
            _ => false,
        }
    }
}

/// Feeds a scenario to an engine that has seen nothing yet, and says what came of it.
pub fn judge(scenario: &Scenario, engine: &mut Engine) -> Judgement {
    let Scenario { name, expected, events, .. } = scenario;
    let started = events.iter().flatten().next().map(|record| record.at()).unwrap_or_default();
    let facts = (1..).zip(events.iter().map(|records| {
        // The records get new numbers, as what is said takes some too; their times stay.
        records.iter().map(|record| (record.at(), record.payload.clone()))
    }));
    let mut words = feed(engine, &RunIdentity::root(name.as_str()), started, facts);
    words.retain(|word| word.delivery.why().is_none_or(|why| !why.cause.is_limit()));
    let first = words.first();
    let verdict = ScenarioVerdict::of(expected, first.map(|word| word.event));
    let named_as_expected = match expected {
        Expected::Quiet => None,
        Expected::Word { .. } => first.map(|word| expected.names(word.about())),
    };
    Judgement { verdict, named_as_expected, words }
}

#[cfg(test)]
mod tests {
    use midcourse::Budget;

    use super::super::read_scenarios;
    use super::*;

    /// Three equal failures are spoken of with the third, which is event 4 here.
    #[track_caller]
    fn check(expect: &str, run: &str, verdict: ScenarioVerdict, named: Option<bool>, words: usize) {
        let text = format!("=== one\nexpect: {expect}\n{run}");
        let scenarios = read_scenarios(&text).unwrap();
        let judged = judge(&scenarios[0], &mut Engine::shipped(Budget::default()));
        assert_eq!((judged.verdict, judged.named_as_expected), (verdict, named), "{judged:?}");
        assert_eq!(judged.words.len(), words, "{judged:?}");
        let right = matches!(verdict, ScenarioVerdict::InTime | ScenarioVerdict::Quiet);
        assert_eq!(judged.is_right(), right && named != Some(false));
    }

    const STUCK: &str = "user: go\n4x bash make !! error: no rule";
    const FINE: &str = "user: go\nbash ls -> a b\nread a -> one\nread b -> two\nbash make -> built";

    #[test]
    fn the_first_word_decides() {
        check("repeated_error 4..5", STUCK, ScenarioVerdict::InTime, Some(true), 1);
        check("stagnation|repeated_error 2..4", STUCK, ScenarioVerdict::InTime, Some(true), 1);
        check("repeated_error 5..5", STUCK, ScenarioVerdict::TooEarly, Some(true), 1);
        check("repeated_error 2..3", STUCK, ScenarioVerdict::Late, Some(true), 1);
        check("repeated_error 2..3", FINE, ScenarioVerdict::Missed, None, 0);
        check("quiet", FINE, ScenarioVerdict::Quiet, None, 0);
        check("quiet", STUCK, ScenarioVerdict::Spoken, None, 1);
    }

    #[test]
    fn another_pattern_in_time_is_in_time_and_not_right() {
        check("monologue 4..5", STUCK, ScenarioVerdict::InTime, Some(false), 1);
    }

    #[test]
    fn the_engine_is_asked_after_the_last_event() {
        let run = "user: go\n3x bash make !! error: no rule";
        check("repeated_error 4..4", run, ScenarioVerdict::InTime, Some(true), 1);
    }

    #[test]
    fn a_word_about_a_deadline_does_not_count() {
        let run = format!("deadline 1m\n{FINE}");
        check("quiet", &run, ScenarioVerdict::Quiet, None, 0);
        let scenarios = read_scenarios(&format!("=== one\nexpect: quiet\n{run}")).unwrap();
        let mut engine = Engine::shipped(Budget::default());
        judge(&scenarios[0], &mut engine);
        assert!(engine.session().delivery_totals().deliveries > 0, "the deadline was spoken of");
    }

    #[test]
    fn times_are_those_of_the_run() {
        let run = "~90s bash make -> built\n+2m bash make test -> passed";
        let scenarios = read_scenarios(&format!("=== one\nexpect: quiet\n{run}")).unwrap();
        let mut engine = Engine::shipped(Budget::default());
        judge(&scenarios[0], &mut engine);
        let (first, last) =
            (&scenarios[0].events[0][0], engine.call_just_ended().unwrap().ended_at());
        assert_eq!(last.since(first.at()).as_secs(), 210);
    }
}
