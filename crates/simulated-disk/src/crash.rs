//! Crash states: the contents that a disk could have after a power cut.
//!
//! A crash point says when the power is cut: after this many entries of the log of file operations.
//! At each point there are several states: nothing unsynced survived; everything survived;
//! everything except the last unsynced write survived; and some in which chance decides for each
//! change. If two states of a point are equal, only one is returned.

use std::collections::BTreeSet;
use std::{fmt, vec};

use tempfile::TempDir;

use super::file::Survival;
use super::image::Image;
use super::log::Entry;
use super::model::Model;
use super::rng::CrashRng;

/// How many crash points to test, and how many random states at each of them.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    points: usize,
    random_states: u64,
}

impl Sample {
    /// Tests every crash point, with four random states at each.
    pub fn all() -> Self {
        Self { points: usize::MAX, random_states: 4 }
    }

    /// Tests the end of the log and all crash points just before and after a sync and just after an
    /// acknowledgement. If these are fewer than `points`, adds random ones up to that number.
    pub fn at_most(points: usize) -> Self {
        Self { points, ..Self::all() }
    }

    pub fn random_states(self, random_states: u64) -> Self {
        Self { random_states, ..self }
    }

    fn points(self, log: &[Entry], seed: u64) -> BTreeSet<usize> {
        if self.points > log.len() {
            return (0..=log.len()).collect();
        }
        let mut points = BTreeSet::from([log.len()]);
        for (at, entry) in log.iter().enumerate() {
            if entry.is_sync() {
                points.insert(at);
            }
            if entry.is_sync() || entry.is_ack() {
                points.insert(at + 1);
            }
        }
        let mut rng = CrashRng::new(seed);
        while points.len() < self.points {
            points.insert(rng.below(log.len() + 1));
        }
        points
    }
}

/// One disk that a power cut could have left.
pub struct CrashState {
    image: Image,
    acked: Vec<String>,
    description: String,
}

impl CrashState {
    /// The lines acknowledged before the power cut.
    pub fn acked(&self) -> &[String] {
        &self.acked
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The content of the disk's root, to compare states.
    pub fn content(&self) -> impl Eq + fmt::Debug + use<> {
        self.image.clone()
    }

    /// Writes the content of the disk's root to a new folder.
    pub fn materialise(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.image.write(folder.path());
        folder
    }
}

/// Describes the crash point and which changes survived, for the message of a failed test.
impl fmt::Display for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// The crash states of a log, ordered by crash point.
pub struct CrashStates {
    model: Model,
    log: vec::IntoIter<Entry>,
    /// The number of log entries that were applied to `model`.
    applied: usize,
    last: Option<Entry>,
    points: BTreeSet<usize>,
    random_states: u64,
    seed: u64,
    /// The states of the current crash point that were not returned yet.
    ready: vec::IntoIter<CrashState>,
}

impl CrashStates {
    pub(super) fn new(model: Model, log: Vec<Entry>, sample: Sample, seed: u64) -> Self {
        Self {
            model,
            applied: 0,
            last: None,
            points: sample.points(&log, seed),
            random_states: sample.random_states,
            seed,
            ready: Vec::new().into_iter(),
            log: log.into_iter(),
        }
    }

    fn advance_to(&mut self, point: usize) {
        for entry in self.log.by_ref().take(point - self.applied) {
            self.model.apply(&entry);
            self.last = Some(entry);
        }
        self.applied = point;
    }

    fn states(&self) -> Vec<CrashState> {
        let mut survivals = vec![
            ("nothing unsynced survived".to_owned(), Survival::Nothing),
            ("everything survived".to_owned(), Survival::Everything),
        ];
        if let Some(last) = self.model.last_volatile_write() {
            let description = "everything except the last unsynced write survived".to_owned();
            survivals.push((description, Survival::AllExcept(last)));
        }
        for number in 0..self.random_states {
            let point = u64::try_from(self.applied).unwrap();
            let mut seeds = CrashRng::new(self.seed ^ (point << 20) ^ number);
            let rng = CrashRng::new(seeds.next_u64());
            survivals.push((format!("random state {number}"), Survival::Random(rng)));
        }
        let acked = self.model.acked();
        let mut states: Vec<CrashState> = Vec::new();
        for (name, survival) in survivals {
            let image = self.model.after_power_cut(survival);
            if states.iter().all(|state| state.image != image) {
                let last = self.last.as_ref().map_or("nothing".to_owned(), Entry::to_string);
                let (applied, seed) = (self.applied, self.seed);
                let description =
                    format!("power cut after {applied} entries ({last}), seed {seed}: {name}");
                states.push(CrashState { image, acked: acked.clone(), description });
            }
        }
        states
    }
}

impl Iterator for CrashStates {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        loop {
            if let Some(state) = self.ready.next() {
                return Some(state);
            }
            let point = self.points.pop_first()?;
            self.advance_to(point);
            self.ready = self.states().into_iter();
        }
    }
}
