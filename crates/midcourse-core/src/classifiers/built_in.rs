//! The built-in classifiers. A classifier *applies* if it finds that the agent should get guidance
//! now. The default parameters are those that `docs/conformance.md` lists.

use std::num::NonZeroU32;

use super::Classifier;
use crate::analysis::{PatternDetail, PatternType, TrajectoryPattern};
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

type Classified = Result<ClassificationResult, ProviderError>;

const fn at_least_one(n: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(n - 1)
}

/// A confidence of 0.7 if `count` equals `threshold`; each further count adds 0.03, up to 1.
fn confidence_above(count: u64, threshold: u64) -> Confidence {
    let steps = u16::try_from(count.saturating_sub(threshold).min(10)).unwrap_or(10);
    Confidence::clamped(0.7 + 0.03 * f64::from(steps))
}

/// Applies if the agent is in a loop: it repeats a sequence of calls and gets the same results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DoomLoopClassifier {
    /// Minimum number of times that the agent has made the sequence of calls.
    pub repetitions: NonZeroU32,
    /// Minimum number of calls in the sequence.
    pub shortest_cycle: NonZeroU32,
    /// Maximum number of calls in the sequence.
    pub longest_cycle: NonZeroU32,
    /// Minimum similarity of the repetitions, from 0 to 1 (equal).
    pub similarity: Confidence,
}

impl Default for DoomLoopClassifier {
    fn default() -> Self {
        Self {
            repetitions: at_least_one(3),
            shortest_cycle: at_least_one(2),
            longest_cycle: at_least_one(8),
            similarity: Confidence::clamped(0.8),
        }
    }
}

impl DoomLoopClassifier {
    /// The loop that the agent is in, with the number of calls in its sequence and the number of
    /// repetitions; `None` if the classifier does not apply.
    pub(crate) fn find(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Option<(TrajectoryPattern, u32, u32)> {
        let config = context.trajectory().config();
        let detected = context.trajectory().pattern(&PatternType::DoomLoop);
        let found = detected.and_then(|pattern| self.measure(pattern));
        // The loop detector reports only loops that reach the configured length and number of
        // repetitions. If this classifier has a lower minimum, it searches the latest calls itself.
        let needs_less = self.repetitions < config.cycle_threshold
            || self.shortest_cycle < config.shortest_cycle;
        match (detected, found) {
            (Some(pattern), Some((length, rounds))) => Some((pattern.clone(), length, rounds)),
            _ if needs_less => {
                let pattern = context.session().cycle(self.repetitions, self.shortest_cycle)?;
                let (length, rounds) = self.measure(&pattern)?;
                Some((pattern, length, rounds))
            }
            _ => None,
        }
    }

    /// The number of calls in a loop's sequence and the number of repetitions; `None` if the loop
    /// is not within the limits of this classifier.
    fn measure(&self, pattern: &TrajectoryPattern) -> Option<(u32, u32)> {
        let PatternDetail::DoomLoop { cycle_length, repetitions, similarity, .. } =
            pattern.detail()
        else {
            return None;
        };
        // A sequence shorter than `shortest_cycle` is counted as a longer one with fewer
        // repetitions: one call made six times is also a sequence of two calls made three times.
        let multiple = self.shortest_cycle.get().div_ceil(*cycle_length);
        let (length, rounds) = (cycle_length * multiple, repetitions / multiple);
        let is_loop = rounds >= self.repetitions.get()
            && length <= self.longest_cycle.get()
            && *similarity >= self.similarity;
        is_loop.then_some((length, rounds))
    }
}

impl Classifier for DoomLoopClassifier {
    fn name(&self) -> &str {
        "doom_loop"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let Some((pattern, length, rounds)) = self.find(context) else {
            return Ok(ClassificationResult::no());
        };
        Ok(ClassificationResult::maybe(pattern.confidence())
            .with_reason(format!("{length} calls, {rounds} times"))
            .with_metadata("cycle_length", length)
            .with_metadata("repetitions", rounds))
    }
}

/// Applies if the latest tool calls failed one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorStreakClassifier {
    /// Minimum number of consecutive failures.
    pub errors: NonZeroU32,
}

impl Default for ErrorStreakClassifier {
    fn default() -> Self {
        Self { errors: at_least_one(3) }
    }
}

impl Classifier for ErrorStreakClassifier {
    fn name(&self) -> &str {
        "error_streak"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let (errors, threshold) =
            (context.trajectory().consecutive_failures(), u64::from(self.errors.get()));
        if errors < threshold {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(confidence_above(errors, threshold))
            .with_reason(format!("{errors} failures in a row"))
            .with_metadata("errors", errors))
    }
}

/// Applies if the latest tool calls made no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressStallClassifier {
    /// Minimum number of consecutive calls without progress.
    pub calls: NonZeroU32,
}

impl Default for ProgressStallClassifier {
    fn default() -> Self {
        Self { calls: at_least_one(5) }
    }
}

impl Classifier for ProgressStallClassifier {
    fn name(&self) -> &str {
        "progress_stall"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let (calls, threshold) =
            (context.trajectory().calls_since_progress(), u64::from(self.calls.get()));
        if calls < threshold {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(confidence_above(calls, threshold))
            .with_reason(format!("{calls} calls without progress"))
            .with_metadata("calls", calls))
    }
}

