//! What changes in a session when the agent is launched, that is, started for the run or started
//! again to resume it. A `config_applied` record without a prompt name marks a launch.
//!
//! Budgets count from the latest launch on. If messages were only recorded and not shown to the
//! agent (shadow mode), the session forgets all messages, because the agent may not know them.
//! Messages that an experiment withheld are kept: a problem of which the agent heard and one of which
//! it did not are treated alike, and the latter stays withheld.

use serde::{Deserialize, Serialize};

use super::cadence::Cadence;
use super::outcome::Outcomes;
use super::state::{DeliveryTotals, State};
use crate::analysis::TrajectoryAnalysis;
use crate::ledger::Ledger;
use crate::money::MicroUsd;

/// What the run had used up when the agent was last launched.
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

    /// Forgets all messages, also those that reached the agent before shadow mode began. The agent
    /// may get the latter a second time; only a second ledger could tell the two kinds apart.
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
