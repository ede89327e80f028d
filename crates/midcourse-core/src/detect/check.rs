//! Test function of the detectors: parses a short run that is written in midcourse's text notation,
//! analyses its records, and compares the patterns that the detectors report.

use super::TrajectoryBuilder;
use crate::analysis::{PatternDetail, TrajectoryAnalysisConfig};
use crate::notation::parse_notation;

/// Asserts that exactly these patterns are reported for a run, with the shipped configuration.
#[track_caller]
pub(super) fn check(notation: &str, expected: &[&str]) {
    check_with(TrajectoryAnalysisConfig::shipped(), notation, expected);
}

#[track_caller]
pub(super) fn check_with(config: TrajectoryAnalysisConfig, notation: &str, expected: &[&str]) {
    let mut builder = TrajectoryBuilder::new(config);
    let mut seen = Vec::new();
    for record in parse_notation(notation).expect("the trajectory of the test is valid") {
        for pattern in builder.push(&record) {
            let call = builder.analysis().tool_call_count();
            seen.push(format!("call {call}: {}", describe(pattern.detail())));
        }
    }
    assert_eq!(seen, expected);
}

fn describe(detail: &PatternDetail) -> String {
    let name = detail.pattern_type();
    match detail {
        PatternDetail::DoomLoop { cycle_length, repetitions, .. } => {
            format!("{name} of {cycle_length}, {repetitions} times")
        }
        PatternDetail::RepeatedError { signature, count, .. } => {
            format!("{name} of kind {}, {count} times", signature.kind.as_str())
        }
        PatternDetail::ProgressStall { actions, .. } => format!("{name} of {actions} calls"),
        PatternDetail::ToolAvoidance { responses } => format!("{name} of {responses}"),
        PatternDetail::Churn { turns, .. } => format!("{name} of {turns} turns"),
        PatternDetail::ContextDegradation { repeated, of } => {
            format!("{name} of {repeated} in {of}")
        }
        PatternDetail::Sweep { reads, repeated, .. } => format!("{name} of {repeated} in {reads}"),
        PatternDetail::ErrorCascade { failures, .. } => format!("{name} of {failures}"),
        PatternDetail::Stagnation { calls, .. } => format!("{name} of {calls}"),
        PatternDetail::WriteThrash { file, .. } => {
            format!("{name} of {}", file.as_ref().map_or("?", |file| file.as_str()))
        }
        PatternDetail::NoEffect { changes, .. } => format!("{name} of {changes}"),
        PatternDetail::Waiting { polls, .. } => format!("{name} for {polls} polls"),
        PatternDetail::Outage { failures } => format!("{name} of {failures}"),
        PatternDetail::Monologue { repetitions } => format!("{name} of {repetitions}"),
        PatternDetail::IdleTalk { responses } => format!("{name} of {responses}"),
        PatternDetail::Drift { calls, .. } => format!("{name} of {calls}"),
        PatternDetail::Custom { .. } => name.to_string(),
    }
}
