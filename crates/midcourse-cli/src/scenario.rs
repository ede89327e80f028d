//! Labelled scenarios: short runs with an expectation of when a message is due, or that none is.
//!
//! Scenarios measure the detectors. [`parse_scenarios`] parses a file; `evaluate` replays one
//! scenario through the engine and compares the first delivery with the expectation. The format is
//! described in `docs/scenarios.md`.

mod evaluate;
mod parse;

use std::fmt;

use midcourse::{PatternType, TrajectoryRecord};

pub(crate) use evaluate::{ScenarioResult, ScenarioVerdict, evaluate};
pub(crate) use parse::parse_scenarios;

/// A short run, and which messages midcourse should give in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario {
    /// Unique among the scenarios that are evaluated together.
    pub(crate) name: String,
    /// Line number in the file at which the scenario starts, counted from 1.
    pub(crate) line: usize,
    /// Explains the expectation to human readers.
    pub(crate) why: Option<String>,
    pub(crate) expected: Expected,
    /// For each event, in order: its records.
    pub(crate) events: Vec<Vec<TrajectoryRecord>>,
}

/// Which messages midcourse should give in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// No message is expected.
    Quiet,
    /// A message about one of the patterns is expected, after one of the events from `first` to
    /// `last` (counted from 1).
    Message { patterns: Vec<PatternType>, first: usize, last: usize },
}

impl Expected {
    /// Whether a message with this cause was expected.
    pub(crate) fn includes(&self, cause: &str) -> bool {
        match self {
            Self::Quiet => false,
            Self::Message { patterns, .. } => {
                patterns.iter().any(|pattern| pattern.as_str() == cause)
            }
        }
    }
}

/// Formats the expectation as in a scenario file.
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
