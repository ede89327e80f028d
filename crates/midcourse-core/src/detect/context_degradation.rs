//! Detects calls that ask again for what earlier calls returned, in no particular order: the agent
//! has lost track of what it has read. If the agent repeats the calls in the same order, that is a
//! `doom_loop`, which another detector reports.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// The number of latest calls that are examined. If at least `MIN_REPEATED_CALLS` of them repeat an
/// earlier call, the pattern is present. It is normal to read a few things twice, but not that half
/// of the calls are repeats.
const EXAMINED_CALLS: usize = 18;
const MIN_REPEATED_CALLS: usize = 9;

/// At least this many different calls must be repeated. If the agent repeats a single call, that is
/// a loop, which another detector reports.
const MIN_DIFFERENT_CALLS: usize = 2;
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
        let repeats_a_read = |call: &&ToolInvoked| {
            call.repeats()
                && !call.is_duplicate()
                && !call.is_error()
                && !call.writes()
                && !call.polls()
        };
        let examined = || trajectory.calls_since_user_message().take(EXAMINED_CALLS);
        let repeats = || examined().filter(repeats_a_read);
        if repeats().count() < MIN_REPEATED_CALLS {
            return Detection::Absent;
        }
        let mut different: Vec<_> = repeats().map(ToolInvoked::call_digest).collect();
        let repeated = different.len();
        different.sort_unstable();
        different.dedup();
        if different.len() < MIN_DIFFERENT_CALLS
            || trajectory.has_pattern(&PatternType::DoomLoop)
            || trajectory.has_pattern(&PatternType::Waiting)
        {
            return Detection::Absent;
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ContextDegradation {
                repeated: narrow(repeated),
                of: narrow(examined().count()),
            },
            Confidence::clamped(0.6),
            Cause::only("context_degradation"),
            narrow(repeated),
            repeats().map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ContextDegradation { repeated, of } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{repeated} of your last {of} calls asked for something that an earlier call had \
             already returned. Keep short notes of what you know, so that you need not look it up \
             again."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn running_the_same_checks_after_each_edit_is_not_degradation() {
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

    #[test]
    fn the_same_build_after_each_step_of_a_bisection_is_not_degradation() {
        let step = |n: u32| {
            format!(
                "bash git bisect good -> Bisecting: {} revisions left to test after this\n\
                 bash cmake --build build -> [100%] Built target plot\n\
                 bash pytest -q tests/test_legend.py -> 1 passed in 3.1s\n",
                640 >> n
            )
        };
        check(&(0..9).map(step).collect::<String>(), &[]);
    }
}
