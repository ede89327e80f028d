//! The terms a run goes on under. A launch records when its own begin to hold; from there on its
//! budgets count.

use serde::{Deserialize, Serialize};

use super::State;
use crate::analysis::TrajectoryAnalysis;
use crate::money::MicroUsd;

/// What was used up before the terms in force began to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsedBefore {
    pub(crate) calls: u64,
    pub(crate) tokens: u64,
    pub(crate) cost: MicroUsd,
}

impl State {
    /// Other terms hold from here on.
    pub(super) fn begin_terms(&mut self, trajectory: &TrajectoryAnalysis) {
        self.used_before = UsedBefore {
            calls: trajectory.tool_call_count(),
            tokens: trajectory.tokens(),
            cost: trajectory.cost().unwrap_or_default(),
        };
    }
}
