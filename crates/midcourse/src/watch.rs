//! Watching a run: the engine beside the records, one record at a time.
//!
//! Live use, replay and the demo all go through [`watch`]: a record is taken in, the engine is
//! asked, and what it says is confirmed before the next question. [`Watch`] adds how far a stored
//! run has been folded.

use midcourse_core::{
    Checkpoint, CheckpointError, DecisionPoint, Delivery, Engine, Fault, Outcome, RunId,
    TrajectoryPattern, TrajectoryPayload, TrajectoryRecord,
};

use crate::store::Link;

/// What one record led to.
#[derive(Debug, Default)]
pub struct Seen {
    /// Patterns that begin to hold.
    pub patterns: Vec<TrajectoryPattern>,
    /// What is said, and where.
    pub said: Vec<(DecisionPoint, Delivery)>,
    /// What followed things said before.
    pub outcomes: Vec<Outcome>,
    /// What failed and was skipped.
    pub faults: Vec<Fault>,
    /// The records of the outcomes and of what was said, in order.
    pub records: Vec<TrajectoryRecord>,
}

/// Takes a record in, asks what is to be said, and counts it as delivered. `next_seq` gives the
/// records of that their place. Without a point nothing can be carried, so nothing is asked.
pub fn watch(
    engine: &mut Engine,
    record: &TrajectoryRecord,
    point: Option<DecisionPoint>,
    mut next_seq: impl FnMut() -> u64,
) -> Seen {
    let now = record.at();
    let intake = engine.take_in(record);
    let mut seen = Seen {
        patterns: intake.patterns,
        outcomes: intake.outcomes,
        faults: intake.faults,
        ..Seen::default()
    };
    for outcome in &seen.outcomes {
        let Outcome { delivery_seq, verdict, after_calls } = *outcome;
        let payload = TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls };
        let followed = TrajectoryRecord { seq: next_seq(), payload, ..record.clone() };
        engine.take_in(&followed);
        seen.records.push(followed);
    }
    let Some(point) = point else { return seen };
    let feedback = engine.feedback(now);
    seen.faults.extend(feedback.faults);
    let call = record.payload.call_id().or_else(|| engine.trajectory().call_awaiting_feedback());
    let call = call.cloned();
    for piece in feedback.said {
        let delivery = Delivery::Feedback { feedback: piece, tool_call_id: call.clone() };
        seen.records.push(engine.confirm(delivery.clone(), next_seq(), now));
        seen.said.push((DecisionPoint::PostToolResult, delivery));
    }
    let guidance = engine.guidance(point, now);
    seen.faults.extend(guidance.faults);
    for piece in guidance.said {
        seen.records.push(engine.confirm(piece.clone(), next_seq(), now));
        seen.said.push((point, piece.into()));
    }
    seen
}

/// An engine, and the place in a stored run that it has come to.
pub struct Watch {
    engine: Engine,
    empty: Checkpoint,
    at: Option<(RunId, Link)>,
}

impl Watch {
    /// Watches with an engine that has seen nothing yet.
    pub fn new(engine: Engine) -> Result<Self, CheckpointError> {
        Ok(Self { empty: engine.checkpoint()?, engine, at: None })
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Whether the engine has folded this run up to this link.
    pub(crate) fn is_at(&self, run: &RunId, link: &Link) -> bool {
        self.at.as_ref().is_some_and(|(at, head)| at == run && head == link)
    }

    /// The engine's fold is that of the run up to this link.
    pub(crate) fn came_to(&mut self, run: &RunId, link: Link) {
        self.at = Some((run.clone(), link));
    }

    /// The engine's fold belongs to no stored run any more.
    pub(crate) fn lost_its_place(&mut self) {
        self.at = None;
    }

    /// Goes on from a checkpoint; returns whether it could.
    pub(crate) fn resume(&mut self, checkpoint: Option<Checkpoint>) -> bool {
        self.at = None;
        if let Some(checkpoint) = checkpoint
            && self.engine.restore(&checkpoint).is_ok()
        {
            return true;
        }
        // An engine always reads what it wrote itself.
        let _ = self.engine.restore(&self.empty);
        false
    }
}
