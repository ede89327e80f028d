//! Detects turns that only plan, print text or make edits without effect, with no work in between.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, TurnCounter};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// If this many turns in a row do no work, the pattern is present. An agent that makes, corrects
/// and completes a plan needs fewer turns for it.
const MIN_IDLE_TURNS: u32 = 5;
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Churn;

impl PatternDetector for Churn {
    fn name(&self) -> &str {
        "churn"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            return Detection::Absent;
        }
        let Some(call) = trajectory.call_just_ended() else { return Detection::Unchanged };
        let idle = || trajectory.calls_since_user_message().take_while(|call| call.is_idle());
        let mut turns = TurnCounter::default();
        idle().for_each(|call| {
            turns.add(call);
        });
        let turns = turns.count();
        if turns < MIN_IDLE_TURNS {
            return Detection::Absent;
        }
        let since = idle().last().map_or(call.started_at(), ToolInvoked::started_at);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Churn { duration: trajectory.latest_at().since(since), turns },
            Confidence::clamped(0.85),
            Cause::only("churn"),
            turns,
            idle().map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn five_plans_in_a_row_are_churn() {
        let plan = |n: u32| format!("update_plan {{\"plan\":\"version {n}\"}} -> Plan updated\n");
        check(&(0..7).map(plan).collect::<String>(), &["call 5: churn of 5 turns"]);
    }

    #[test]
    fn plans_between_edits_are_not_churn() {
        let round = |n: u32| {
            format!(
                "TodoWrite {{\"todos\":\"{n} done\"}} -> Todos have been modified\n\
                 edit {{\"path\":\"a.rs\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n"
            )
        };
        check(&(0..10).map(round).collect::<String>(), &[]);
    }

    #[test]
    fn printing_with_echo_is_churn() {
        let say =
            |n: u32| format!("bash echo thinking about step {n} -> thinking about step {n}\n");
        check(&(0..5).map(say).collect::<String>(), &["call 5: churn of 5 turns"]);
    }
}
