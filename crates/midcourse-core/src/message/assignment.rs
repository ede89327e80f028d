//! Assignments: whether the experiment gave a message to the agent or withheld it.

use serde::{Deserialize, Serialize};

/// What an experiment decided at random about the messages on one problem of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// The messages go to the agent.
    Delivered,
    /// The messages are recorded, and the agent does not get them.
    Withheld,
}
