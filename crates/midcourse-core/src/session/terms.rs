//! The terms a run goes on under. A launch records when its own begin to hold; from there on its
//! budgets count, and what only a shadow said before was never told.

use serde::{Deserialize, Serialize};

use super::cadence::Cadence;
use super::outcome::Outcomes;
use super::{DeliveryTotals, State};
use crate::analysis::TrajectoryAnalysis;
use crate::ledger::Ledger;
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
        if std::mem::take(&mut self.has_shadowed) {
            self.forget_what_was_said();
        }
    }

    /// Nobody has spoken of anything yet. What was told before a shadow goes with it: to say that
    /// again is better than to keep a second ledger for it.
    fn forget_what_was_said(&mut self) {
        self.ledger = Ledger::default();
        self.cadence = Cadence::default();
        self.outcomes = Outcomes::default();
        self.delivery_totals = DeliveryTotals::default();
        for file in &mut self.files {
            file.announced_by.clear();
        }
    }
}
