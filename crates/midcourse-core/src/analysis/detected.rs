//! The patterns that detectors currently report, one per detector.
//!
//! `detect::TrajectoryBuilder` is the only caller. A detector is identified by its number: its
//! index in the list of all detectors of a session.

use std::sync::Arc;

use super::{TrajectoryAnalysis, TrajectoryPattern};

impl TrajectoryAnalysis {
    pub(crate) fn remove_pattern(&mut self, detector: u8) {
        self.patterns.retain(|pattern| pattern.detector != detector);
    }

    /// Stores the pattern that a detector reports, in place of the pattern that it reported before.
    /// Returns the pattern if it is new: the detector reported none before, or one about another
    /// problem (with another cause).
    pub(crate) fn set_pattern(
        &mut self,
        detector: u8,
        mut new: TrajectoryPattern,
    ) -> Option<TrajectoryPattern> {
        new.detector = detector;
        new.first_seen = self.latest_at;
        new.first_seq = self.latest_seq;
        let Some(held) = self.patterns.iter_mut().find(|held| held.detector == detector) else {
            self.patterns.push(new.clone());
            return Some(new);
        };
        let same = held.cause() == new.cause();
        if same {
            new.first_seen = held.first_seen;
            new.first_seq = held.first_seq;
        }
        *held = new;
        (!same).then(|| held.clone())
    }

    /// Removes the patterns reported by detectors whose number is `detector` or higher, because
    /// after a restore these numbers may belong to other detectors.
    pub(crate) fn remove_patterns_from(&mut self, detector: usize) {
        self.patterns.retain(|pattern| usize::from(pattern.detector) < detector);
    }

    /// Replaces the configuration by that of another analysis. A restored analysis needs this,
    /// because the configuration is not saved. If the new configuration keeps fewer calls, the
    /// oldest calls are dropped.
    pub(crate) fn with_config_of(mut self, other: &Self) -> Self {
        self.config = Arc::clone(&other.config);
        while self.calls.len() > self.config.window.get() {
            self.calls.pop_front();
        }
        self
    }
}
