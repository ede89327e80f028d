//! What a new launch of a run changes: budgets count from the launch on, and earlier shadow
//! deliveries are forgotten.
//!
//! A launch records a `config_applied` without a prompt name when its settings begin to apply.

use serde::{Deserialize, Serialize};

use super::cadence::Cadence;
use super::outcome::Outcomes;
use super::state::{DeliveryTotals, State};
use crate::analysis::TrajectoryAnalysis;
use crate::ledger::Ledger;
use crate::money::MicroUsd;

/// What earlier launches of a run used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsageBefore {
    pub(crate) calls: u64,
    pub(crate) tokens: u64,
    pub(crate) cost: MicroUsd,
}

impl State {
    pub(super) fn begin_launch(&mut self, trajectory: &TrajectoryAnalysis) {
        self.usage_before = UsageBefore {
            calls: trajectory.tool_call_count(),
            tokens: trajectory.tokens(),
            cost: trajectory.cost().unwrap_or_default(),
        };
        if std::mem::take(&mut self.has_shadow_deliveries) {
            self.forget_deliveries();
        }
    }

    /// Forgets all deliveries. Some may have reached the agent before shadow mode began: that they
    /// may be repeated is better than keeping a second ledger to tell the two apart.
    fn forget_deliveries(&mut self) {
        self.ledger = Ledger::default();
        self.cadence = Cadence::default();
        self.outcomes = Outcomes::default();
        self.delivery_totals = DeliveryTotals::default();
        for file in &mut self.files {
            file.announced_by.clear();
        }
    }
}
