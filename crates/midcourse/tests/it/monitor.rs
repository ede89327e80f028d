//! The monitor: what it records, which messages it returns, and what happens when a part fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use midcourse::{
    Budget, DataDir, DecisionPoint, Engine, Event, Holdout, InMemoryTrajectorySink, Mode, Monitor,
    OnFailure, RecordOutcome, Recording, Report, RunIdentity, RunOutcome, Store, ToolResult,
    TrajectoryError, TrajectoryPayload, TrajectorySink, now,
};
use serde_json::json;

/// Reports one failing call, as an agent's loop would.
fn failing_call(monitor: &midcourse::MonitoredRun, number: u32) -> Report {
    let (run, id) = (monitor.blocking(), format!("c{number}"));
    run.model_request("model", 3, &["bash"]).unwrap();
    run.tool_started(id.as_str(), "bash", json!({"command": "make"})).unwrap();
    run.tool_ended(id.as_str(), "bash", ToolResult::error("make: *** no rule")).unwrap()
}

fn kinds(data_dir: &DataDir, run_id: &str) -> Vec<&'static str> {
    let store = Store::open_read_only(data_dir).unwrap().unwrap();
    let records = store.trajectory(run_id).unwrap();
    records.iter().map(|record| record.payload.kind()).collect()
}

#[test]
fn the_message_is_stored_with_the_call_it_is_about_before_it_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path());
    let run = Monitor::open(&data_dir).unwrap().begin_blocking("r").unwrap();
    assert!(failing_call(&run, 1).text().is_none());
    assert!(failing_call(&run, 2).text().is_none());
    let report = failing_call(&run, 3);
    assert_eq!(report.step.deliveries.len(), 1);
    assert_eq!(report.step.deliveries[0].decision_point(), DecisionPoint::PostToolResult);
    let kinds = kinds(&data_dir, "r");
    assert_eq!(kinds[kinds.len() - 2..], ["tool_ended", "guidance_delivered"]);
}

#[test]
fn a_stored_run_is_continued_by_another_process_with_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path());
    let run = Monitor::open(&data_dir).unwrap().begin_blocking("r").unwrap();
    failing_call(&run, 1);
    failing_call(&run, 2);
    drop(run);
    let run = Monitor::open(&data_dir).unwrap().begin_blocking("r").unwrap();
    assert!(failing_call(&run, 3).text().is_some(), "the third failure in all");
    assert_eq!(kinds(&data_dir, "r").iter().filter(|kind| **kind == "resumed").count(), 1);
    assert_eq!(kinds(&data_dir, "r").iter().filter(|kind| **kind == "run_started").count(), 1);
}

