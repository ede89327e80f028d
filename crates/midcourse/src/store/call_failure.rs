//! Classifies a finished tool call when it is stored.
//!
//! The core decides whether a call failed, by its result and, if need be, by its arguments, which
//! are in the record of its start. The store keeps the classification next to the payload, which
//! stays as it was reported. So the counts of a run, and everything that shows its records, agree
//! with the engine.

use midcourse_core::{TrajectoryPayload, call_failed};
use rusqlite::Connection;
use serde_json::Value;

use super::append::seq_of_fact;
use super::error::StoreError;
use super::read;
use crate::event::FactKey;

/// Whether the call that a record ends has failed or was refused; `None` if the record does not end
/// a call.
pub(super) fn classify(
    connection: &Connection,
    run: i64,
    payload: &TrajectoryPayload,
) -> Result<Option<bool>, StoreError> {
    let (tool, result, is_error) = match payload {
        TrajectoryPayload::ToolEnded { tool_name, result, is_error, .. } => {
            (tool_name, result, *is_error)
        }
        TrajectoryPayload::Denied { .. } => return Ok(Some(true)),
        _ => return Ok(None),
    };
    let mut unreadable = None;
    let args = || {
        arguments(connection, run, payload).unwrap_or_else(|error| {
            unreadable = Some(error);
            Value::Null
        })
    };
    let failed = call_failed(tool, args, result, is_error);
    match unreadable {
        // A damaged start does not keep the end of its call from being stored.
        None | Some(StoreError::Damaged(_)) => Ok(Some(failed)),
        Some(error) => Err(error),
    }
}

/// The arguments of the call that a record ends; `Value::Null` if its start is not stored.
fn arguments(
    connection: &Connection,
    run: i64,
    payload: &TrajectoryPayload,
) -> Result<Value, StoreError> {
    let Some(fact) = FactKey::of(payload) else { return Ok(Value::Null) };
    let Some(seq) = seq_of_fact(connection, run, "tool_started", fact.as_str())? else {
        return Ok(Value::Null);
    };
    let Some(row) = read::row(connection, run, seq)? else { return Ok(Value::Null) };
    Ok(row.value()?.get_mut("args").map(Value::take).unwrap_or_default())
}
