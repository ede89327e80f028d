//! Detectors: each looks for one kind of trouble, in one file, with its words and its tests.
//!
//! A detector sees the analysis after each record and says what it believes. It keeps little state
//! of its own, all of it saved in the checkpoint. To add a built-in one: a file, a field in
//! [`BuiltIn`], a variant in [`PatternDetail`](crate::PatternDetail) and its words in [`message_text`].

mod builder;
#[cfg(test)]
mod check;
mod churn;
mod context_degradation;
mod doom_loop;
mod drift;
mod error_cascade;
mod monologue;
mod outage;
mod progress_stall;
mod repeated_error;
mod stagnation;
mod sweep;
mod tool_avoidance;
mod waiting;
mod write_thrash;

pub(crate) use builder::Noticed;
pub use builder::TrajectoryBuilder;
pub use doom_loop::MAX_CYCLE_LEN;

use serde::{Deserialize, Serialize};

use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::fault::guard_mut;
use crate::record::TrajectoryRecord;
use crate::text::ErrorClass;

/// The most that a detector's own state may take in a checkpoint, in bytes.
pub const MAX_DETECTOR_STATE_BYTES: usize = 1024;

/// What a detector says after a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Detection {
    /// This record changes nothing.
    Unchanged,
    /// The pattern holds. Saying so again is not news, unless the cause is another.
    Present(TrajectoryPattern),
    /// The pattern does not hold, or no longer.
    Absent,
}

impl From<Option<TrajectoryPattern>> for Detection {
    fn from(pattern: Option<TrajectoryPattern>) -> Self {
        pattern.map_or(Self::Absent, Self::Present)
    }
}

/// Looks at the trajectory after each record and may believe in a pattern.
///
/// An implementation is a pure function of what it was shown: backtests call it on stored runs and
/// must get the answers it gave live. It asks no clock. If it keeps state, it saves and restores
/// it, because in a hook every call is a new process.
pub trait PatternDetector: Send + Sync {
    /// What it is called in faults and checkpoints.
    fn name(&self) -> &str;

    /// Looks at what the latest record made of the run.
    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection;

    /// Forgets everything.
    fn reset(&mut self);

    /// Its state, at most [`MAX_DETECTOR_STATE_BYTES`] bytes; a larger one is not saved, and the detector
    /// begins anew in the next process.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Goes on from a saved state.
    fn restore(&mut self, _state: &[u8]) {}
}

/// A detector's state in a checkpoint.
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

/// The built-in detectors, in the order in which they are asked.
///
/// A struct and not a list of boxes: saving it is one derive, and none can be forgotten.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BuiltIn {
    waiting: waiting::Waiting,
    outage: outage::Outage,
    doom_loop: doom_loop::DoomLoop,
    repeated_error: repeated_error::RepeatedError,
    error_cascade: error_cascade::ErrorCascade,
    stagnation: stagnation::Stagnation,
    write_thrash: write_thrash::WriteThrash,
    churn: churn::Churn,
    sweep: sweep::Sweep,
    progress_stall: progress_stall::ProgressStall,
    context_degradation: context_degradation::ContextDegradation,
    monologue: monologue::Monologue,
    tool_avoidance: tool_avoidance::ToolAvoidance,
    drift: drift::Drift,
}

impl BuiltIn {
    pub(crate) const COUNT: usize = 14;

    pub(crate) fn each(&mut self) -> [&mut dyn PatternDetector; Self::COUNT] {
        let Self {
            waiting,
            outage,
            doom_loop,
            repeated_error,
            error_cascade,
            stagnation,
            write_thrash,
            churn,
            sweep,
            progress_stall,
            context_degradation,
            monologue,
            tool_avoidance,
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
            churn,
            sweep,
            progress_stall,
            context_degradation,
            monologue,
            tool_avoidance,
            drift,
        ]
    }
}

/// Counts calls, those that one answer of the model issued together once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rounds {
    count: u32,
    turn: Option<u64>,
}

