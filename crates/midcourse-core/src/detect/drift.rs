//! Detects work that the task did not ask for: changes of many different objects although the user
//! asked to change nothing else, and work on files outside the folders where the run began. The
//! latter is off by default, because many tasks need work in many folders. A user message starts
//! the detection anew.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// The home folders are those where the run began: the folders of the files in its first
/// `HOME_CALLS` calls on files.
const HOME_CALLS: u32 = 10;

/// If this many consecutive calls are on files outside the home folders, the run has drifted.
const MIN_AWAY_CALLS: u32 = 8;

/// If the user asked to change nothing else, and this many different objects have been changed, the
/// run has drifted. A small request may need changes in a few files.
const MIN_FORBIDDEN_CHANGES: usize = 6;
const MAX_FORBIDDEN_CHANGES: usize = 12;

/// Within so many calls, the agent may still be at what the user asked for.
const MAX_CALLS_OF_A_SMALL_REQUEST: usize = 11;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Digests of the home folders.
    home_folders: Vec<Digest>,
    calls_on_files: u32,
    /// Number of consecutive calls on files outside the home folders.
    away: u32,
    /// The objects that were changed since the user asked for nothing else, each with the seq of the
    /// first change.
    changed: Vec<(Digest, u64)>,
}

impl PatternDetector for Drift {
    fn name(&self) -> &str {
        "drift"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            // The user's message may have moved the work to other folders.
            self.reset();
            return Detection::Absent;
        }
        if trajectory.user_asked_for_nothing_else() {
            return self.after_forbidden(trajectory);
        }
        if !trajectory.config().watch_drift {
            return Detection::Unchanged;
        }
        let Some(name) = trajectory.distinct_call_just_ended().and_then(|call| call.target_name())
        else {
            return Detection::Unchanged;
        };
        let folder = name.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = Digest::of(folder.as_bytes());
        self.calls_on_files = self.calls_on_files.saturating_add(1);
        let is_home = self.home_folders.contains(&folder);
        if self.calls_on_files <= HOME_CALLS {
            if !is_home {
                self.home_folders.push(folder);
            }
            return Detection::Absent;
        }
        self.away = if is_home { 0 } else { self.away.saturating_add(1) };
        if self.away < MIN_AWAY_CALLS {
            return Detection::Absent;
        }
        let calls_on_files = trajectory.calls().rev().filter(|call| call.target().is_some());
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Drift { calls: self.away, is_forbidden: false },
            Confidence::clamped(0.55),
            Cause::only("drift"),
            self.away,
            calls_on_files.take(MIN_AWAY_CALLS as usize).map(|call| call.ended_seq()),
        ))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Drift {
    /// Counts the different objects that the agent changes although the user asked for nothing else.
    fn after_forbidden(&mut self, trajectory: &TrajectoryAnalysis) -> Detection {
        let Some(call) = trajectory.distinct_call_just_ended().filter(|call| call.landed()) else {
            return Detection::Unchanged;
        };
        let named = call.subject().filter(|_| !call.is_shell()).or(call.target());
        let object = named.unwrap_or(call.exact_digest());
        if !self.changed.iter().any(|(known, _)| *known == object) {
            self.changed.push((object, call.ended_seq()));
        }
        let calls = trajectory.calls_since_user_message().count();
        if self.changed.len() < MIN_FORBIDDEN_CHANGES || calls <= MAX_CALLS_OF_A_SMALL_REQUEST {
            return Detection::Unchanged;
        }
        if self.changed.len() > MAX_FORBIDDEN_CHANGES {
            self.changed.remove(0);
        }
        let changes = u32::try_from(self.changed.len()).unwrap_or(u32::MAX);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Drift { calls: changes, is_forbidden: true },
            Confidence::clamped(0.6),
            Cause::only("drift"),
            changes,
            self.changed.iter().map(|(_, seq)| *seq),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{check, check_with};
    use crate::analysis::TrajectoryAnalysisConfig;

    #[test]
    fn eight_calls_outside_the_first_folders_are_a_drift() {
        let config =
            TrajectoryAnalysisConfig { watch_drift: true, ..TrajectoryAnalysisConfig::shipped() };
        let home: String =
            (0..10).map(|n| format!("read src/f{n}.rs -> text of file number {n}\n")).collect();
        let away: String =
            (0..8).map(|n| format!("read docs/x{n}.md -> words of page number {n}\n")).collect();
        check_with(config, &format!("{home}{away}"), &["call 18: drift of 8"]);
    }

    #[test]
    fn many_changes_are_a_drift_if_the_user_asked_for_nothing_else() {
        let edits: String = (0..12)
            .map(|n| {
                format!("edit {{\"path\":\"src/f{n}.rs\",\"old\":\"a\",\"new\":\"b\"}} -> ok\n")
            })
            .collect();
        let one = "user: fix the typo in README.md, nothing else\n";
        check(&format!("{one}{edits}"), &["call 12: drift of 12"]);
        let each = "user: add a header to each file, no other changes\n";
        check(&format!("{each}{edits}"), &[]);
        check(&format!("user: fix the types\n{edits}"), &[]);
        let again: String = (0..15)
            .map(|n| {
                format!("edit {{\"path\":\"README.md\",\"old\":\"{n}\",\"new\":\"b\"}} -> ok\n")
            })
            .collect();
        check(&format!("{one}{again}"), &[]);
        let only = "user: fix the typo in README.md. This only, the release is today\n";
        check(&format!("{only}{edits}"), &["call 12: drift of 12"]);
    }
}
