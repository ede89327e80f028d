//! The time that is left.
//!
//! By itself it speaks at its trigger's cadence. Where every word stays in the context for good,
//! [`DeadlineFeedback::at_steps`] speaks only when the situation has changed: at the start, at
//! half, a quarter and a tenth of the time, below the warning threshold, when time is up, and
//! once the host has compacted away what was said, if there is another time to tell by then.

use std::time::Duration;

use crate::cause::{Cause, Why};
use crate::digest::Digest;
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::time::{Deadline, InvalidSeconds, Seconds, Timestamp};

/// Says how much time is left.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadlineFeedback {
    warning_threshold: Duration,
    at_steps: bool,
}

impl Default for DeadlineFeedback {
    /// Warns from two minutes on.
    fn default() -> Self {
        Self { warning_threshold: Duration::from_secs(120), at_steps: false }
    }
}

impl DeadlineFeedback {
    /// Warns when this many seconds are left.
    pub fn new(warning_threshold_seconds: f64) -> Result<Self, InvalidSeconds> {
        let warning_threshold = Seconds::try_from(warning_threshold_seconds)?.duration();
        Ok(Self { warning_threshold, at_steps: false })
    }

    /// The same, speaking only when the situation has changed.
    #[must_use]
    pub const fn at_steps(mut self) -> Self {
        self.at_steps = true;
        self
    }

    /// How far the time has run down, as the number of steps passed.
    fn step(&self, deadline: Deadline, now: Timestamp) -> u8 {
        let left = deadline.remaining(now);
        let part = |of: u32| left <= deadline.total() / of;
        let passed = [
            part(2),
            part(4),
            part(10),
            left <= self.warning_threshold,
            left <= self.warning_threshold / 4,
            left.is_zero(),
        ];
        passed.into_iter().map(u8::from).sum()
    }
}

/// Another moment is another deadline.
pub(crate) fn deadline_cause(deadline: Deadline) -> Cause {
    Cause::new("deadline", Digest::of(&deadline.at().unix_ms().to_le_bytes()))
}

impl FeedbackProvider for DeadlineFeedback {
    fn name(&self) -> &str {
        "Deadline"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        let Some(deadline) = context.deadline() else { return Ok(false) };
        if !self.at_steps {
            return Ok(true);
        }
        let ledger = context.session().ledger();
        let cause = deadline_cause(deadline);
        // Whoever told it: before the first call that is somebody else.
        let Some(last) = ledger.last_delivery(&cause) else { return Ok(true) };
        Ok(ledger.is_compacted_away(&cause)
            || self.step(deadline, context.now()) > self.step(deadline, last))
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let deadline = context.deadline().ok_or("there is no deadline")?;
        let left = deadline.remaining(context.now());
        let cause = deadline_cause(deadline);
        let rung = context.session().ledger().next_rung(&cause);
        let why = Why { cause, rung, evidence: context.session().deadline_evidence() };
        let feedback = if left.is_zero() {
            Feedback::new(self.name(), "You have reached the time deadline.")?
                .suggest("Wrap up immediately.")?
                .severity(Severity::Warning)
        } else {
            let summary = format!("You have {} remaining.", length_in_words(left));
            let feedback = Feedback::new(self.name(), summary)?;
            if left <= self.warning_threshold {
                feedback
                    .suggest("Prioritize completing critical remaining work.")?
                    .suggest("Consider summarizing progress and remaining tasks.")?
                    .severity(Severity::Warning)
            } else {
                feedback
            }
        };
        Ok(feedback.about(why))
    }
}

/// Under two minutes in seconds, under an hour in minutes, then in hours.
pub(crate) fn length_in_words(length: Duration) -> String {
    match length.as_secs() {
        // What is left is more than nothing, so never "0 seconds".
        0 | 1 => "1 second".to_owned(),
        seconds @ 2..120 => format!("{seconds} seconds"),
        seconds @ 120..3600 => format!("{} minutes", seconds / 60),
        _ => format!("{:.1} hours", length.as_secs_f64() / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_in_words() {
        for (seconds, words) in [
            (0.4, "1 second"),
            (1.0, "1 second"),
            (2.0, "2 seconds"),
            (59.9, "59 seconds"),
            (60.0, "60 seconds"),
            (90.0, "90 seconds"),
            (119.9, "119 seconds"),
            (120.0, "2 minutes"),
            (480.0, "8 minutes"),
            (3599.0, "59 minutes"),
            (3600.0, "1.0 hours"),
            (5400.0, "1.5 hours"),
        ] {
            assert_eq!(length_in_words(Duration::from_secs_f64(seconds)), words, "{seconds}");
        }
    }

    #[test]
    fn steps_only_go_up() {
        let deadline =
            Deadline::new(Timestamp::from_unix_ms(7_200_000), Timestamp::from_unix_ms(0));
        let provider = DeadlineFeedback::default().at_steps();
        let steps: Vec<u8> = (0..=7_200)
            .map(|s| provider.step(deadline, Timestamp::from_unix_ms(s * 1_000)))
            .collect();
        assert!(steps.is_sorted());
        assert_eq!((steps.first(), steps.last()), (Some(&0), Some(&6)));
    }
}
