//! Detectors. Each finds one kind of pattern in a run, such as a loop. Each has a file with its
//! thresholds and its tests; the texts of the messages are in `wording`.
//!
//! [`TrajectoryBuilder`] runs the detectors after a record. A detector reads the analysis and keeps
//! little state of its own, which the checkpoint (the saved session) contains. To add a built-in
//! detector: write its file, add a field to [`BuiltIn`], a variant to
//! [`PatternDetail`](crate::PatternDetail), and its sentences to `wording`.

mod builder;
#[cfg(test)]
mod check;
mod churn;
mod context_degradation;
mod doom_loop;
mod drift;
mod error_cascade;
mod idle_talk;
mod monologue;
mod no_effect;
mod outage;
mod progress_stall;
mod repeated_error;
mod stagnation;
mod sweep;
mod tool_avoidance;
mod waiting;
mod write_thrash;

pub use builder::TrajectoryBuilder;
pub use doom_loop::MAX_CYCLE_LEN;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::fault::guard_mut;
use crate::record::TrajectoryRecord;
use crate::text::FailureKind;

/// The most bytes that one detector may save in a checkpoint.
pub const MAX_DETECTOR_STATE_BYTES: usize = 1024;

/// What a detector reports after a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Detection {
    /// The record does not change whether the pattern is present.
    Unchanged,
    /// The pattern is present. It counts as new only if this detector's pattern was absent before,
    /// or had another cause.
    Present(TrajectoryPattern),
    /// The pattern is not present.
    Absent,
}

impl From<Option<TrajectoryPattern>> for Detection {
    fn from(pattern: Option<TrajectoryPattern>) -> Self {
        pattern.map_or(Self::Absent, Self::Present)
    }
}

/// Examines a run after each record and reports whether one certain pattern is present.
///
/// The result must depend on nothing but the records so far, and not on the clock: a backtest runs
/// the detector on stored runs and has to get the same results as the live run. A detector with
/// state implements [`Self::save`] and [`Self::restore`]: if the host (the program that runs the
/// agent) calls midcourse as a hook, each event of a run is handled by a new process.
pub trait PatternDetector: Send + Sync {
    /// The detector's name, for error reports, and to find its saved state in a checkpoint.
    fn name(&self) -> &str;

    /// Examines the trajectory after `record`, which is its latest record.
    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection;

    /// Discards all state, so that the detector is as if newly made.
    fn reset(&mut self);

    /// The state to put in the checkpoint; empty by default. If the state is longer than
    /// [`MAX_DETECTOR_STATE_BYTES`], it is not saved, and `restore` gets an empty state.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores the state that [`Self::save`] returned. By default this does nothing.
    fn restore(&mut self, _state: &[u8]) {}
}

/// The state of a custom detector in a checkpoint, with the detector's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedDetector {
    name: String,
    state: Vec<u8>,
}

impl SavedDetector {
    pub(crate) fn of(detector: &dyn PatternDetector) -> Self {
        let mut state = guard_mut(|| detector.save()).unwrap_or_default();
        if state.len() > MAX_DETECTOR_STATE_BYTES {
            state.clear();
        }
        Self { name: detector.name().to_owned(), state }
    }

    pub(crate) fn is_of(&self, detector: &dyn PatternDetector) -> bool {
        self.name == detector.name()
    }

    pub(crate) fn state(&self) -> &[u8] {
        &self.state
    }
}

/// The built-in detectors, in the order in which they run. A detector sees the patterns that the
/// detectors before it found.
///
/// This is a struct and not a `Vec` of boxes, so that serde can derive how its state is saved, and
/// the compiler reports a detector that `each` leaves out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BuiltIn {
    waiting: waiting::Waiting,
    outage: outage::Outage,
    doom_loop: doom_loop::DoomLoop,
    repeated_error: repeated_error::RepeatedError,
    error_cascade: error_cascade::ErrorCascade,
    stagnation: stagnation::Stagnation,
    write_thrash: write_thrash::WriteThrash,
    no_effect: no_effect::NoEffect,
    churn: churn::Churn,
    sweep: sweep::Sweep,
    progress_stall: progress_stall::ProgressStall,
    context_degradation: context_degradation::ContextDegradation,
    monologue: monologue::Monologue,
    tool_avoidance: tool_avoidance::ToolAvoidance,
    idle_talk: idle_talk::IdleTalk,
    drift: drift::Drift,
}

impl BuiltIn {
    /// The shortest sequence of at least `min_len` calls that the agent has made at least
    /// `threshold` times in a row, if there is one. The configured minimums do not matter here.
    fn cycle(
        &self,
        trajectory: &TrajectoryAnalysis,
        threshold: NonZeroU32,
        min_len: NonZeroU32,
    ) -> Option<TrajectoryPattern> {
        self.doom_loop.cycle(trajectory, threshold, min_len)
    }

    pub(crate) const COUNT: usize = 16;

    pub(crate) fn each(&mut self) -> [&mut dyn PatternDetector; Self::COUNT] {
        let Self {
            waiting,
            outage,
            doom_loop,
            repeated_error,
            error_cascade,
            stagnation,
            write_thrash,
            no_effect,
            churn,
            sweep,
            progress_stall,
            context_degradation,
            monologue,
            tool_avoidance,
            idle_talk,
            drift,
        } = self;
        [
            waiting,
            outage,
            doom_loop,
            repeated_error,
            error_cascade,
            stagnation,
            write_thrash,
            no_effect,
            churn,
            sweep,
            progress_stall,
            context_degradation,
            monologue,
            tool_avoidance,
            idle_talk,
            drift,
        ]
    }
}

/// If the user asked to find failures, such as dead links, detectors report failures only if there
/// are at least this many.
const MIN_FAILURES_WHEN_ASKED_FOR: u32 = 16;

/// How many failures a detector needs before it reports them: `threshold`, or more if the user
/// asked to find failures.
fn min_failures(trajectory: &TrajectoryAnalysis, threshold: u32) -> u32 {
    let is_asked_for = trajectory.user_asked_for_failures();
    if is_asked_for { threshold.max(MIN_FAILURES_WHEN_ASKED_FOR) } else { threshold }
}

/// How many different calls with the same result a detector needs before it reports them:
/// `threshold`, or more if the user asked to find failures or to check each object of a list.
fn min_different_calls(trajectory: &TrajectoryAnalysis, threshold: u32) -> u32 {
    let is_list = trajectory.user_asked_for_list() || trajectory.user_asked_for_failures();
    if is_list { threshold.max(MIN_FAILURES_WHEN_ASKED_FOR) } else { threshold }
}

/// Counts the turns in a sequence of calls: calls that the model made in one turn count once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnCounter {
    count: u32,
    turn: Option<u64>,
}

impl TurnCounter {
    /// Adds a call; returns whether it is the first of its turn.
    pub(crate) fn add(&mut self, call: &ToolInvoked) -> bool {
        let is_new = self.turn.replace(call.turn()) != Some(call.turn());
        self.count += u32::from(is_new);
        is_new
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

/// The cause of a message about the latest consecutive failures: an outage if the latest failure
/// reports one, or else the error that all these failures share. `None` if their errors differ, or
/// if the latest call did not fail.
pub(crate) fn error_cause(trajectory: &TrajectoryAnalysis) -> Option<Cause> {
    let mut errors = trajectory.calls().rev().map_while(|call| call.status().error());
    let latest = errors.next()?;
    if latest.kind == FailureKind::Outage {
        return Some(Cause::only("outage"));
    }
    errors.all(|error| error.digest == latest.digest).then(|| repeated_error::cause_of(latest))
}
