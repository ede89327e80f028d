//! Between the records of clark-agent and those of midcourse, both ways and without loss.
//!
//! The JSON of the shared kinds is the same, so stored files need no conversion. In memory the types
//! are converted field by field: by way of JSON, clark-agent would give a message that has no time
//! the time of reading. Every variant is named, so a new one does not compile until somebody has
//! decided what it means on the other side.

mod event;
mod inward;
mod outward;

pub use event::payload_of;
pub(crate) use inward::{identity, payload, tool_result};

use midcourse::{Timestamp, TrajectoryRecord};

/// A record of clark-agent as one of midcourse.
pub fn from_clark(record: &clark_agent::TrajectoryRecord) -> TrajectoryRecord {
    TrajectoryRecord {
        schema_version: record.schema_version,
        seq: record.seq,
        run_id: record.run_id.as_ref().map(Into::into),
        parent_run_id: record.parent_run_id.as_ref().map(Into::into),
        depth: record.depth,
        recorded_at_unix_ms: Timestamp::from_unix_ms(record.recorded_at_unix_ms),
        payload: inward::payload(&record.payload),
    }
}

/// A record of midcourse as one of clark-agent; nothing, if it is of a kind that only midcourse has.
pub fn to_clark(record: &TrajectoryRecord) -> Option<clark_agent::TrajectoryRecord> {
    Some(clark_agent::TrajectoryRecord {
        schema_version: record.schema_version,
        seq: record.seq,
        run_id: record.run_id.as_ref().map(ToString::to_string),
        parent_run_id: record.parent_run_id.as_ref().map(ToString::to_string),
        depth: record.depth,
        recorded_at_unix_ms: record.recorded_at_unix_ms.unix_ms(),
        payload: outward::payload(&record.payload)?,
    })
}
