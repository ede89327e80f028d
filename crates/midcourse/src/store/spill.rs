//! The spill folder: events that could not be stored in time, for example because another process
//! had locked the store.
//!
//! Each event is one file. The file is written under a temporary name, synced and renamed, and then
//! the folder is synced, so a file is complete or absent. The file names sort by the events' times.
//! The next process that writes to the store first stores the events in this folder and removes
//! their files. If a process dies before it removes a file, the next process tries to store the
//! event again, and the event's fact key, which identifies it, shows that it is a duplicate. An
//! event without a fact key gets one that contains the file's name.
//!
//! A disk may be so slow that the process has to end before it has written the file. So a copy is
//! written to memory first ([`memory`]), and it is removed once the file is on disk. If the disk fails,
//! the event is counted as lost ([`LossNote`]), and the copy stays. A later process that stores the
//! copy takes the count back.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::StoreError;
use super::loss::LossNote;
use super::prepare::PreparedEvent;
use super::{Store, memory};
use crate::data_dir::{DataDir, sync_folder};
use crate::event::Event;

/// The version of the spill file format.
const VERSION: u32 = 1;

/// How many events from the spill folder are stored with one commit.
const MAX_FILES_PER_COMMIT: usize = 256;

const UNFINISHED: &str = "tmp";
const DONE: &str = "json";
const UNREAD: &str = "unread";
/// A copy in memory whose event is counted as lost.
const COUNTED: &str = "counted";

/// After this time, a file with a temporary name is one that its process left behind.
const ORPHAN_AGE: Duration = Duration::from_secs(60);

/// An event that was spilled.
#[derive(Debug)]
pub struct Spilled {
    /// The event's file.
    pub file: PathBuf,
    /// Why the disk could not take the file; `None` if the file is durable. Otherwise the file is in
    /// memory, and it is stored later unless the machine is restarted before. Until then the event
    /// is counted as lost.
    pub disk_error: Option<io::Error>,
}

#[derive(Serialize, Deserialize)]
struct SpillWire {
    version: u32,
    #[serde(default)]
    redactions: u32,
    event: Event,
}

/// Writes an event to the spill folder, or to memory if the disk cannot take it. On an error the
/// event is lost, and it is counted.
pub(super) fn write(data_dir: &DataDir, event: &PreparedEvent) -> io::Result<Spilled> {
    let run = &event.run.run_id;
    let name = format!("{:015}-{}", event.prepared.record.at().unix_ms(), Uuid::now_v7());
    let redactions = event.prepared.redactions;
    let wire = SpillWire { version: VERSION, redactions, event: event.to_event() };
    let bytes = serde_json::to_vec(&wire)?;
    let copy = write_copy(data_dir, &name, &bytes);
    // Without a copy, the loss is counted before the disk is used: the process may have to end while
    // it waits for the disk.
    let is_counted = copy.is_none() && LossNote::write(data_dir, run).is_ok();
    match (write_durably(data_dir, &name, &bytes), copy) {
        (Ok(file), copy) => {
            if let Some(copy) = copy {
                let _ = fs::remove_file(copy);
                memory::clean_up(data_dir);
            }
            if is_counted {
                let _ = LossNote::take_back(data_dir, run);
            }
            Ok(Spilled { file, disk_error: None })
        }
        (Err(error), None) => {
            let _ = LossNote::sync(data_dir);
            Err(error)
        }
        (Err(error), Some(copy)) => {
            let file = copy.with_extension(COUNTED);
            let counted = LossNote::write(data_dir, run).and_then(|()| fs::rename(&copy, &file));
            let _ = LossNote::sync(data_dir);
            let file = if counted.is_ok() { file } else { copy };
            Ok(Spilled { file, disk_error: Some(error) })
        }
    }
}

fn write_copy(data_dir: &DataDir, name: &str, bytes: &[u8]) -> Option<PathBuf> {
    let folder = memory::with_space(data_dir, bytes.len())?;
    let unfinished = folder.join(format!("{name}.{UNFINISHED}"));
    let copy = folder.join(format!("{name}.{DONE}"));
    let written = new_file(&unfinished)
        .and_then(|mut new| new.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, &copy));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.ok().map(|()| copy)
}

fn write_durably(data_dir: &DataDir, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let folder = data_dir.spill_folder();
    data_dir.create(&folder)?;
    let unfinished = folder.join(format!("{name}.{UNFINISHED}"));
    let file = folder.join(format!("{name}.{DONE}"));
    let written = new_file(&unfinished).and_then(|mut new| {
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&unfinished, &file)?;
        sync_folder(&folder)?;
        // Sync the data directory too: the process that created the spill folder may have died
        // before it did so.
        sync_folder(data_dir.path())
    });
    if let Err(error) = written {
        // The event is counted as lost, so no process may find its file and store it later.
        let _ = fs::remove_file(&unfinished);
        let _ = fs::remove_file(&file);
        return Err(error);
    }
    Ok(file)
}

