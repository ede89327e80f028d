//! What went wrong while the agent continued.

use std::fmt;

use midcourse::{Fault, TrajectoryError};

/// Something that went wrong. The agent continues as if nothing had happened.
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
