//! Problems in midcourse that the program can log. The agent continues in spite of them.

use std::fmt;

use midcourse::{Fault, TrajectoryError};

/// A problem in midcourse. The agent is not told about it and continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// An event was not recorded.
    Recording(TrajectoryError),
    /// A provider or detector failed and was skipped.
    Fault(Fault),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording(error) => error.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}
