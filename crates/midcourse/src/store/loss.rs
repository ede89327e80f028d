//! Counts lost events: those that could be written neither to the database nor to the spill folder.
//!
//! A process that lives for one event cannot remember a loss, and on a full disk it cannot create a
//! file about it. So a file of fixed size is created together with the store, and the counts in
//! this file are overwritten in place, which needs no disk space. The next process that stores an
//! event of the run first stores a gap marker, a record with the number of lost events.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use midcourse_core::{GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};

use super::schema::check_file;
use crate::clock::now;
use crate::data_dir::DataDir;
use crate::event::{Channel, Event, Source};

const SLOTS: usize = 128;
const SLOT: usize = 32;
const LENGTH: u64 = 128 * 32;

/// The lost events of one run as written in the file: a hash of the run's id, the time of the first
/// loss in Unix milliseconds, and the number of lost events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    run: u64,
    since: u64,
    lost: u64,
}

const EMPTY: Slot = Slot { run: 0, since: 0, lost: 0 };

/// How many events of a run were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LossNote {
    slot: Slot,
}

impl LossNote {
    /// Creates the file of loss notes at its full length, if it is missing or incomplete.
    pub(super) fn create_file(data_dir: &DataDir) -> io::Result<()> {
        let path = data_dir.loss_file();
        check_file(&path)?;
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

    /// Counts a lost event of this run in the file, without a sync. If the file is full, the count of
    /// the run whose loss is oldest is overwritten.
    pub(super) fn write(data_dir: &DataDir, run_id: &RunId) -> io::Result<()> {
        Self::create_file(data_dir)?;
        let (mut file, slots) = open(&data_dir.loss_file(), true)?;
        let run = hash(run_id);
        let known = slots.iter().position(|slot| slot.lost > 0 && slot.run == run);
        let oldest = || (0..).zip(&slots).min_by_key(|(_, slot)| (slot.lost > 0, slot.since));
        let place = known.or_else(|| oldest().map(|(place, _)| place)).unwrap_or_default();
        let mut slot = Slot { run, since: now().unix_ms(), lost: 1 };
        if let Some(known) = known.and_then(|place| slots.get(place)) {
            slot = Slot { lost: known.lost.saturating_add(1), ..*known };
        }
        write_slot(&mut file, place, &slot)
    }

    /// Syncs the file of loss notes to disk.
    pub(super) fn sync(data_dir: &DataDir) -> io::Result<()> {
        OpenOptions::new().write(true).open(data_dir.loss_file())?.sync_data()
    }

    /// Takes back one lost event of this run, which was stored after all.
    pub(super) fn take_back(data_dir: &DataDir, run_id: &RunId) -> io::Result<()> {
        match Self::read(data_dir, run_id) {
            Some(Self { slot }) => Self { slot: Slot { lost: 1, ..slot } }.remove(data_dir),
            None => Ok(()),
        }
    }

    /// How many runs have lost events for which no gap marker is stored yet, and the number of
    /// these events.
    pub(super) fn outstanding(data_dir: &DataDir) -> (usize, u64) {
        let Ok((_, slots)) = open(&data_dir.loss_file(), false) else { return (0, 0) };
        let lost: Vec<u64> = slots.iter().map(|slot| slot.lost).filter(|lost| *lost > 0).collect();
        (lost.len(), lost.iter().sum())
    }

    /// The count of lost events of a run; `None` if none was lost.
    pub(super) fn read(data_dir: &DataDir, run_id: &RunId) -> Option<Self> {
        let (_, slots) = open(&data_dir.loss_file(), false).ok()?;
        let run = hash(run_id);
        let slot = slots.into_iter().find(|slot| slot.lost > 0 && slot.run == run)?;
        Some(Self { slot })
    }

    /// The gap marker for the lost events of this note. It has a fact key, so that a second marker
    /// for the same lost events is recognised as a duplicate.
    pub(super) fn gap_marker(&self, run: &RunIdentity, at: Timestamp) -> Event {
        let gap = TrajectoryPayload::Gap { lost: self.slot.lost, reason: GapReason::Io };
        Event::new(run.clone(), Source::new("midcourse", Channel::Store), at, gap)
            .with_fact(format!("lost:{}:{}", self.slot.since, self.slot.lost))
    }

    /// Subtracts the lost events of this note from the file. Call this when their gap marker is
    /// stored. Events that were lost after this note was read stay counted.
    pub(super) fn remove(&self, data_dir: &DataDir) -> io::Result<()> {
        let (mut file, slots) = open(&data_dir.loss_file(), true)?;
        let is_it = |slot: &Slot| slot.run == self.slot.run && slot.since == self.slot.since;
        let Some((place, found)) = (0..).zip(&slots).find(|(_, slot)| is_it(slot)) else {
            return Ok(());
        };
        let lost = found.lost.saturating_sub(self.slot.lost);
        let left = match lost {
            0 => EMPTY,
            _ => Slot { since: now().unix_ms(), lost, ..*found },
        };
        write_slot(&mut file, place, &left)?;
        file.sync_data()
    }
}

fn hash(run_id: &RunId) -> u64 {
    let hash = blake3::hash(run_id.as_str().as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn open(path: &Path, to_write: bool) -> io::Result<(File, Vec<Slot>)> {
    check_file(path)?;
    let mut file = OpenOptions::new().read(true).write(to_write).open(path)?;
    if to_write {
        file.lock()?;
    }
    let mut bytes = Vec::with_capacity(SLOTS * SLOT);
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes.chunks_exact(SLOT).filter_map(read_slot).collect()))
}

fn read_slot(bytes: &[u8]) -> Option<Slot> {
    let number = |from: usize| bytes.get(from..)?.first_chunk().copied().map(u64::from_le_bytes);
    let slot = Slot { run: number(0)?, since: number(8)?, lost: number(16)? };
    // A power cut may leave a slot half written. Its checksum is then wrong; it counts as empty.
    let is_whole = number(24)? == checksum(&slot);
    Some(if is_whole { slot } else { EMPTY })
}

fn checksum(slot: &Slot) -> u64 {
    let numbers = [slot.run, slot.since, slot.lost].map(u64::to_le_bytes);
    xxhash_rust::xxh3::xxh3_64(numbers.as_flattened())
}

fn write_slot(file: &mut File, place: usize, slot: &Slot) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(SLOT);
    for number in [slot.run, slot.since, slot.lost, checksum(slot)] {
        bytes.extend(number.to_le_bytes());
    }
    let offset = u64::try_from(place.saturating_mul(SLOT)).unwrap_or_default();
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload};

    use super::{LossNote, SLOTS};
    use crate::data_dir::DataDir;

    #[test]
    fn losses_are_counted_per_run_and_the_file_never_grows() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path());
        std::fs::write(data_dir.loss_file(), "half").unwrap();
        LossNote::create_file(&data_dir).unwrap();
        let length = data_dir.loss_file().metadata().unwrap().len();
        for run in ["r", "s", "r"] {
            LossNote::write(&data_dir, &run.into()).unwrap();
        }
        let lost = LossNote::read(&data_dir, &"r".into()).unwrap();
        let marker = lost.gap_marker(&RunIdentity::root("r"), Timestamp::default());
        let TrajectoryPayload::Gap { lost: count, .. } = marker.payload else { unreachable!() };
        assert_eq!(count, 2);
        LossNote::write(&data_dir, &"r".into()).unwrap();
        lost.remove(&data_dir).unwrap();
        let rest = LossNote::read(&data_dir, &"r".into()).unwrap();
        assert_eq!(rest.slot.lost, 1, "the loss since then is still noted");
        rest.remove(&data_dir).unwrap();
        assert_eq!(LossNote::read(&data_dir, &"r".into()), None);
        assert!(LossNote::read(&data_dir, &"s".into()).is_some());
        for run in 0..SLOTS * 2 {
            LossNote::write(&data_dir, &run.to_string().into()).unwrap();
        }
        assert_eq!(data_dir.loss_file().metadata().unwrap().len(), length);
    }
}