impl Rounds {
    /// Counts a call; whether it begins a round.
    pub(crate) fn add(&mut self, call: &ToolInvoked) -> bool {
        let is_new = self.turn.replace(call.turn()) != Some(call.turn());
        self.count += u32::from(is_new);
        is_new
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

/// What the latest failures in a row are about, if they are all the same error.
pub(crate) fn error_cause(trajectory: &TrajectoryAnalysis) -> Option<Cause> {
    let mut errors = trajectory.calls().rev().map_while(|call| call.status().error());
    let latest = errors.next()?;
    if latest.class == ErrorClass::Outage {
        return Some(Cause::only("outage"));
    }
    errors.all(|error| error.digest == latest.digest).then(|| repeated_error::cause_of(latest))
}

/// What to say about a pattern on a rung of its ladder; nothing when the ladder is at its end, or
/// when the pattern is no trouble.
///
/// The words name a diagnosis and something else to do. They hold no byte of tool output and do
/// not quote the repeated call, which would only keep it in mind.
pub(crate) fn message_text(pattern: &TrajectoryPattern, rung: Rung) -> Option<String> {
    let ladder = match pattern.detail() {
        PatternDetail::DoomLoop { .. } => doom_loop::message_text,
        PatternDetail::RepeatedError { .. } => repeated_error::message_text,
        PatternDetail::ProgressStall { idle: true, .. } => churn::message_text,
        PatternDetail::ProgressStall { .. } => progress_stall::message_text,
        PatternDetail::ToolAvoidance { .. } => tool_avoidance::message_text,
        PatternDetail::ContextDegradation { file: Some(_), .. } => sweep::message_text,
        PatternDetail::ContextDegradation { .. } => context_degradation::message_text,
        PatternDetail::ErrorCascade { .. } => error_cascade::message_text,
        PatternDetail::Stagnation { .. } => stagnation::message_text,
        PatternDetail::WriteThrash { .. } => write_thrash::message_text,
        PatternDetail::Outage { .. } => outage::message_text,
        PatternDetail::Monologue { .. } => monologue::message_text,
        PatternDetail::Drift { .. } => drift::message_text,
        PatternDetail::Waiting { .. } | PatternDetail::Custom { .. } => return None,
    };
    ladder(pattern.detail(), rung)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::confidence::Confidence;
    use crate::digest::Digest;
    use crate::text::{ErrorSignature, MAX_SAFE_NAME_CHARS, SafeName};

    /// The most characters of one word about trouble.
    const WORDS_MAX: usize = 300;

    /// Every pattern there are words about, with the longest names and numbers.
    fn patterns() -> Vec<PatternDetail> {
        let name = || SafeName::of(&"n".repeat(2 * MAX_SAFE_NAME_CHARS));
        let n = u32::MAX;
        let mut all = vec![
            PatternDetail::ToolAvoidance { responses: n },
            PatternDetail::ErrorCascade { failures: u64::MAX, tools: 1 },
            PatternDetail::ErrorCascade { failures: u64::MAX, tools: n },
            PatternDetail::Stagnation { tool: name(), calls: n },
            PatternDetail::WriteThrash { file: Some(name()), returns: n },
            PatternDetail::WriteThrash { file: None, returns: n },
            PatternDetail::Outage { failures: n },
            PatternDetail::Monologue { repetitions: 0 },
            PatternDetail::Monologue { repetitions: n },
            PatternDetail::Drift { calls: n },
        ];
        for cycle_length in [1, 8] {
            all.push(PatternDetail::DoomLoop {
                cycle_length,
                repetitions: n,
                cycle_actions: vec![name(); MAX_CYCLE_LEN],
                similarity: Confidence::clamped(1.0),
            });
        }
        for (duration, idle) in
            [(Duration::ZERO, false), (Duration::MAX, false), (Duration::ZERO, true)]
        {
            all.push(PatternDetail::ProgressStall { duration, actions: u64::MAX, idle });
        }
        for (repeated, file) in [(n, None), (n, Some(name())), (0, Some(name()))] {
            all.push(PatternDetail::ContextDegradation { repeated, of: n, file });
        }
        use ErrorClass::*;
        for class in [
            Permission,
            NotFound,
            UnknownTool,
            BadArguments,
            Timeout,
            Check,
            Syntax,
            Resource,
            Other,
        ] {
            let (digest, template) = (Digest::default(), Digest::default());
            let signature = ErrorSignature { digest, template, line: None, class };
            all.push(PatternDetail::RepeatedError { signature, count: n, tool: name() });
        }
        all
    }

    #[test]
    fn words_are_short_and_another_rung_has_other_words() {
        for detail in patterns() {
            let pattern = TrajectoryPattern::new(
                detail,
                Confidence::clamped(1.0),
                Cause::only("test"),
                u32::MAX,
                [],
            );
            let ladder: Vec<String> =
                (1..=4).map_while(|rung| message_text(&pattern, Rung(rung))).collect();
            assert!(!ladder.is_empty(), "nothing to say about {:?}", pattern.detail());
            for text in &ladder {
                let length = text.chars().count();
                assert!(length <= WORDS_MAX, "{length} characters: {text}");
            }
            let different: BTreeSet<&String> = ladder.iter().collect();
            assert_eq!(different.len(), ladder.len(), "{ladder:?}");
        }
    }
}
