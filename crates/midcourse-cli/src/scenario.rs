//! Labelled scenarios: short runs that say of themselves when a word is due, or that none is.
//!
//! A file of them is a yardstick for the detectors: [`read_scenarios`] reads it, [`judge`] feeds a
//! scenario to the engine as a backtest does and says whether what came was right. The format is
//! described in `docs/scenarios.md`.

mod judge;
mod read;

use std::fmt;

use midcourse::{PatternType, TrajectoryRecord};

pub use judge::{Judgement, ScenarioVerdict, judge};
pub use read::{ScenarioError, read_scenarios};

/// A run, and what is expected of whoever watches it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name, which no other scenario has.
    pub name: String,
    /// The line of its file that it begins with, from 1.
    pub line: usize,
    /// Why this is expected, for people.
    pub why: Option<String>,
    /// What is expected.
    pub expected: Expected,
    /// What happens: the records of each event, in order.
    pub events: Vec<Vec<TrajectoryRecord>>,
}

/// What is expected in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is to be said.
    Quiet,
    /// Something is to be said.
    Word {
        /// About one of these.
        patterns: Vec<PatternType>,
        /// With this event at the earliest, from 1.
        first: usize,
        /// With this event at the latest.
        last: usize,
    },
}

impl Expected {
    /// Whether a word about this is expected.
    pub fn names(&self, pattern: &str) -> bool {
        match self {
            Self::Quiet => false,
            Self::Word { patterns, .. } => patterns.iter().any(|known| known.as_str() == pattern),
        }
    }
}

/// As it is written in a file.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quiet => f.write_str("quiet"),
            Self::Word { patterns, first, last } => {
                let names: Vec<&str> = patterns.iter().map(PatternType::as_str).collect();
                write!(f, "{} {first}..{last}", names.join("|"))
            }
        }
    }
}
