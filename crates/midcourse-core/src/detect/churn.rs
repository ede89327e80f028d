//! Sees planning, talking and changes that change nothing, and no work between them.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, Rounds};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// Rounds in a row without work. A plan is made, corrected and ticked off in fewer.
const ROUNDS: u32 = 5;

/// The detector.
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
        let mut rounds = Rounds::default();
        idle().for_each(|call| {
            rounds.add(call);
        });
        let rounds = rounds.count();
        if rounds < ROUNDS {
            return Detection::Absent;
        }
        let since = idle().last().map_or(call.started_at(), ToolInvoked::started_at);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ProgressStall {
                duration: trajectory.latest_at().since(since),
                actions: u64::from(rounds),
                idle: true,
            },
            Confidence::clamped(0.75),
            Cause::new("progress_stall", Digest::of(b"idle")),
            rounds,
            idle().map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ProgressStall { actions, .. } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "The last {actions} steps planned, talked or changed nothing; no work came of them. The \
             plan is good enough to try its first open step."
        )),
        2 => Some(
            "Still only planning. If something keeps the first step from being taken, naming it is \
             worth more than another plan."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn plan_after_plan() {
        let plan = |n: u32| format!("update_plan {{\"plan\":\"version {n}\"}} -> Plan updated\n");
        check(&(0..7).map(plan).collect::<String>(), &["call 5: progress_stall of 5 calls"]);
    }

    #[test]
    fn a_plan_between_work_is_none() {
        let round = |n: u32| {
            format!(
                "TodoWrite {{\"todos\":\"{n} done\"}} -> Todos have been modified\n\
                 edit {{\"path\":\"a.rs\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n"
            )
        };
        check(&(0..10).map(round).collect::<String>(), &[]);
    }

    #[test]
    fn talking_by_shell() {
        let say =
            |n: u32| format!("bash echo thinking about step {n} -> thinking about step {n}\n");
        check(&(0..5).map(say).collect::<String>(), &["call 5: progress_stall of 5 calls"]);
    }
}
