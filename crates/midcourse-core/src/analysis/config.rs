//! How a run is looked at: window, thresholds and what is known about its tools.
//!
//! Every field has a type that holds only values that make sense, so nothing is checked twice.

use std::num::NonZeroU32;
use std::time::Duration;

use super::tools::ToolSettings;
use crate::confidence::Confidence;

const fn at_least_one(n: u32) -> NonZeroU32 {
    match NonZeroU32::new(n) {
        Some(n) => n,
        None => NonZeroU32::MIN,
    }
}

/// How many calls are kept: 1 to 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowSize(u8);

impl WindowSize {
    /// The most calls that can be kept: with 256 bytes each of arguments and result, and a session
    /// of 64 KiB, there is no room for more.
    pub const MAX: usize = 200;

    /// The number of calls.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<usize> for WindowSize {
    type Error = InvalidWindow;

    fn try_from(calls: usize) -> Result<Self, InvalidWindow> {
        match u8::try_from(calls) {
            Ok(size) if (1..=Self::MAX).contains(&calls) => Ok(Self(size)),
            _ => Err(InvalidWindow(calls)),
        }
    }
}

/// A number of calls that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a window of {0} calls is not possible: give a number from 1 to {max}", max = WindowSize::MAX)]
pub struct InvalidWindow(pub usize);

/// How a run is looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryAnalysisConfig {
    /// Calls that are kept.
    pub window: WindowSize,
    /// Kept calls that also keep the beginning of their arguments, and half as many that keep the
    /// beginning of their results. Nearly equal calls are found within these.
    pub excerpts: WindowSize,
    /// Repetitions that make a cycle a loop.
    pub cycle_threshold: NonZeroU32,
    /// The shortest cycle that can be a loop, 1 to 8 calls.
    pub shortest_cycle: NonZeroU32,
    /// How alike the arguments of two calls are that count as the same.
    pub similarity: Confidence,
    /// Calls within which the same error makes a pattern.
    pub error_window: NonZeroU32,
    /// Times the same error makes a pattern.
    pub error_threshold: NonZeroU32,
    /// Failures in a row that make a cascade.
    pub cascade_threshold: NonZeroU32,
    /// Calls without progress that make a stall.
    pub stall_threshold: NonZeroU32,
    /// Time without progress that makes a stall.
    pub stall_after: Duration,
    /// Different questions with one answer that make a stagnation.
    pub stagnation_threshold: NonZeroU32,
    /// The same question asked this long after its last answer is a poll, not a loop.
    pub poll_gap: Duration,
    /// A failing exit whose output is new counts as output, not as a failure.
    pub failing_exit_is_output: bool,
    /// Whether work on files outside the run's first places is a pattern.
    pub watch_drift: bool,
    /// What is known about tools.
    pub tools: ToolSettings,
}

impl Default for TrajectoryAnalysisConfig {
    /// The values of the specifications midcourse implements.
    fn default() -> Self {
        Self {
            window: WindowSize(50),
            excerpts: WindowSize(8),
            cycle_threshold: at_least_one(3),
            shortest_cycle: at_least_one(2),
            similarity: Confidence::clamped(0.8),
            error_window: at_least_one(10),
            error_threshold: at_least_one(3),
            cascade_threshold: at_least_one(3),
            stall_threshold: at_least_one(5),
            stall_after: Duration::from_secs(30 * 60),
            stagnation_threshold: at_least_one(6),
            poll_gap: Duration::from_secs(60),
            failing_exit_is_output: false,
            watch_drift: false,
            tools: ToolSettings::default(),
        }
    }
}

impl TrajectoryAnalysisConfig {
    /// The values midcourse ships: tuned to speak rarely and be right.
    pub fn shipped() -> Self {
        Self {
            // A call repeated to the letter is the most common loop there is.
            shortest_cycle: at_least_one(1),
            similarity: Confidence::clamped(0.85),
            error_window: at_least_one(12),
            cascade_threshold: at_least_one(5),
            stall_threshold: at_least_one(10),
            failing_exit_is_output: true,
            ..Self::default()
        }
    }
}