fn new_file(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The files in a folder with this extension, oldest event first.
fn files(folder: &Path, end: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == end) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The files of events that are to be stored, oldest event first.
fn waiting(data_dir: &DataDir) -> io::Result<Vec<PathBuf>> {
    let mut waiting = files(&data_dir.spill_folder(), DONE)?;
    waiting.extend(orphans(data_dir)?);
    waiting.extend(in_memory(data_dir));
    waiting.sort_unstable_by(|one, two| one.file_name().cmp(&two.file_name()));
    Ok(waiting)
}

/// Files with a temporary name that a process left behind. Most are complete: the process ended
/// while it waited for the disk.
fn orphans(data_dir: &DataDir) -> io::Result<Vec<PathBuf>> {
    let is_old = |file: &PathBuf| {
        let modified = file.metadata().and_then(|found| found.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= ORPHAN_AGE))
    };
    let unfinished = files(&data_dir.spill_folder(), UNFINISHED)?;
    Ok(unfinished.into_iter().filter(is_old).collect())
}

fn in_memory(data_dir: &DataDir) -> Vec<PathBuf> {
    let Some(folder) = memory::folder(data_dir) else { return Vec::new() };
    [DONE, COUNTED].iter().flat_map(|end| files(&folder, end).unwrap_or_default()).collect()
}

/// Descriptions of the files in the spill folder and in memory, for `midcourse verify`.
pub(super) fn leftovers(data_dir: &DataDir) -> io::Result<Vec<String>> {
    let folder = data_dir.spill_folder();
    let mut whats = Vec::new();
    for (files, what) in [
        (files(&folder, DONE)?, "a spilled event was not taken in yet"),
        (orphans(data_dir)?, "a spilled event was not taken in yet"),
        (in_memory(data_dir), "an event is in memory only and was not taken in yet"),
        (files(&folder, UNREAD)?, "a spilled event could not be read or stored"),
    ] {
        whats.extend(files.iter().map(|file| format!("{what}: {}", file.display())));
    }
    Ok(whats)
}

/// How many events are not in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Events in the spill folder, which the next process that writes to the store takes in.
    pub spilled: usize,
    /// Events that are in memory only, because the disk could not take them.
    pub in_memory: usize,
    /// Files in the spill folder that could not be read or stored.
    pub unreadable: usize,
    /// Lost events for which no gap marker is stored yet. Those in memory are counted here too.
    pub lost: u64,
}

impl Backlog {
    /// Counts the events of a data directory that are not in its store.
    pub fn of(data_dir: &DataDir) -> io::Result<Self> {
        let folder = data_dir.spill_folder();
        Ok(Self {
            spilled: files(&folder, DONE)?.len().saturating_add(orphans(data_dir)?.len()),
            in_memory: in_memory(data_dir).len(),
            unreadable: files(&folder, UNREAD)?.len(),
            lost: LossNote::outstanding(data_dir).1,
        })
    }
}

/// Whether the spill folder or the memory folder contains events that are still to be stored.
pub fn has_spilled(data_dir: &DataDir) -> bool {
    waiting(data_dir).is_ok_and(|files| !files.is_empty())
}

/// Whether events are kept in memory that the disk could not take in time. Does not use the disk.
pub fn is_kept_in_memory(data_dir: &DataDir) -> bool {
    !in_memory(data_dir).is_empty()
}

impl Store {
    /// Stores up to 256 spilled events, oldest first, and returns their number; 0 means that none is
    /// left, except files that a newer release wrote. The engine sees these events when the next
    /// event of their run is evaluated. A file that cannot be read or stored is renamed and kept.
    pub fn ingest_spilled(&mut self) -> Result<usize, StoreError> {
        let (mut taken, mut events) = (Vec::new(), Vec::new());
        for file in waiting(self.data_dir())? {
            if events.len() == MAX_FILES_PER_COMMIT {
                break;
            }
            match read(&file) {
                Ok(Some(wire)) => {
                    taken.push((file, wire.event.run.run_id.clone()));
                    events.push((wire.event, wire.redactions));
                }
                // A newer release wrote this file. It is left for that release.
                Ok(None) => {}
                // Another process has stored this event and removed its file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => set_aside(&file),
                Err(error) => return Err(error.into()),
            }
        }
        if events.is_empty() {
            return Ok(0);
        }
        for ((file, run), stored) in taken.iter().zip(self.append_redacted(events)?) {
            match stored {
                // If the file cannot be removed, the next process tries to store the event again
                // and finds that it is a duplicate.
                Ok(_) => drop(fs::remove_file(file)),
                Err(_) => set_aside(file),
            }
            if file.extension().is_some_and(|end| end == COUNTED) {
                let _ = LossNote::take_back(self.data_dir(), run);
            }
        }
        memory::clean_up(self.data_dir());
        Ok(taken.len())
    }
}

fn set_aside(file: &Path) {
    // If the file cannot be renamed, the next process tries again to store it.
    let _ = fs::rename(file, file.with_extension(UNREAD));
}

fn read(file: &Path) -> io::Result<Option<SpillWire>> {
    #[derive(Deserialize)]
    struct VersionWire {
        version: u32,
    }

    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let bytes = fs::read(file)?;
    let invalid = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let VersionWire { version } = serde_json::from_slice(&bytes).map_err(invalid)?;
    if version > VERSION {
        return Ok(None);
    }
    let mut wire: SpillWire = serde_json::from_slice(&bytes).map_err(invalid)?;
    if wire.event.fact.is_none() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        wire.event.fact = Some(format!("spill:{name}").into());
    }
    Ok(Some(wire))
}
