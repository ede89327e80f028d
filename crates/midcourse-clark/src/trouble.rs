//! What went wrong without the agent noticing.

use std::fmt;

use midcourse::TrajectoryError;
use midcourse_core::Fault;

/// Something went wrong. The agent goes on as if nothing had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// An event was not recorded, and failures escalate.
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
