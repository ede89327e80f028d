//! Feeding records to the engine and noting what it sees and says, one record at a time.

use midcourse_core::{
    DecisionPoint, Delivery, Engine, Fault, Outcome, TrajectoryPattern, TrajectoryRecord,
};

/// What one record led to.
#[derive(Default)]
pub(super) struct Seen {
    /// Patterns that begin to hold.
    pub(super) patterns: Vec<TrajectoryPattern>,
    /// What is said, and where.
    pub(super) said: Vec<(DecisionPoint, Delivery)>,
    /// What followed things said before.
    pub(super) outcomes: Vec<Outcome>,
    /// What failed and was skipped.
    pub(super) faults: Vec<Fault>,
}

/// Takes a record in, asks what is to be said, and counts it as delivered.
pub(super) fn watch(engine: &mut Engine, record: &TrajectoryRecord) -> Seen {
    let (seq, now) = (record.seq, record.at());
    let intake = engine.take_in(record);
    let mut seen = Seen {
        patterns: intake.patterns,
        outcomes: intake.outcomes,
        faults: intake.faults,
        ..Seen::default()
    };
    let feedback = engine.feedback(now);
    seen.faults.extend(feedback.faults);
    for piece in feedback.said {
        engine.confirm(piece.clone(), seq, now);
        seen.said.push((DecisionPoint::PostToolResult, piece.into()));
    }
    let guidance = engine.guidance(DecisionPoint::PreToolSelection, now);
    seen.faults.extend(guidance.faults);
    for piece in guidance.said {
        engine.confirm(piece.clone(), seq, now);
        seen.said.push((DecisionPoint::PreToolSelection, piece.into()));
    }
    seen
}
