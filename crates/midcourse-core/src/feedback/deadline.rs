//! Feedback about the time that is left until the deadline.
//!
//! By default the agent gets this feedback whenever the provider's trigger is due. For hosts that
//! keep every message in the agent's context, [`DeadlineFeedback::at_steps`] limits it to these
//! moments:
//!
//! - when the agent has had no message about the deadline yet,
//! - when a half, a quarter and a tenth of the time are left,
//! - when the time left is the warning threshold (by default two minutes) and a quarter of that,
//! - at the deadline,
//! - after the host has compacted the context, which removes the earlier messages.

use std::time::Duration;

use crate::cause::Cause;
use crate::digest::Digest;
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::time::{Deadline, InvalidSeconds, Seconds, Timestamp};
use crate::why::Why;

/// Tells the agent how much time is left.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadlineFeedback {
    warning_threshold: Duration,
    at_steps: bool,
}

impl Default for DeadlineFeedback {
    /// The feedback is a warning when two minutes or less are left.
    fn default() -> Self {
        Self { warning_threshold: Duration::from_secs(120), at_steps: false }
    }
}

impl DeadlineFeedback {
    /// The feedback is a warning when this many seconds or less are left.
    pub fn new(warning_threshold_seconds: f64) -> Result<Self, InvalidSeconds> {
        let warning_threshold = Seconds::try_from(warning_threshold_seconds)?.duration();
        Ok(Self { warning_threshold, at_steps: false })
    }

    /// Limits the feedback to certain moments, such as when half of the time is left. By default
    /// the agent gets it whenever the trigger is due.
    #[must_use]
    pub const fn at_steps(mut self) -> Self {
        self.at_steps = true;
        self
    }

    /// How many of six points in time have passed: when a half, a quarter and a tenth of the time
    /// are left, when the time left is the warning threshold and a quarter of the warning
    /// threshold, and the deadline itself.
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

/// The cause that identifies a deadline in messages about it. If the deadline is moved, it has
/// another cause, and the series of messages starts anew.
pub(crate) fn deadline_cause(deadline: Deadline) -> Cause {
    Cause::new("deadline", Digest::of(&deadline.at().unix_ms().to_le_bytes()))
}

impl FeedbackProvider for DeadlineFeedback {
    fn name(&self) -> &str {
        "Deadline"
    }

    fn is_about_run(&self) -> bool {
        true
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        let Some(deadline) = context.deadline() else { return Ok(false) };
        if !self.at_steps {
            return Ok(true);
        }
        let ledger = context.session().ledger();
        let cause = deadline_cause(deadline);
        // Messages of any provider about this deadline count, such as the deadline notice before
        // the first call.
        let Some(last) = ledger.last_delivery(&cause) else { return Ok(true) };
        Ok(ledger.is_compacted_away(&cause)
            || self.step(deadline, context.now()) > self.step(deadline, last))
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let deadline = context.deadline().ok_or("there is no deadline")?;
        let left = deadline.remaining(context.now());
        let cause = deadline_cause(deadline);
        let rung = context.session().ledger().next_rung(&cause);
        let why = Why { cause, rung, evidence: context.deadline_evidence(), subject: None };
        let feedback = if left.is_zero() {
            Feedback::new(self.name(), "You have reached the time deadline.")
                .with_suggestion("Wrap up immediately.")
                .with_severity(Severity::Warning)
        } else {
            let summary = format!("You have {} remaining.", duration_text(left));
            let feedback = Feedback::new(self.name(), summary);
            if left <= self.warning_threshold {
                feedback
                    .with_suggestion("Prioritize completing critical remaining work.")
                    .with_suggestion("Consider summarizing progress and remaining tasks.")
                    .with_severity(Severity::Warning)
            } else {
                feedback
            }
        };
        Ok(feedback.about(why))
    }
}

/// A duration in seconds below two minutes, in minutes below an hour, and else in hours.
pub(crate) fn duration_text(duration: Duration) -> String {
    match duration.as_secs() {
        // Less than a second is still some time, so it is never "0 seconds".
        0 | 1 => "1 second".to_owned(),
        seconds @ 2..120 => format!("{seconds} seconds"),
        seconds @ 120..3600 => format!("{} minutes", seconds / 60),
        _ => format!("{:.1} hours", duration.as_secs_f64() / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_in_seconds_minutes_or_hours() {
        for (seconds, text) in [
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
            assert_eq!(duration_text(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn the_number_of_passed_steps_never_decreases() {
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
