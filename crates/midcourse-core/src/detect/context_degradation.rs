//! Detects calls that ask again for what earlier calls returned, in no particular order: the agent
//! has lost track of what it has read. If the agent repeats a few calls in the same order, another
//! detector reports a `doom_loop`. If the agent repeats many calls of an earlier part of the run in
//! the same order, it has started over, and this detector reports that, too.

mod redo;

use serde::{Deserialize, Serialize};

use redo::Redo;

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// The number of latest calls that are examined. If at least `MIN_REPEATED_CALLS` of them repeat an
/// earlier call, the pattern is present. It is normal to read a few things twice, but not that half
/// of the calls are repeats.
const EXAMINED_CALLS: usize = 18;
const MIN_REPEATED_CALLS: usize = 9;

/// If this many different calls in a row repeat calls that were made since the agent's context was
/// compacted, or that were made twice before, the pattern is present, too: the agent reads the same
/// a third time.
const MIN_REPEATED_CALLS_IN_A_ROW: usize = 6;

/// At least this many different calls must be repeated. If the agent repeats a single call, that is
/// a loop, which another detector reports.
const MIN_DIFFERENT_CALLS: usize = 2;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContextDegradation {
    redo: Redo,
}

impl PatternDetector for ContextDegradation {
    fn name(&self) -> &str {
        "context_degradation"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        let redone = self.redo.add(trajectory, call);
        let is_expected = trajectory.user_asked_to_repeat() || has_other_pattern(trajectory);
        if let Some(redone) = redone.filter(|_| !is_expected) {
            let repeated = u32::try_from(redone.len()).unwrap_or(u32::MAX);
            return pattern(repeated, repeated, redone).into();
        }
        let repeats_a_read = |call: &&ToolInvoked| {
            call.repeats()
                && !call.is_duplicate()
                && !call.is_error()
                && !call.writes()
                && !call.polls()
        };
        let in_a_row = trajectory.calls_since_user_message().take_while(repeats_a_read).count();
        let is_in_a_row = in_a_row >= MIN_REPEATED_CALLS_IN_A_ROW
            && (trajectory.compaction_count() > 0 || is_third_time(trajectory));
        let count = if is_in_a_row { in_a_row } else { EXAMINED_CALLS };
        let examined = || trajectory.calls_since_user_message().take(count);
        let repeats = || examined().filter(repeats_a_read);
        if is_expected || !(is_in_a_row || repeats().count() >= MIN_REPEATED_CALLS) {
            return Detection::Absent;
        }
        let mut different: Vec<_> = repeats().map(ToolInvoked::call_digest).collect();
        let repeated = different.len();
        different.sort_unstable();
        different.dedup();
        let min_different =
            if is_in_a_row { MIN_REPEATED_CALLS_IN_A_ROW } else { MIN_DIFFERENT_CALLS };
        if different.len() < min_different {
            return Detection::Absent;
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let evidence = repeats().map(ToolInvoked::ended_seq);
        pattern(narrow(repeated), narrow(examined().count()), evidence).into()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Whether each of the latest calls was made twice before.
fn is_third_time(trajectory: &TrajectoryAnalysis) -> bool {
    let mut latest = trajectory.calls_since_user_message().take(MIN_REPEATED_CALLS_IN_A_ROW);
    latest.all(|call| {
        let is_same = |old: &&ToolInvoked| {
            old.call_digest() == call.call_digest() && old.ended_seq() < call.ended_seq()
        };
        trajectory.calls_since_user_message().filter(is_same).nth(1).is_some()
    })
}

/// Whether another pattern explains the repetition: a loop, which describes it better, or waiting,
/// which is normal.
fn has_other_pattern(trajectory: &TrajectoryAnalysis) -> bool {
    trajectory.has_pattern(&PatternType::DoomLoop) || trajectory.has_pattern(&PatternType::Waiting)
}

fn pattern(
    repeated: u32,
    of: u32,
    evidence: impl IntoIterator<Item = u64>,
) -> Option<TrajectoryPattern> {
    Some(TrajectoryPattern::new(
        PatternDetail::ContextDegradation { repeated, of },
        Confidence::clamped(0.85),
        Cause::only("context_degradation"),
        repeated,
        evidence,
    ))
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

    fn audit(hosts: std::ops::Range<u32>) -> String {
        hosts
            .map(|n| {
                format!(
                    "bash ssh app-{n} uname -r -> 6.1.0-{n}-amd64\n\
                     bash ssh app-{n} 'ss -Hltn' -> {n} ports are open on this host\n\
                     append {{\"path\":\"audit.md\",\"text\":\"| app-{n} |\"}} -> ok\n"
                )
            })
            .collect()
    }

    #[test]
    fn starting_over_after_many_calls_is_degradation() {
        let again = format!("{}{}", audit(1..20), audit(1..4));
        check(&again, &["call 63: context_degradation of 6 in 6"]);
        check(&audit(1..25), &[]);
    }

    #[test]
    fn starting_over_because_the_user_asks_for_it_is_not_degradation() {
        check(&format!("{}user: again, please\n{}", audit(1..20), audit(1..4)), &[]);
    }

    #[test]
    fn reading_everything_again_after_a_compaction_is_normal_once() {
        let reads: String =
            (0..6).map(|n| format!("read src/f{n}.rs -> text of file number {n}\n")).collect();
        let summary = "user: This session is being continued from a previous conversation that ran \
                       out of context. Summary: five files are moved.\n";
        check(&format!("{reads}{summary}{reads}"), &[]);
        check(
            &format!("{reads}{summary}{reads}bash ls -> src and docs\n{reads}"),
            &["call 19: context_degradation of 6 in 6"],
        );
    }

    #[test]
    fn switching_as_often_as_the_user_asked_for_is_not_degradation() {
        let switch =
            "service {\"name\":\"lamp.on\"} -> on\nservice {\"name\":\"lamp.off\"} -> off\n";
        check(&format!("user: switch it on and off eight times\n{}", switch.repeat(8)), &[]);
    }

    #[test]
    fn reading_the_same_a_third_time_in_a_row_is_a_sign_of_it() {
        let files = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let read = |name: &&str| format!("read {name}.rs -> the text of the file {name}\n");
        let round: String = files.iter().map(read).collect();
        let edit = "edit {\"path\":\"z.rs\",\"old\":\"1\",\"new\":\"2\"} -> ok\n";
        let again: String = files.iter().rev().take(6).map(read).collect();
        let run = format!("{round}{edit}{again}{again}");
        check(
            &run,
            &["call 21: progress_stall of 10 calls", "call 23: context_degradation of 6 in 6"],
        );
    }
}
