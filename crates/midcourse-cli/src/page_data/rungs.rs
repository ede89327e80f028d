//! What the other messages of a series would have said: the run is folded up to a message, and the
//! engine is asked for the text at each position of the series about the message's problem.

use midcourse::{
    CheckpointError, DecisionPoint, DeliveryPolicy, Rung, Store, StoreError, TrajectoryPayload,
    TrajectoryRecord,
};
use serde::Serialize;

use super::entry_view::Message;
use crate::run_settings::RecordedEngine;

/// A position of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RungView {
    number: u8,
    text: String,
    is_this: bool,
}

/// How many positions are tried. The texts of the built-in providers differ at the first four.
const MAX_RUNGS: u8 = 9;

/// How many records are read at once.
const PAGE: usize = 256;

/// How many messages and outcomes may lie between an event and the last message about it.
const MAX_CONCLUSIONS: u64 = 64;

/// The texts of the series about the problem of the message at `seq`, in the situation of that
/// message. Empty if the message is not about a problem, or if the engine of this release would not
/// have delivered it.
///
/// This reads and analyses all records before the message, which takes seconds for a long run.
pub(crate) fn rungs(store: &Store, run_id: &str, seq: u64) -> Result<Vec<RungView>, StoreError> {
    let Some(entry) = store.entry(run_id, seq)? else { return Ok(Vec::new()) };
    let Some(message) = Message::of(&entry) else { return Ok(Vec::new()) };
    let Some(why) = message.delivery.why().filter(|why| !why.cause.is_limit()) else {
        return Ok(Vec::new());
    };
    let Some((event, point)) = event_before(store, run_id, seq)? else { return Ok(Vec::new()) };
    let is_child = entry.record.run.parent_run_id.is_some();
    let mut engine = RecordedEngine::new(DeliveryPolicy::default(), is_child);
    let is_guidance = |payload: &TrajectoryPayload| {
        matches!(payload, TrajectoryPayload::GuidanceDelivered { .. })
    };
    let this_is_guidance = entry.record.payload().as_ref().is_some_and(is_guidance);
    let is_restored = each_record(store, run_id, seq, |record, source| {
        // Messages of the same kind about the same event were made together with this one.
        let is_alongside = record.seq > event.seq
            && !matches!(record.payload, TrajectoryPayload::Outcome { .. })
            && is_guidance(&record.payload) == this_is_guidance;
        if !is_alongside {
            engine.follow(&record, Some(source))?;
            engine.get_mut().fold(&record);
        }
        Ok(())
    })?;
    if !is_restored {
        return Ok(Vec::new());
    }
    let mut rungs: Vec<RungView> = Vec::new();
    let mut is_found = false;
    for number in 1..=MAX_RUNGS.max(why.rung.0) {
        let is_this = number == why.rung.0;
        let Some(delivery) = engine.get_mut().preview(&event, point, &why.cause, Rung(number))
        else {
            continue;
        };
        let text = delivery.text();
        let is_new = rungs.last().is_none_or(|last| last.text != text);
        if is_this {
            is_found = text == message.text;
        }
        if is_new || is_this {
            rungs.push(RungView { number, text, is_this });
        } else if is_found {
            break;
        }
    }
    // A message that another release worded differently has no series here.
    Ok(if is_found { rungs } else { Vec::new() })
}

/// The event to which the engine replied with the message at `seq`, and its decision point.
fn event_before(
    store: &Store,
    run_id: &str,
    seq: u64,
) -> Result<Option<(TrajectoryRecord, DecisionPoint)>, StoreError> {
    for before in (seq.saturating_sub(MAX_CONCLUSIONS)..seq).rev() {
        let Some(entry) = store.entry(run_id, before)? else { return Ok(None) };
        let point = entry.record.decision_point;
        let record = entry.record.into_record();
        if !record.payload.is_conclusion() {
            return Ok(point.map(|point| (record, point)));
        }
    }
    Ok(None)
}

/// Calls `work` with each record before `end`, as it was first reported. Returns false if `work`
/// fails: then this release cannot continue with the state of the engine.
fn each_record(
    store: &Store,
    run_id: &str,
    end: u64,
    mut work: impl FnMut(TrajectoryRecord, &midcourse::Source) -> Result<(), CheckpointError>,
) -> Result<bool, StoreError> {
    let mut from = 0;
    while from < end {
        let count = usize::try_from(end - from).unwrap_or(usize::MAX).min(PAGE);
        let page = store.records_or_damage(run_id, from, count)?;
        let Some((last, _)) = page.last() else { break };
        from = last.saturating_add(1);
        // A record that cannot be read is left out, as in a report.
        for mut stored in page.into_iter().filter_map(|(_, stored)| stored.ok()) {
            if let Some(first) = stored.first_reported.take() {
                stored.value = first;
            }
            let source = stored.source.clone();
            if work(stored.into_record(), &source).is_err() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
