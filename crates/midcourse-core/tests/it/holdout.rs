//! The holdout: which messages an experiment withholds, that they are recorded and get an outcome
//! like the others, and that nothing else depends on it.

use midcourse_core::{
    Assignment, Budget, DecisionPoint, Delivery, Engine, Holdout, Mode, RunIdentity, Step,
    TrajectoryPayload, TrajectoryRecord, parse_notation,
};
use proptest::prelude::*;

const POINT: Option<DecisionPoint> = Some(DecisionPoint::PreToolSelection);

const TWO_PROBLEMS: &str = "
    deadline 2h
    user: build it
    9x bash make !! error: missing separator
    edit a.c -> ok
    bash make -> built
    8x read b.c -> the same forty lines of a file
    bash ls -> a.c b.c c.c
";

fn records(run_id: &str, notation: &str) -> Vec<TrajectoryRecord> {
    let run = RunIdentity::root(run_id);
    let records = parse_notation(notation).unwrap().into_iter();
    records.map(|record| TrajectoryRecord { seq: record.seq * 10, ..record.in_run(&run) }).collect()
}

fn engine(share: f64) -> Engine {
    Engine::shipped(Budget::default()).with_holdout(Holdout::try_from(share).unwrap())
}

fn steps(engine: &mut Engine, records: &[TrajectoryRecord]) -> Vec<Step> {
    records.iter().map(|record| engine.step(record, POINT)).collect()
}

/// The payloads of a step's records, without what the experiment decided.
fn unassigned(step: &Step) -> Vec<TrajectoryPayload> {
    let mut payloads: Vec<_> = step.records.iter().map(|it| it.payload.clone()).collect();
    for payload in &mut payloads {
        if let TrajectoryPayload::FeedbackDelivered { assignment, .. }
        | TrajectoryPayload::GuidanceDelivered { assignment, .. } = payload
        {
            *assignment = None;
        }
    }
    payloads
}

/// A run whose first problem is withheld, or is not.
fn run_with(is_withheld: bool) -> String {
    let ids = (0..).map(|number| format!("run-{number}"));
    let is_wanted = |id: &String| {
        let steps = steps(&mut engine(0.5), &records(id, TWO_PROBLEMS));
        let first = steps.iter().flat_map(|step| &step.records);
        let mut first = first.filter_map(|record| record.payload.assignment());
        (first.next() == Some(Assignment::Withheld)) == is_withheld
    };
    ids.into_iter().find(is_wanted).unwrap()
}

#[test]
fn withheld_messages_are_recorded_and_get_an_outcome() {
    for is_withheld in [true, false] {
        let run = run_with(is_withheld);
        let notation = "5x bash make !! error: missing separator\nedit a.c -> ok\nbash make -> ok";
        let steps = steps(&mut engine(0.5), &records(&run, notation));
        let with_message = steps.iter().find(|step| step.has_messages()).unwrap();
        assert_eq!(with_message.labelled_text().is_none(), is_withheld);
        assert_eq!(with_message.withheld.len(), usize::from(is_withheld));
        let payload = &with_message.records[0].payload;
        assert_eq!((payload.is_withheld(), payload.reached_agent()), (is_withheld, !is_withheld));
        let json = serde_json::to_value(payload).unwrap();
        assert_eq!(json["assignment"], if is_withheld { "withheld" } else { "delivered" });
        let outcomes: Vec<_> = steps.iter().flat_map(|step| &step.outcomes).collect();
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    }
}

#[test]
fn all_messages_about_a_problem_share_its_assignment() {
    for is_withheld in [true, false] {
        let run = run_with(is_withheld);
        let steps = steps(&mut engine(0.5), &records(&run, "40x bash make !! error: no separator"));
        let all: Vec<&TrajectoryRecord> = steps.iter().flat_map(|step| &step.records).collect();
        let assignments: Vec<_> = all.iter().filter_map(|it| it.payload.assignment()).collect();
        assert!(assignments.len() > 2, "{assignments:?}");
        assert!(assignments.iter().all(|it| *it == assignments[0]), "{assignments:?}");
    }
}

#[test]
fn limits_of_the_run_are_never_withheld() {
    let budget = Budget::default().with_calls(6).unwrap();
    let holdout = Holdout::try_from(0.999).unwrap();
    let mut engine = Engine::shipped(budget).with_holdout(holdout);
    let notation = "deadline 2h\nuser: go\n9x +10m bash make !! error: missing separator";
    let steps = steps(&mut engine, &records("r", notation));
    let shown: Vec<&Delivery> = steps.iter().flat_map(|step| &step.deliveries).collect();
    let is_limit = |delivery: &&&Delivery| delivery.why().is_some_and(|why| why.cause.is_limit());
    assert!(shown.len() > 2 && shown.iter().all(|it| is_limit(&it)), "{shown:?}");
    assert!(steps.iter().any(|step| !step.withheld.is_empty()));
}

#[test]
fn without_a_run_id_nothing_is_withheld() {
    let records = parse_notation("9x bash make !! error: missing separator").unwrap();
    let steps = steps(&mut engine(0.999), &records);
    let deliveries: usize = steps.iter().map(|step| step.deliveries.len()).sum();
    assert!(deliveries > 0 && steps.iter().all(|step| step.withheld.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_holdout_changes_nothing_but_who_gets_the_message(
        run in "[a-z]{1,8}", share in 0.01..0.99, is_shadow: bool,
    ) {
        let mode = if is_shadow { Mode::Shadow } else { Mode::Live };
        let records = records(&run, TWO_PROBLEMS);
        let mut with = engine(share).with_mode(mode);
        let mut without = engine(0.0).with_mode(mode);
        let mut folded = engine(0.0);
        for record in &records {
            let (one, other) = (with.step(record, POINT), without.step(record, POINT));
            prop_assert_eq!(unassigned(&one), unassigned(&other));
            prop_assert_eq!(&one.outcomes, &other.outcomes);
            prop_assert!(other.withheld.is_empty());
            prop_assert_eq!(one.deliveries.len() + one.withheld.len(), other.deliveries.len());
            folded.fold(record);
            one.records.iter().for_each(|record| folded.fold(record));
            let checkpoint = with.checkpoint().unwrap();
            prop_assert_eq!(&checkpoint, &without.checkpoint().unwrap());
            prop_assert_eq!(&checkpoint, &folded.checkpoint().unwrap());
        }
    }
}
