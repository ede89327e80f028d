//! Converts records between clark-agent and midcourse, both ways. Records whose payload kind only
//! midcourse has cannot be converted; all others are converted without loss.
//!
//! Payload kinds that both crates have look the same in JSON, so stored files need no conversion.
//! In memory the types are converted field by field and not through JSON: when clark-agent parses a
//! message without a time, it adds the current time, so the message would change. The code names
//! every variant of an enum, so the compiler reports a new variant that is not converted yet.

mod event;
mod from_clark;
mod to_clark;

pub use event::payload_of;
pub(crate) use from_clark::{identity, payload, tool_result};

use midcourse::{Timestamp, TrajectoryRecord};

/// Converts a record of clark-agent to one of midcourse.
pub fn from_clark(record: &clark_agent::TrajectoryRecord) -> TrajectoryRecord {
    TrajectoryRecord {
        schema_version: record.schema_version,
        seq: record.seq,
        run_id: record.run_id.as_ref().map(Into::into),
        parent_run_id: record.parent_run_id.as_ref().map(Into::into),
        depth: record.depth,
        recorded_at_unix_ms: Timestamp::from_unix_ms(record.recorded_at_unix_ms),
        payload: from_clark::payload(&record.payload),
    }
}

/// Converts a record of midcourse to one of clark-agent; `None` for kinds that only midcourse has.
pub fn to_clark(record: &TrajectoryRecord) -> Option<clark_agent::TrajectoryRecord> {
    Some(clark_agent::TrajectoryRecord {
        schema_version: record.schema_version,
        seq: record.seq,
        run_id: record.run_id.as_ref().map(ToString::to_string),
        parent_run_id: record.parent_run_id.as_ref().map(ToString::to_string),
        depth: record.depth,
        recorded_at_unix_ms: record.recorded_at_unix_ms.unix_ms(),
        payload: to_clark::payload(&record.payload)?,
    })
}
