//! The spill folder: events that could not be stored in time, for example because another process
//! had locked the store.
//!
//! Each event is one file. The file is written under a temporary name, synced and renamed, and then
//! the folder is synced, so a file is complete or absent. The file names sort by the events' times.
//! The next process that writes to the store first stores the events in this folder and removes
//! their files. If a process dies before it removes a file, the next process tries to store the
//! event again, and the event's fact key, which identifies it, shows that it is a duplicate. An
//! event without a fact key gets one that contains the file's name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Store;
use super::error::StoreError;
use super::prepare::PreparedEvent;
use crate::data_dir::{DataDir, sync_folder};
use crate::event::Event;

/// The version of the spill file format.
const VERSION: u32 = 1;

/// How many events from the spill folder are stored with one commit.
const MAX_FILES_PER_COMMIT: usize = 256;

const UNFINISHED: &str = "tmp";
const DONE: &str = "json";
const UNREAD: &str = "unread";

#[derive(Serialize, Deserialize)]
struct SpillWire {
    version: u32,
    #[serde(default)]
    redactions: u32,
    event: Event,
}

/// Writes an event durably to the spill folder, and returns its file.
pub(super) fn write(data_dir: &DataDir, event: &PreparedEvent) -> io::Result<PathBuf> {
    let folder = data_dir.spill_folder();
    data_dir.create(&folder)?;
    let name = format!("{:015}-{}", event.prepared.record.at().unix_ms(), Uuid::now_v7());
    let unfinished = folder.join(format!("{name}.{UNFINISHED}"));
    let file = folder.join(format!("{name}.{DONE}"));
    let redactions = event.prepared.redactions;
    let wire = SpillWire { version: VERSION, redactions, event: event.to_event() };
    let bytes = serde_json::to_vec(&wire)?;
    let written = new_file(&unfinished).and_then(|mut new| {
        new.write_all(&bytes)?;
        new.sync_all()?;
        fs::rename(&unfinished, &file)?;
        sync_folder(&folder)?;
        // Sync the data directory too: the process that created the spill folder may have died
        // before it did so.
        sync_folder(data_dir.path())
    });
    if let Err(error) = written {
        // The caller counts this event as lost, so no process may find its file and store it later.
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

/// The spill files with this extension, oldest event first.
fn waiting(data_dir: &DataDir, end: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(data_dir.spill_folder()) {
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

/// Descriptions of the files in the spill folder, for `midcourse verify`.
pub(super) fn leftovers(data_dir: &DataDir) -> io::Result<Vec<String>> {
    let mut whats = Vec::new();
    for (end, what) in [
        (DONE, "a spilled event was not taken in yet"),
        (UNREAD, "a spilled event could not be read or stored"),
    ] {
        let files = waiting(data_dir, end)?;
        whats.extend(files.iter().map(|file| format!("{what}: {}", file.display())));
    }
    Ok(whats)
}

/// Whether the spill folder contains events that are still to be stored.
pub fn has_spilled(data_dir: &DataDir) -> bool {
    waiting(data_dir, DONE).is_ok_and(|files| !files.is_empty())
}

impl Store {
    /// Stores up to 256 events from the spill folder, oldest first, and returns their number; 0
    /// means that none is left, except files that a newer release wrote. The engine sees these
    /// events when the next event of their run is evaluated. A file that cannot be read or stored
    /// is renamed and kept.
    pub fn ingest_spilled(&mut self) -> Result<usize, StoreError> {
        let (mut taken, mut events) = (Vec::new(), Vec::new());
        for file in waiting(self.data_dir(), DONE)? {
            if events.len() == MAX_FILES_PER_COMMIT {
                break;
            }
            match read(&file) {
                Ok(Some(wire)) => {
                    events.push((wire.event, wire.redactions));
                    taken.push(file);
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
        for (file, stored) in taken.iter().zip(self.append_redacted(events)?) {
            match stored {
                // If the file cannot be removed, the next process tries to store the event again
                // and finds that it is a duplicate.
                Ok(_) => drop(fs::remove_file(file)),
                Err(_) => set_aside(file),
            }
        }
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
