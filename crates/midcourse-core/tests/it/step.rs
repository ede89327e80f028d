//! What a step returns: deliveries with their decision points, and records ready to be stored.

use midcourse_core::{
    Budget, DecisionPoint, Delivery, Engine, Mode, RunIdentity, TrajectoryPayload,
    TrajectoryRecord, parse_notation,
};

const POINT: Option<DecisionPoint> = Some(DecisionPoint::PreToolSelection);

/// The records of a child run (the run of a subagent). Sequence numbers between them are free for
/// the engine's own records.
fn records(notation: &str) -> Vec<TrajectoryRecord> {
    let mut run = RunIdentity::root("child");
    run.parent_run_id = Some("parent".into());
    run.depth = 1;
    let records = parse_notation(notation).unwrap().into_iter();
    records.map(|record| TrajectoryRecord { seq: record.seq * 10, ..record.in_run(&run) }).collect()
}

#[test]
fn deliveries_and_their_records_follow_the_record() {
    let mut engine = Engine::shipped(Budget::default());
    let mut deliveries = Vec::new();
    for record in records("deadline 2h\n3x bash make !! error: missing separator") {
        let step = engine.step(&record, POINT);
        assert_eq!(step.records.len(), step.deliveries.len());
        for (place, stored) in (1..).zip(&step.records) {
            assert_eq!(stored.seq, record.seq + place);
            assert_eq!(stored.at(), record.at());
            assert_eq!(stored.run_id, record.run_id);
            assert_eq!(stored.parent_run_id, record.parent_run_id);
            assert_eq!((stored.depth, stored.schema_version), (1, record.schema_version));
        }
        for (delivery, stored) in step.deliveries.iter().zip(&step.records) {
            match (delivery, &stored.payload) {
                (
                    Delivery::Feedback { feedback, tool_call_id },
                    TrajectoryPayload::FeedbackDelivered {
                        feedback: stored, tool_call_id: id, ..
                    },
                ) => {
                    assert_eq!((feedback, tool_call_id), (stored, id));
                    assert_eq!(tool_call_id.as_ref(), record.payload.call_id());
                }
                (
                    Delivery::Guidance(guidance),
                    TrajectoryPayload::GuidanceDelivered { guidance: stored, .. },
                ) => assert_eq!(guidance, stored),
                other => panic!("{other:?}"),
            }
        }
        deliveries.extend(step.deliveries);
    }
    let points: Vec<_> =
        deliveries.iter().map(|each| (each.provider(), each.decision_point())).collect();
    assert_eq!(
        points,
        [
            ("Deadline", DecisionPoint::PostToolResult),
            ("course_correction", DecisionPoint::PreToolSelection)
        ]
    );
}

#[test]
fn outcomes_are_recorded_before_deliveries() {
    let mut engine = Engine::shipped(Budget::default());
    let mut kinds = Vec::new();
    let text = "3x bash make !! error: missing separator\nedit a.c -> ok\nbash make -> built";
    for record in records(text) {
        let step = engine.step(&record, POINT);
        assert_eq!(step.records.len(), step.outcomes.len() + step.deliveries.len());
        kinds.extend(step.records.iter().map(|stored| stored.payload.kind()));
    }
    assert_eq!(kinds, ["guidance_delivered", "outcome"]);
}

#[test]
fn without_a_decision_point_nothing_is_delivered() {
    let mut engine = Engine::shipped(Budget::default());
    for record in records("deadline 2h\n9x bash make !! error: missing separator") {
        let step = engine.step(&record, None);
        assert!(step.deliveries.is_empty() && step.records.is_empty());
        assert_eq!(step.labelled_text(), None);
    }
}

#[test]
fn a_step_and_a_fold_of_its_records_leave_the_same_checkpoint() {
    let mut live = Engine::shipped(Budget::default()).with_mode(Mode::Shadow);
    let mut folded = Engine::shipped(Budget::default());
    for record in records("deadline 2h\n7x bash make !! error: missing separator\nuser: stop") {
        let step = live.step(&record, POINT);
        folded.fold(&record);
        step.records.iter().for_each(|record| folded.fold(record));
        assert_eq!(live.checkpoint().unwrap(), folded.checkpoint().unwrap());
    }
}
