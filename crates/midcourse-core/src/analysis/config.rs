//! The configuration of the analysis: window sizes, thresholds and what is known about tools.
//!
//! Every field has a type that allows only valid values, so code that reads a field need not check
//! it.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use compact_str::CompactString;

use super::tools::ToolSettings;
use crate::confidence::Confidence;

const fn at_least_one(n: u32) -> NonZeroU32 {
    match NonZeroU32::new(n) {
        Some(n) => n,
        None => NonZeroU32::MIN,
    }
}

/// A number of latest calls, from 1 to 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowSize(u8);

impl WindowSize {
    /// The largest window, in calls. The limit keeps the saved session small, because the session
    /// contains every call in the window.
    pub const MAX: usize = 200;

    /// The number of calls, from 1 to 200.
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

/// The error for a window size of 0 or more than 200 calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid window of {0} calls; use 1 to {max}", max = WindowSize::MAX)]
pub struct InvalidWindow(pub usize);

/// The limits and thresholds with which a run is analysed.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryAnalysisConfig {
    /// How many of the latest calls are kept. Detectors do not see older calls.
    pub window: WindowSize,
    /// How many of the latest calls keep an excerpt of their arguments; half as many keep an
    /// excerpt of their result. Only calls with an excerpt can be recognized as nearly equal.
    pub excerpts: WindowSize,
    /// How often the agent must make the same sequence of calls (a cycle) until it counts as a
    /// loop.
    pub cycle_threshold: NonZeroU32,
    /// Length of the shortest cycle that can be a loop, 1 to 8 calls.
    pub shortest_cycle: NonZeroU32,
    /// If the arguments of two calls are at least this similar, the calls count as the same.
    pub similarity: Confidence,
    /// How many of the latest calls are searched for occurrences of one error.
    pub error_window: NonZeroU32,
    /// Number of occurrences within the error window that make an error a repeated error.
    pub error_threshold: NonZeroU32,
    /// Number of consecutive failures that make an error cascade, if no other detector reports them
    /// as a repeated error, loop or outage. Failures in one turn count once.
    pub cascade_threshold: NonZeroU32,
    /// Number of calls without progress that make a stall.
    pub stall_threshold: NonZeroU32,
    /// Time without progress that makes a stall, if the agent made at least three calls in it.
    pub stall_after: Duration,
    /// Number of different calls with the same result that make a stagnation.
    pub stagnation_threshold: NonZeroU32,
    /// If a call is repeated after a pause of at least this length, it is a poll. Polls do not
    /// count towards a loop.
    pub poll_gap: Duration,
    /// If `true`, a shell command that fails with a new error does not count towards consecutive
    /// failures and error cascades: an agent that works on failing tests gets such errors all the
    /// time.
    pub failing_exit_is_output: bool,
    /// Whether `drift` is detected: work on files outside the folders where the run began. Off by
    /// default.
    pub watch_drift: bool,
    /// The user's settings for single tools, such as whether a tool writes.
    pub tools: ToolSettings,
    /// Names of patterns about which the agent gets no messages. They are still detected, so that a
    /// more general pattern does not report the same trouble in their place.
    pub muted: BTreeSet<CompactString>,
}

impl Default for TrajectoryAnalysisConfig {
    /// The values that `docs/conformance.md` lists. The command uses [`Self::shipped`] instead.
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
            muted: BTreeSet::new(),
        }
    }
}

impl TrajectoryAnalysisConfig {
    /// The values that the `midcourse` command uses unless its configuration file sets others. They
    /// lead to fewer and more accurate messages than the default values.
    pub fn shipped() -> Self {
        Self {
            // The most common loop is a single call, repeated exactly.
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
