//! The built-in classifiers. Each has the specification's parameters as its default.

use std::num::NonZeroU32;

use super::Classifier;
use crate::analysis::{PatternDetail, PatternType};
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

type Classified = Result<ClassificationResult, ProviderError>;

const fn at_least_one(n: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(n - 1)
}

/// A confidence that begins at 0.7 and grows with every count above the threshold.
fn beyond(count: u64, threshold: u64) -> Confidence {
    let steps = u16::try_from(count.saturating_sub(threshold).min(10)).unwrap_or(10);
    Confidence::clamped(0.7 + 0.03 * f64::from(steps))
}

/// A cycle that was gone through often enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DoomLoopClassifier {
    /// Times a cycle has to be gone through.
    pub repetitions: NonZeroU32,
    /// The shortest cycle, in calls.
    pub shortest: NonZeroU32,
    /// The longest cycle, in calls.
    pub longest: NonZeroU32,
    /// How alike the rounds have to be.
    pub similarity: Confidence,
}

impl Default for DoomLoopClassifier {
    fn default() -> Self {
        Self {
            repetitions: at_least_one(3),
            shortest: at_least_one(2),
            longest: at_least_one(8),
            similarity: Confidence::clamped(0.8),
        }
    }
}

impl Classifier for DoomLoopClassifier {
    fn name(&self) -> &str {
        "doom_loop"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let pattern = context.trajectory().pattern(&PatternType::DoomLoop);
        let Some(pattern) = pattern else { return Ok(ClassificationResult::no()) };
        let PatternDetail::DoomLoop { cycle_length, repetitions, similarity, .. } =
            pattern.detail()
        else {
            return Ok(ClassificationResult::no());
        };
        // One call six times over is also a cycle of two, three times.
        let multiple = self.shortest.get().div_ceil(*cycle_length);
        let (length, rounds) = (cycle_length * multiple, repetitions / multiple);
        let is_loop = rounds >= self.repetitions.get()
            && length <= self.longest.get()
            && *similarity >= self.similarity;
        if !is_loop {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(pattern.confidence())
            .because(format!("{length} calls, {rounds} times"))
            .with("cycle_length", length)
            .with("repetitions", rounds))
    }
}

/// Failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorStreakClassifier {
    /// How many.
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
        Ok(ClassificationResult::maybe(beyond(errors, threshold))
            .because(format!("{errors} failures in a row"))
            .with("errors", errors))
    }
}

/// Calls without anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressStallClassifier {
    /// How many.
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
        Ok(ClassificationResult::maybe(beyond(calls, threshold))
            .because(format!("{calls} calls without progress"))
            .with("calls", calls))
    }
}

/// Many calls, against a limit that is near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HighToolCountClassifier {
    /// The limit.
    pub calls: NonZeroU32,
    /// The part of the limit from which on it applies.
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
            .because(format!("{calls} of {} calls", self.calls))
            .with("calls", calls))
    }
}

/// One tool in most of the latest calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleToolRepeatedClassifier {
    /// How many of the latest calls.
    pub calls: NonZeroU32,
    /// How many calls are looked at.
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
            .because(format!("one tool in {most} of {} calls", latest.len())))
    }
}

/// Turns in a row that read one thing each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequentialWhenParallelClassifier {
    /// How many.
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
        // Changes and waits depend on one another; looks usually do not.
        let independent = latest.all(|call| !call.writes() && !call.waits() && !call.is_error());
        if turns < self.turns.get() || !independent {
            return Ok(ClassificationResult::no());
        }
        Ok(ClassificationResult::maybe(Confidence::clamped(0.6))
            .because(format!("{turns} turns with one call each"))
            .with("turns", turns))
    }
}

/// A result so long that it crowds the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeOutputClassifier {
    /// The length from which on it applies, in bytes: for most output that is characters.
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
            .because(format!("a result of {length} bytes"))
            .with("bytes", length))
    }
}

/// Words that stand beside secrets.
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

/// Something secret in what is about to be run, was returned, or was said.
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
            "the latest answer"
        } else {
            return Ok(ClassificationResult::no());
        };
        Ok(ClassificationResult::maybe(Confidence::clamped(0.6)).because(place))
    }
}
