//! The time there is, told before the agent begins: a plan made without it is the wrong plan. It
//! is told again when the host has compacted it away.
//!
//! What is left of it later is feedback's to tell; both share the deadline's cause, so it is told
//! once.

use std::time::Duration;

use super::{GuidanceContext, GuidanceInjection, GuidanceProvider};
use crate::cause::{Rung, Why};
use crate::classify::ClassificationResult;
use crate::fault::ProviderError;
use crate::feedback::{deadline_cause, length_in_words};

/// Says how much time there is, unless the agent knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimit;

impl TimeLimit {
    fn news(context: &GuidanceContext<'_>) -> Option<(String, Why)> {
        let deadline = context.session().deadline()?;
        let left = deadline.remaining(context.now());
        let cause = deadline_cause(deadline);
        let ledger = context.session().ledger();
        let rung = ledger.next_rung(&cause);
        if left.is_zero() || (rung != Rung::FIRST && !ledger.is_wiped(&cause)) {
            return None;
        }
        let text = format!("There is a deadline: {} remaining.", length_in_words(about(left)));
        let why = Why { cause, rung, evidence: context.session().deadline_evidence() };
        ledger.is_news(&why, &text).then_some((text, why))
    }
}

/// The length in whole minutes, if it is minutes: what was set a second ago is still that.
fn about(length: Duration) -> Duration {
    let seconds = length.as_secs();
    if seconds < 120 { length } else { Duration::from_secs((seconds + 30) / 60 * 60) }
}

impl GuidanceProvider for TimeLimit {
    fn name(&self) -> &str {
        "time_limit"
    }

    fn category(&self) -> &str {
        "time"
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
        Ok(GuidanceInjection::new("time.limit", text)?.about(why))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        AgentMessage, DecisionPoint, Delivery, Engine, Goals, Timestamp, TrajectoryPayload,
        TrajectoryRecord,
    };

    fn said(engine: &mut Engine, seq: u64, ms: u64, payload: TrajectoryPayload) -> Vec<String> {
        let at = Timestamp::from_unix_ms(ms);
        engine.take_in(&TrajectoryRecord::new(seq, at, payload));
        let mut texts = Vec::new();
        for piece in engine.feedback(at).said {
            texts.push(piece.render());
            engine.confirm(piece, seq, at);
        }
        for piece in engine.guidance(DecisionPoint::PreRender, at).said {
            texts.push(Delivery::from(piece.clone()).text());
            engine.confirm(piece, seq, at);
        }
        texts
    }

    fn ended(call: u64) -> TrajectoryPayload {
        TrajectoryPayload::ToolEnded {
            tool_call_id: format!("c{call}").into(),
            tool_name: "read".into(),
            result: crate::ToolResult::text(format!("text {call}")),
            is_error: false,
        }
    }

    #[test]
    fn the_time_is_told_before_the_work_and_not_again_after_the_first_call() {
        let mut engine = Engine::shipped(Goals::default());
        let hour = 3_600_000;
        let told = said(&mut engine, 0, 0, deadline_at(2 * hour));
        assert_eq!(told, ["There is a deadline: 2.0 hours remaining."]);
        let prompt = || TrajectoryPayload::MessageAppended { message: AgentMessage::user("go") };
        assert!(said(&mut engine, 1, 1_000, prompt()).is_empty());
        assert_eq!(super::about(std::time::Duration::from_millis(599_900)).as_secs(), 600);
        assert_eq!(super::about(std::time::Duration::from_millis(90_500)).as_secs(), 90);
        assert!(said(&mut engine, 2, 2_000, ended(1)).is_empty());
        let half = said(&mut engine, 3, hour + 1, ended(2));
        assert_eq!(half, ["[Feedback - Deadline]\n\nYou have 59 minutes remaining."]);
        assert!(said(&mut engine, 4, hour + 2, ended(3)).is_empty());
        let wiped = || TrajectoryPayload::ContextCompacted { trigger: None };
        let answer = AgentMessage::assistant("I stop here.");
        assert!(
            said(&mut engine, 5, hour + 3, TrajectoryPayload::MessageAppended { message: answer })
                .is_empty()
        );
        let again = said(&mut engine, 6, hour * 3 / 2, wiped());
        assert_eq!(again, ["There is a deadline: 30 minutes remaining."]);
        assert!(said(&mut engine, 7, hour * 3 / 2 + 1, wiped()).is_empty(), "the same words");
        let quarter = said(&mut engine, 8, hour * 7 / 4, ended(4));
        assert_eq!(quarter, ["[Feedback - Deadline]\n\nYou have 15 minutes remaining."]);
    }
    fn deadline_at(ms: u64) -> TrajectoryPayload {
        TrajectoryPayload::DeadlineSet { at_unix_ms: Some(Timestamp::from_unix_ms(ms)) }
    }

    #[test]
    fn what_was_told_late_is_not_told_again_after_the_next_call() {
        let mut engine = Engine::shipped(Goals::default());
        let minute = 60_000;
        // Half of the time is over when somebody first says what is to be done.
        let set_at = Timestamp::from_unix_ms(0);
        engine.take_in(&TrajectoryRecord::new(0, set_at, deadline_at(6 * minute)));
        let prompt = TrajectoryPayload::MessageAppended { message: AgentMessage::user("go") };
        let told = said(&mut engine, 1, 3 * minute, prompt);
        assert_eq!(told, ["There is a deadline: 3 minutes remaining."]);
        assert!(said(&mut engine, 2, 3 * minute + 1, ended(1)).is_empty());
        let next = said(&mut engine, 3, 5 * minute, ended(2));
        assert!(next.concat().contains("You have 60 seconds remaining."), "{next:?}");
    }

    #[test]
    fn what_was_told_after_a_compaction_is_not_told_again_after_the_next_call() {
        let mut engine = Engine::shipped(Goals::default());
        let minute = 60_000;
        said(&mut engine, 0, 0, deadline_at(120 * minute));
        let wiped = TrajectoryPayload::ContextCompacted { trigger: None };
        let told = said(&mut engine, 1, 90 * minute, wiped);
        assert_eq!(told, ["There is a deadline: 30 minutes remaining."]);
        assert!(said(&mut engine, 2, 91 * minute, ended(1)).is_empty());
        let tenth = said(&mut engine, 3, 109 * minute, ended(2));
        assert_eq!(tenth, ["[Feedback - Deadline]\n\nYou have 11 minutes remaining."]);
    }
}
