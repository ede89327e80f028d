//! Sees work that has moved far from where the run began. Off unless asked for: many tasks are
//! meant to wander.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// Calls on files that say where the run is at home.
const HOME_CALLS: u32 = 10;

/// Calls in a row elsewhere that are a drift.
const AWAY_CALLS: u32 = 8;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drift {
    home: Vec<Digest>,
    seen: u32,
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
            // A new word may mean a new place.
            self.reset();
            return Detection::Absent;
        }
        let Some(name) = trajectory.distinct_call_just_ended().and_then(|call| call.target_name())
        else {
            return Detection::Unchanged;
        };
        let folder = name.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = Digest::of(folder.as_bytes());
        self.seen = self.seen.saturating_add(1);
        let is_home = self.home.contains(&folder);
        if self.seen <= HOME_CALLS {
            if !is_home {
                self.home.push(folder);
            }
            return Detection::Absent;
        }
        self.away = if is_home { 0 } else { self.away.saturating_add(1) };
        if self.away < AWAY_CALLS {
            return Detection::Absent;
        }
        let away = trajectory.calls().rev().filter(|call| call.target().is_some());
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Drift { calls: self.away },
            Confidence::clamped(0.55),
            Cause::only("drift"),
            self.away,
            away.take(AWAY_CALLS as usize).map(|call| call.ended_seq()),
        ))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Drift { calls } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "The last {calls} calls on files were all in places this run did not begin in. If that \
             is where the task leads, fine; if not, the original request says where to go on."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check_with;
    use crate::analysis::TrajectoryAnalysisConfig;

    #[test]
    fn away_from_home() {
        let config =
            TrajectoryAnalysisConfig { watch_drift: true, ..TrajectoryAnalysisConfig::shipped() };
        let home: String =
            (0..10).map(|n| format!("read src/f{n}.rs -> text of file number {n}\n")).collect();
        let away: String =
            (0..8).map(|n| format!("read docs/x{n}.md -> words of page number {n}\n")).collect();
        check_with(config, &format!("{home}{away}"), &["call 18: drift of 8"]);
    }
}
