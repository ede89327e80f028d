//! Tests of backtesting: which message a failing run gets, how records are numbered, and that long
//! or damaged lines do not cause a panic.

use midcourse::{Budget, Engine, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::backtest;
use crate::formats::events::parse_run;

fn backtest_line(line: &[u8]) -> super::BacktestReport {
    let run = parse_run(line, Timestamp::default(), 1);
    backtest(run, Engine::shipped(Budget::default()))
}

/// A run with five identical failing calls.
fn failing_run() -> String {
    let call = json!({"kind": "tool", "tool": "bash", "args": {"command": "make"},
                      "result": "error: no rule", "is_error": true, "t": 10});
    json!({"run_id": "stuck", "success": false, "events": vec![call; 5]}).to_string()
}

#[test]
fn the_third_equal_failure_brings_a_message() {
    let report = backtest_line(failing_run().as_bytes());
    let deliveries: Vec<_> = report.deliveries().map(|it| (it.event, it.cause_name())).collect();
    assert_eq!(deliveries, [(3, "repeated_error")]);
    assert_eq!(report.after_first_delivery().unwrap().0, 2);
}

#[test]
fn the_records_of_the_engine_take_the_seqs_that_follow() {
    let report = backtest_line(failing_run().as_bytes());
    // The first record of the run has seq 0, and each call adds three records, so the last record
    // of the third call has seq 9.
    let with_delivery = report.steps.iter().find(|step| !step.step.deliveries.is_empty()).unwrap();
    assert_eq!(with_delivery.seq, 9);
    assert_eq!(with_delivery.step.records[0].seq, 10);
    let outcome = report.steps.iter().find(|step| !step.step.outcomes.is_empty());
    assert!(outcome.is_none_or(|step| step.seq > 10), "{outcome:?}");
}

#[test]
fn a_run_with_too_many_events_is_cut() {
    let events = r#"{"kind":"user","text":"x"},"#.repeat(600_000);
    let line = format!("{{\"run_id\":\"many\",\"events\":[{}]}}", events.trim_end_matches(','));
    let run = parse_run(line.as_bytes(), Timestamp::default(), 1);
    assert_eq!(run.events.len(), 500_000);
    assert!(run.parse_error.unwrap().contains("at most"));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        backtest_line(&bytes);
    }

    #[test]
    fn any_damaged_run_is_read(at in 0..900_usize, with in any::<u8>()) {
        let mut bytes = failing_run().into_bytes();
        let at = at % bytes.len();
        bytes[at] = with;
        for line in bytes.split(|byte| *byte == b'\n') {
            backtest_line(line);
        }
    }
}