/// Applies if the number of tool calls in the run is near a limit or above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HighToolCountClassifier {
    /// The limit: a number of tool calls in one run.
    pub calls: NonZeroU32,
    /// The fraction of the limit, from 0 to 1, that the run must have reached.
    pub warn_at: Confidence,
}

impl Default for HighToolCountClassifier {
    fn default() -> Self {
        Self { calls: at_least_one(50), warn_at: Confidence::clamped(0.8) }
    }
}

impl Classifier for HighToolCountClassifier {
    fn name(&self) -> &str {
        "high_tool_count"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let calls = context.tool_call_count();
        let part = calls as f64 / self.calls.get() as f64;
        if part < self.warn_at.value() {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(Confidence::clamped(part))
            .with_reason(format!("{calls} of {} calls", self.calls))
            .with_metadata("calls", calls))
    }
}

/// Applies if most of the latest calls use the same tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleToolRepeatedClassifier {
    /// How many of the examined calls must use the same tool.
    pub calls: NonZeroU32,
    /// How many of the latest calls are examined. With fewer calls in the run, the classifier does
    /// not apply.
    pub of: NonZeroU32,
}

impl Default for SingleToolRepeatedClassifier {
    fn default() -> Self {
        Self { calls: at_least_one(4), of: at_least_one(5) }
    }
}

impl Classifier for SingleToolRepeatedClassifier {
    fn name(&self) -> &str {
        "single_tool_repeated"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let latest: Vec<&str> = context
            .trajectory()
            .recent_tool_calls(self.of.get() as usize)
            .map(|call| call.tool())
            .collect();
        let most = latest
            .iter()
            .map(|tool| latest.iter().filter(|other| *other == tool).count())
            .max()
            .unwrap_or(0);
        if most < self.calls.get() as usize || latest.len() < self.of.get() as usize {
            return Ok(ClassificationResult::no());
        }
        let part = most as f64 / latest.len() as f64;
        Ok(ClassificationResult::maybe(Confidence::clamped(part))
            .with_reason(format!("one tool in {most} of {} calls", latest.len())))
    }
}

/// Applies if each of the latest turns had a single call that only reads: the model could have made
/// these calls together in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequentialWhenParallelClassifier {
    /// Minimum number of consecutive turns with a single call.
    pub turns: NonZeroU32,
}

impl Default for SequentialWhenParallelClassifier {
    fn default() -> Self {
        Self { turns: at_least_one(3) }
    }
}

impl Classifier for SequentialWhenParallelClassifier {
    fn name(&self) -> &str {
        "sequential_when_parallel"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let trajectory = context.trajectory();
        let turns = trajectory.single_call_turns();
        let mut latest = trajectory.recent_tool_calls(self.turns.get() as usize);
        // The next call may depend on a call that changed something, waited or failed. It usually
        // does not depend on a call that only read something.
        let independent = latest.all(|call| !call.writes() && !call.waits() && !call.is_error());
        if turns < self.turns.get() || !independent {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(Confidence::clamped(0.6))
            .with_reason(format!("{turns} turns with one call each"))
            .with_metadata("turns", turns))
    }
}

/// Applies if the result of the latest call is long and takes up much of the agent's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeOutputClassifier {
    /// Minimum length of the result, in bytes. In ASCII text this is the number of characters.
    pub chars: NonZeroU32,
}

impl Default for LargeOutputClassifier {
    fn default() -> Self {
        Self { chars: at_least_one(10_000) }
    }
}

impl Classifier for LargeOutputClassifier {
    fn name(&self) -> &str {
        "large_output"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let latest = context.trajectory().latest_call();
        let length = latest.map_or(0, |call| call.result_bytes());
        if length < u64::from(self.chars.get()) {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(Confidence::clamped(0.8))
            .with_reason(format!("a result of {length} bytes"))
            .with_metadata("bytes", length))
    }
}

/// Words that usually occur next to a secret, in lower case.
const SENSITIVE_WORDS: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "api_key",
    "apikey",
    "private key",
    "access_token",
    "authorization:",
];

/// Applies if a running call, the latest result or the latest model response seems to contain a
/// secret such as a password. Only the kept excerpts of these texts are examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SensitiveContentClassifier;

impl Classifier for SensitiveContentClassifier {
    fn name(&self) -> &str {
        "sensitive_content"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let is_sensitive = |text: &str| {
            let text = text.to_ascii_lowercase();
            SENSITIVE_WORDS.iter().any(|word| text.contains(word))
        };
        let latest = context.trajectory().latest_call();
        let place = if context.pending_tool_calls().any(|call| is_sensitive(call.args_excerpt)) {
            "a pending call"
        } else if latest.is_some_and(|call| is_sensitive(call.result_excerpt())) {
            "the latest result"
        } else if context.last_response().is_some_and(is_sensitive) {
            "the latest response"
        } else {
            return Ok(ClassificationResult::no());
        };
        Ok(ClassificationResult::maybe(Confidence::clamped(0.6)).with_reason(place))
    }
}
