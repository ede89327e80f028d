//! What is known of events that could not be kept at all.
//!
//! A process that lives for one event cannot remember that it lost it, and on a full disk it cannot
//! make a file to say so. So a small file of fixed size is made with the store, and counts are
//! written over what is there, which needs no room. The next process that gets an event of that run
//! into the store writes the gap marker first. This is the last resort, and does what it can.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use midcourse_core::{GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};

use crate::clock::now;
use crate::event::{Event, Source};
use crate::home::Home;

const SLOTS: usize = 128;
const SLOT: usize = 32;
const LENGTH: u64 = 128 * 32;

/// A run that lost events: a hash of its id, since when, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    run: u64,
    since: u64,
    lost: u64,
}

const EMPTY: Slot = Slot { run: 0, since: 0, lost: 0 };

/// The events that a run lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    slot: Slot,
}

impl Lost {
    /// Makes the file, at its full length, if it is not there or was not finished.
    pub(super) fn make(home: &Home) -> io::Result<()> {
        let path = home.lost_file();
        if path.metadata().is_ok_and(|found| found.len() == LENGTH) {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.lock()?;
        if file.metadata()?.len() != LENGTH {
            file.set_len(0)?;
            file.write_all(&[0; SLOTS * SLOT])?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// Notes that an event of this run is lost. Where all slots are taken, the oldest gives way:
    /// its run has had no event since.
    pub(super) fn note(home: &Home, run_id: &RunId) -> io::Result<()> {
        Self::make(home)?;
        let (mut file, slots) = open(&home.lost_file(), true)?;
        let run = hash(run_id);
        let known = slots.iter().position(|slot| slot.lost > 0 && slot.run == run);
        let oldest = || (0..).zip(&slots).min_by_key(|(_, slot)| (slot.lost > 0, slot.since));
        let place = known.or_else(|| oldest().map(|(place, _)| place)).unwrap_or_default();
        let mut slot = Slot { run, since: now().unix_ms(), lost: 1 };
        if let Some(known) = known.and_then(|place| slots.get(place)) {
            slot = Slot { lost: known.lost.saturating_add(1), ..*known };
        }
        write(&mut file, place, &slot)
    }

    /// How many runs lost events that are not on record yet, and how many events.
    pub(super) fn outstanding(home: &Home) -> (usize, u64) {
        let Ok((_, slots)) = open(&home.lost_file(), false) else { return (0, 0) };
        let lost: Vec<u64> = slots.iter().map(|slot| slot.lost).filter(|lost| *lost > 0).collect();
        (lost.len(), lost.iter().sum())
    }

    /// What this run lost, if it is known.
    pub(super) fn of(home: &Home, run_id: &RunId) -> Option<Self> {
        let (_, slots) = open(&home.lost_file(), false).ok()?;
        let run = hash(run_id);
        let slot = slots.into_iter().find(|slot| slot.lost > 0 && slot.run == run)?;
        Some(Self { slot })
    }

    /// The marker for it. It is one fact, however often it is recorded.
    pub(super) fn marker(&self, run: &RunIdentity, at: Timestamp) -> Event {
        let gap = TrajectoryPayload::Gap { lost: self.slot.lost, reason: GapReason::Io };
        Event::new(run.clone(), Source::new("midcourse", "store"), at, gap)
            .with_fact(format!("lost:{}:{}", self.slot.since, self.slot.lost))
    }

    /// Forgets it, once the marker is on record; what was lost since stays.
    pub(super) fn forget(&self, home: &Home) -> io::Result<()> {
        let (mut file, slots) = open(&home.lost_file(), true)?;
        let is_it = |slot: &Slot| slot.run == self.slot.run && slot.since == self.slot.since;
        let Some((place, found)) = (0..).zip(&slots).find(|(_, slot)| is_it(slot)) else {
            return Ok(());
        };
        let lost = found.lost.saturating_sub(self.slot.lost);
        let left = match lost {
            0 => EMPTY,
            _ => Slot { since: now().unix_ms(), lost, ..*found },
        };
        write(&mut file, place, &left)
    }
}

fn hash(run_id: &RunId) -> u64 {
    let hash = blake3::hash(run_id.as_str().as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn open(path: &Path, to_write: bool) -> io::Result<(File, Vec<Slot>)> {
    let mut file = OpenOptions::new().read(true).write(to_write).open(path)?;
    if to_write {
        file.lock()?;
    }
    let mut bytes = Vec::with_capacity(SLOTS * SLOT);
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes.chunks_exact(SLOT).filter_map(read).collect()))
}

fn read(bytes: &[u8]) -> Option<Slot> {
    let number = |from: usize| bytes.get(from..)?.first_chunk().copied().map(u64::from_le_bytes);
    let slot = Slot { run: number(0)?, since: number(8)?, lost: number(16)? };
    // A slot that a power cut left half written counts nothing.
    let is_whole = number(24)? == checksum(&slot);
    Some(if is_whole { slot } else { EMPTY })
}

fn checksum(slot: &Slot) -> u64 {
    let numbers = [slot.run, slot.since, slot.lost].map(u64::to_le_bytes);
    xxhash_rust::xxh3::xxh3_64(numbers.as_flattened())
}

fn write(file: &mut File, place: usize, slot: &Slot) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(SLOT);
    for number in [slot.run, slot.since, slot.lost, checksum(slot)] {
        bytes.extend(number.to_le_bytes());
    }
    let offset = u64::try_from(place.saturating_mul(SLOT)).unwrap_or_default();
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(&bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload};

    use super::{Lost, SLOTS};
    use crate::home::Home;

    #[test]
    fn losses_are_counted_by_run_without_growing_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        std::fs::write(home.lost_file(), "half").unwrap();
        Lost::make(&home).unwrap();
        let length = home.lost_file().metadata().unwrap().len();
        for run in ["r", "s", "r"] {
            Lost::note(&home, &run.into()).unwrap();
        }
        let lost = Lost::of(&home, &"r".into()).unwrap();
        let marker = lost.marker(&RunIdentity::root("r"), Timestamp::default());
        let TrajectoryPayload::Gap { lost: count, .. } = marker.payload else { unreachable!() };
        assert_eq!(count, 2);
        Lost::note(&home, &"r".into()).unwrap();
        lost.forget(&home).unwrap();
        let rest = Lost::of(&home, &"r".into()).unwrap();
        assert_eq!(rest.slot.lost, 1, "what was lost meanwhile is still to be told");
        rest.forget(&home).unwrap();
        assert_eq!(Lost::of(&home, &"r".into()), None);
        assert!(Lost::of(&home, &"s".into()).is_some());
        for run in 0..SLOTS * 2 {
            Lost::note(&home, &run.to_string().into()).unwrap();
        }
        assert_eq!(home.lost_file().metadata().unwrap().len(), length);
    }
}
