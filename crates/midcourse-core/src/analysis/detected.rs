//! The patterns that detectors report at the moment, one per detector.
//!
//! `detect::TrajectoryBuilder` is the only caller. A detector is known by its number: its place in
//! the list of all detectors of a session.

use std::sync::Arc;

use super::{TrajectoryAnalysis, TrajectoryPattern};

impl TrajectoryAnalysis {
    pub(crate) fn forget_pattern(&mut self, detector: u8) {
        self.patterns.retain(|pattern| pattern.detector != detector);
    }

    /// Keeps one belief per detector; returns it if it is news.
    pub(crate) fn believe(
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

    /// Forgets the patterns of detectors with this number or a higher one.
    pub(crate) fn forget_patterns_from(&mut self, detector: usize) {
        self.patterns.retain(|pattern| usize::from(pattern.detector) < detector);
    }

    /// The same analysis with the configuration of another, and no more calls than that allows.
    pub(crate) fn with_config_of(mut self, other: &Self) -> Self {
        self.config = Arc::clone(&other.config);
        while self.calls.len() > self.config.window.get() {
            self.calls.pop_front();
        }
        self
    }
}
