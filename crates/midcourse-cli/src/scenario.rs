//! Labelled scenarios: short runs with a label that says when midcourse should deliver a message to
//! the agent, or that it should deliver none.
//!
//! Scenarios measure how well midcourse detects problems. [`parse_scenarios`] parses a file;
//! `evaluate` replays one scenario through the engine and compares the first delivered message with
//! the label. The file format is described in `docs/scenarios.md`.

mod evaluate;
mod parse;

use std::fmt;

use midcourse::{PatternType, TrajectoryRecord};

pub(crate) use evaluate::{ScenarioResult, ScenarioVerdict, evaluate};
pub(crate) use parse::{parse_pattern, parse_scenarios};

/// A short run, and which messages midcourse should deliver in this run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario {
    /// Unique among the scenarios that are evaluated together.
    pub(crate) name: String,
    /// Line number in the file at which the scenario starts, counted from 1.
    pub(crate) line: usize,
    /// Explains the expectation to human readers.
    pub(crate) why: Option<String>,
    pub(crate) expected: Expected,
    /// The events of the run, in order. Each event is a list of records, such as the start and the
    /// end of a tool call.
    pub(crate) events: Vec<Vec<TrajectoryRecord>>,
}

/// Which messages midcourse should deliver in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// No message is expected.
    Quiet,
    /// A message about one of the patterns is expected, after one of the events from `first` to
    /// `last` (counted from 1).
    Message { patterns: Vec<PatternType>, first: usize, last: usize },
}

impl Expected {
    /// Whether a message about `cause`, the name of a pattern such as `doom_loop`, is expected.
    pub(crate) fn includes(&self, cause: &str) -> bool {
        match self {
            Self::Quiet => false,
            Self::Message { patterns, .. } => {
                patterns.iter().any(|pattern| pattern.as_str() == cause)
            }
        }
    }
}

/// Formats the expectation as a scenario file has it after `expect:`.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quiet => f.write_str("quiet"),
            Self::Message { patterns, first, last } => {
                let names: Vec<&str> = patterns.iter().map(PatternType::as_str).collect();
                write!(f, "{} {first}..{last}", names.join("|"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
