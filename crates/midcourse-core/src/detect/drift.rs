//! Detects work on files outside the folders where the run began. Off by default, because many
//! tasks need work in many folders. A user message starts the detection anew.

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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Digests of the home folders.
    home_folders: Vec<Digest>,
    calls_on_files: u32,
    /// Number of consecutive calls on files outside the home folders.
    away: u32,
}

impl PatternDetector for Drift {
    fn name(&self) -> &str {
        "drift"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if !trajectory.config().watch_drift {
            return Detection::Unchanged;
        }
        if trajectory.user_just_spoke() {
            // The user's message may have moved the work to other folders.
            self.reset();
            return Detection::Absent;
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
            PatternDetail::Drift { calls: self.away },
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

#[cfg(test)]
mod tests {
    use super::super::check::check_with;
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
}
