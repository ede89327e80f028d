//! Sees questions asked again that were answered before, not in a circle but all over the place:
//! the context no longer holds what the agent has read.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// The calls that are looked at: half of them asked again is far from chance.
const LATEST: usize = 18;
const REPEATED: usize = 9;

/// Asking one thing again and again is a loop; forgetting shows in several questions.
const DIFFERENT: usize = 2;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContextDegradation;

impl PatternDetector for ContextDegradation {
    fn name(&self) -> &str {
        "context_degradation"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            return Detection::Absent;
        }
        if trajectory.distinct_call_just_ended().is_none() {
            return Detection::Unchanged;
        }
        let forgotten = |call: &&ToolInvoked| {
            call.repeats()
                && !call.is_duplicate()
                && !call.is_error()
                && !call.writes()
                && !call.polls()
        };
        let latest = || trajectory.calls_since_user_message().take(LATEST).filter(forgotten);
        if latest().count() < REPEATED {
            return Detection::Absent;
        }
        let mut questions: Vec<_> = latest().map(ToolInvoked::call_digest).collect();
        let repeated = questions.len();
        questions.sort_unstable();
        questions.dedup();
        if questions.len() < DIFFERENT
            || trajectory.has_pattern(&PatternType::DoomLoop)
            || trajectory.has_pattern(&PatternType::Waiting)
        {
            return Detection::Absent;
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ContextDegradation {
                repeated: narrow(repeated),
                of: narrow(trajectory.calls_since_user_message().take(LATEST).count()),
                file: None,
            },
            Confidence::clamped(0.6),
            Cause::only("context_degradation"),
            narrow(repeated),
            latest().map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ContextDegradation { repeated, of, .. } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{repeated} of the last {of} calls asked for what an earlier call had already \
             answered. Short notes of what is known would save looking it up again."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn checking_after_each_change_is_no_forgetting() {
        let round = |n: u32| {
            format!(
                "edit {{\"path\":\"a.rs\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n\
                 bash cargo check -> Finished the check without any warning\n\
                 edit {{\"path\":\"b.rs\",\"old\":\"{n}\",\"new\":\"y{n}\"}} -> ok\n\
                 bash cargo test -> All of the tests have passed, as before\n"
            )
        };
        check(&(0..5).map(round).collect::<String>(), &[]);
    }
}