#[test]
fn a_run_with_deeply_nested_arguments_can_be_read_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path());
    let run = Monitor::open(&data_dir).unwrap().begin_blocking("r").unwrap();
    let deep = (0..126).fold(json!({"token": "x"}), |inner, _| json!([inner]));
    run.blocking().tool_started("deep", "bash", json!({"command": deep})).unwrap();
    drop(run);
    let run = Monitor::open(&data_dir).unwrap().begin_blocking("r").unwrap();
    failing_call(&run, 1);
    let store = Store::open_read_only(&data_dir).unwrap().unwrap();
    assert_eq!(store.verify_run(&"r".into()).unwrap(), []);
    let records = store.trajectory("r").unwrap();
    let text = serde_json::to_string(&records).unwrap();
    assert!(text.contains(r#"{\"token\":\"x\"}"#), "the inner part is kept as text: {text}");
}

#[test]
fn the_deadline_is_announced_with_the_first_prompt() {
    let mut identity = RunIdentity::root("r");
    identity.deadline_unix_ms = Some(now().after(std::time::Duration::from_secs(3_600)));
    let run = Monitor::in_memory().begin_blocking(identity).unwrap();
    let report = run.blocking().message(midcourse::AgentMessage::user("Go.")).unwrap();
    assert!(report.text().unwrap().contains("deadline"));
}

#[test]
fn shadow_mode_records_messages_and_returns_none() {
    let sink = Arc::new(InMemoryTrajectorySink::new());
    let shadow =
        |_: Option<&RunIdentity>| Engine::shipped(Budget::default()).with_mode(Mode::Shadow);
    let monitor = Monitor::with_sink(Arc::<InMemoryTrajectorySink>::clone(&sink)).engine(shadow);
    let run = monitor.begin_blocking("r").unwrap();
    assert!((1..=4).all(|number| failing_call(&run, number).text().is_none()));
    let records = sink.snapshot();
    assert!(records.iter().any(|record| record.payload.kind() == "guidance_delivered"));
}

#[test]
fn a_message_that_an_experiment_withholds_is_recorded_and_not_returned() {
    let sink = Arc::new(InMemoryTrajectorySink::new());
    let holdout = Holdout::try_from(0.999).unwrap();
    let engine =
        move |_: Option<&RunIdentity>| Engine::shipped(Budget::default()).with_holdout(holdout);
    let monitor = Monitor::with_sink(Arc::<InMemoryTrajectorySink>::clone(&sink)).engine(engine);
    let run = monitor.begin_blocking("r").unwrap();
    let reports: Vec<Report> = (1..=4).map(|number| failing_call(&run, number)).collect();
    assert!(reports.iter().all(|report| report.text().is_none()));
    assert_eq!(reports.iter().map(|report| report.step.withheld.len()).sum::<usize>(), 1);
    let withheld = sink.snapshot().into_iter().filter(|record| record.payload.is_withheld());
    assert_eq!(withheld.count(), 1);
}

/// A sink that can be switched off.
struct Switched {
    sink: InMemoryTrajectorySink,
    is_off: AtomicBool,
}

impl TrajectorySink for Switched {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move {
            if self.is_off.load(Ordering::SeqCst) {
                return Err(TrajectoryError::Io("no disk".to_owned()));
            }
            self.sink.record(event).await
        })
    }
}

#[test]
fn a_dropped_event_is_reported_and_leaves_a_gap_marker() {
    let sink = Arc::new(Switched { sink: InMemoryTrajectorySink::new(), is_off: false.into() });
    let monitor = Monitor::with_sink(Arc::<Switched>::clone(&sink));
    let run = monitor.begin_blocking("r").unwrap();
    sink.is_off.store(true, Ordering::SeqCst);
    let report = run.blocking().report(TrajectoryPayload::TurnStarted, None).unwrap();
    assert!(matches!(report.outcome, RecordOutcome::Dropped(TrajectoryError::Io(_))));
    sink.is_off.store(false, Ordering::SeqCst);
    run.blocking().end(RunOutcome::Completed).unwrap();
    let records = sink.sink.snapshot();
    let kinds: Vec<_> = records.iter().map(|record| record.payload.kind()).collect();
    assert_eq!(kinds, ["run_started", "gap", "run_ended"]);
}

#[test]
fn escalated_failures_reach_the_caller() {
    let sink = Arc::new(Switched { sink: InMemoryTrajectorySink::new(), is_off: true.into() });
    let monitor = Monitor::with_sink(sink).on_failure(OnFailure::Escalate);
    assert!(matches!(monitor.begin_blocking("r").err(), Some(TrajectoryError::Io(_))));
}

#[test]
fn an_engine_that_cannot_be_made_still_leaves_a_record() {
    let sink = Arc::new(InMemoryTrajectorySink::new());
    let monitor = Monitor::with_sink(Arc::<InMemoryTrajectorySink>::clone(&sink))
        .engine(|_| panic!("on purpose"));
    let run = monitor.begin_blocking("r").unwrap();
    assert!((1..=4).all(|number| failing_call(&run, number).text().is_none()));
    assert_eq!(sink.snapshot().iter().filter(|r| r.payload.kind() == "tool_ended").count(), 4);
}
