//! The time there is, told before the agent begins: a plan made without it is the wrong plan. It
//! is told again when the host has compacted it away.
//!
//! What is left of it later is feedback's to tell; both share the deadline's cause, so it is told
//! once.

use std::time::Duration;

use crate::cause::{Rung, Why};
use crate::fault::ProviderError;
use crate::feedback::{deadline_cause, length_in_words};
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};

/// Says how much time there is, unless the agent knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadlineNotice;

impl DeadlineNotice {
    fn news(context: &GuidanceContext<'_>) -> Option<(String, Why)> {
        let deadline = context.session().deadline()?;
        let left = deadline.remaining(context.now());
        let cause = deadline_cause(deadline);
        let ledger = context.session().ledger();
        let rung = ledger.next_rung(&cause);
        if left.is_zero() || (rung != Rung::FIRST && !ledger.is_compacted_away(&cause)) {
            return None;
        }
        let text = format!("There is a deadline: {} remaining.", length_in_words(about(left)));
        let why = Why { cause, rung, evidence: context.session().deadline_evidence() };
        ledger.is_new_text(&why, &text).then_some((text, why))
    }
}

/// The length in whole minutes, if it is minutes: what was set a second ago is still that.
fn about(length: Duration) -> Duration {
    let seconds = length.as_secs();
    if seconds < 120 { length } else { Duration::from_secs((seconds + 30) / 60 * 60) }
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
        Ok(match Self::news(context) {
            Some(_) => ClassificationResult::yes().because("there is a deadline"),
            None => ClassificationResult::no(),
        })
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (text, why) = Self::news(context).ok_or("there is no deadline to tell")?;
        Ok(GuidanceInjection::new("deadline.notice", text)?.about(why))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::about;

    #[test]
    fn minutes_are_rounded_and_seconds_are_not() {
        assert_eq!(about(Duration::from_millis(599_900)).as_secs(), 600);
        assert_eq!(about(Duration::from_millis(90_500)).as_secs(), 90);
    }
}
