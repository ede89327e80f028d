//! Guidance that tells the agent its deadline before it starts, so that it can plan its work. If
//! the host compacts the agent's context, which removes the notice, the agent gets it again.
//!
//! Later the agent gets feedback about the remaining time from `DeadlineFeedback`. The messages of
//! both have the same cause, so each knows what the other has already told the agent.

use std::time::Duration;

use crate::cause::Rung;
use crate::fault::ProviderError;
use crate::feedback::{deadline_cause, duration_text};
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::why::Why;

/// Tells the agent how much time is left until its deadline, unless its context still has an
/// earlier message about the deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadlineNotice;

impl DeadlineNotice {
    /// The text of the notice and the reason for it. `None` if there is no deadline, if the
    /// deadline has passed, if the agent's context still has a message about it, or if the agent
    /// got the same text before.
    fn notice(context: &GuidanceContext<'_>) -> Option<(String, Why)> {
        let deadline = context.session().deadline()?;
        let left = deadline.remaining(context.now());
        let cause = deadline_cause(deadline);
        let ledger = context.session().ledger();
        let rung = ledger.next_rung(&cause);
        if left.is_zero() || (rung != Rung::FIRST && !ledger.is_compacted_away(&cause)) {
            return None;
        }
        let left = duration_text(to_whole_minutes(left));
        let text = format!("There is a deadline: {left} remaining.");
        let why =
            Why { cause, rung, evidence: context.session().deadline_evidence(), subject: None };
        ledger.is_new_text(&why, &text).then_some((text, why))
    }
}

/// Rounds a duration of two minutes or more to whole minutes, so that a deadline of ten minutes is
/// not reported as nine because a second has passed since it was set.
fn to_whole_minutes(duration: Duration) -> Duration {
    let seconds = duration.as_secs();
    if seconds < 120 { duration } else { Duration::from_secs((seconds + 30) / 60 * 60) }
}

impl GuidanceProvider for DeadlineNotice {
    fn name(&self) -> &str {
        "deadline_notice"
    }

    fn category(&self) -> &str {
        "deadline"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        Ok(match Self::notice(context) {
            Some(_) => ClassificationResult::yes().with_reason("there is a deadline"),
            None => ClassificationResult::no(),
        })
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (text, why) = Self::notice(context).ok_or("there is no deadline to report")?;
        Ok(GuidanceInjection::new("deadline.notice", text)?.about(why))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::to_whole_minutes;

    #[test]
    fn minutes_are_rounded_and_seconds_are_not() {
        assert_eq!(to_whole_minutes(Duration::from_millis(599_900)).as_secs(), 600);
        assert_eq!(to_whole_minutes(Duration::from_millis(90_500)).as_secs(), 90);
    }
}
