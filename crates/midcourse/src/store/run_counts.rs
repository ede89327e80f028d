//! Updates the row of a run whenever it gets a record: the counts of tool calls, errors and
//! messages, and whether the run has ended.

use midcourse_core::TrajectoryPayload;
use rusqlite::{Connection, params};

use super::append::RunHead;
use super::error::StoreError;

/// What one record adds to the counts of its run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RunCounts<'a> {
    pub(super) calls: i64,
    pub(super) errors: i64,
    pub(super) deliveries: i64,
    pub(super) ending: Ending<'a>,
}

/// What a record changes about the end of its run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Ending<'a> {
    #[default]
    Unchanged,
    /// The run ended, with this outcome.
    Ended(&'a str),
    /// The run goes on. If an end was recorded before, it is cleared.
    Continues,
}

impl<'a> RunCounts<'a> {
    /// What a record with this payload adds. `failed` says whether the call that the record ends
    /// has failed or was refused (see [`classify`](super::call_failure::classify)).
    pub(super) fn of(payload: &'a TrajectoryPayload, failed: Option<bool>) -> Self {
        match payload {
            TrajectoryPayload::ToolEnded { .. } | TrajectoryPayload::Denied { .. } => {
                Self { calls: 1, errors: i64::from(failed == Some(true)), ..Self::default() }
            }
            TrajectoryPayload::FeedbackDelivered { .. }
            | TrajectoryPayload::GuidanceDelivered { .. } => {
                Self { deliveries: i64::from(payload.reached_agent()), ..Self::default() }
            }
            TrajectoryPayload::RunEnded { outcome, .. } => {
                Self { ending: Ending::Ended(outcome.as_str()), ..Self::default() }
            }
            TrajectoryPayload::Resumed
            | TrajectoryPayload::TurnStarted
            | TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::ToolStarted { .. } => {
                Self { ending: Ending::Continues, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// Updates the run's row after a record was inserted into the run or moved into it.
    pub(super) fn add(
        &self,
        connection: &Connection,
        run: &RunHead,
        at_ms: i64,
    ) -> Result<(), StoreError> {
        connection
            .prepare_cached(
                "UPDATE runs SET next_seq = ?2, head = ?3, latest = max(latest, ?4), \
                 started = min(started, ?4), calls = calls + ?5, errors = errors + ?6, \
                 deliveries = deliveries + ?7 WHERE id = ?1",
            )?
            .execute(params![
                run.id,
                run.next_seq,
                run.link.as_bytes(),
                at_ms,
                self.calls,
                self.errors,
                self.deliveries,
            ])?;
        let (ended, outcome) = match self.ending {
            Ending::Unchanged => return Ok(()),
            Ending::Ended(outcome) => (Some(at_ms), Some(outcome)),
            Ending::Continues => (None, None),
        };
        connection
            .prepare_cached("UPDATE runs SET ended = ?2, outcome = ?3 WHERE id = ?1")?
            .execute(params![run.id, ended, outcome])?;
        Ok(())
    }
}
