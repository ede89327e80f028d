//! The spill folder: where an event waits that the store did not take in time.
//!
//! One event is one file: written under a name nobody reads, synced, renamed, and the folder
//! synced, so it is whole or not there. The names sort by the events' times. Whoever writes to the
//! store next takes them in first. A file that is taken in twice, because a process died before it
//! could remove it, is one fact.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::draft::Draft;
use super::error::StoreError;
use super::lost::Lost;
use super::{Store, StoreSettings};
use crate::event::Event;
use crate::home::{Home, sync_folder};

/// The form of the files.
const VERSION: u32 = 1;

/// Events taken in by one process: the rest is left for the next, so that none takes long.
const TAKE_MAX: usize = 256;

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

/// Writes an event to the spill folder, without its secrets. It is durable when this returns.
pub fn spill(home: &Home, event: Event, settings: &StoreSettings) -> Result<PathBuf, StoreError> {
    let run_id = event.run.run_id.clone();
    let written = Draft::new(event, settings).and_then(|draft| Ok(write(home, draft)?));
    if written.is_err() {
        // The error says that it is lost; this only lets the next process say so too.
        let _ = Lost::note(home, &run_id);
    }
    written
}

pub(super) fn write(home: &Home, draft: Draft) -> io::Result<PathBuf> {
    let folder = home.spill_folder();
    home.make(&folder)?;
    let name = format!("{:015}-{}", draft.at.unix_ms(), Uuid::now_v7());
    let unfinished = folder.join(format!("{name}.{UNFINISHED}"));
    let file = folder.join(format!("{name}.{DONE}"));
    let redactions = draft.redactions;
    let wire = SpillWire { version: VERSION, redactions, event: draft.into_event() };
    let bytes = serde_json::to_vec(&wire)?;
    let written = new_file(&unfinished).and_then(|mut new| {
        new.write_all(&bytes)?;
        new.sync_all()?;
        fs::rename(&unfinished, &file)?;
        sync_folder(&folder)?;
        // Whoever made the spill folder may have died before its name was durable.
        sync_folder(home.folder())
    });
    if let Err(error) = written {
        // It is told as lost, so it must not come back; and on a full disk it is in the way.
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

/// The files that wait, oldest event first.
fn waiting(home: &Home, end: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(home.spill_folder()) {
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

/// What is left in the spill folder, and what that means.
pub(super) fn leftovers(home: &Home) -> io::Result<Vec<String>> {
    let mut whats = Vec::new();
    for (end, what) in [
        (DONE, "a spilled event waits and was not taken in"),
        (UNREAD, "a spilled event could not be read, or not be stored"),
    ] {
        let files = waiting(home, end)?;
        whats.extend(files.iter().map(|file| format!("{what}: {}", file.display())));
    }
    Ok(whats)
}

/// Whether events wait.
pub fn has_spilled(home: &Home) -> bool {
    waiting(home, DONE).is_ok_and(|files| !files.is_empty())
}

impl Store {
    /// Takes in events that wait in the spill folder, in order; returns how many, and 0 only if
    /// none is left that could be. The engine sees them with the next step of their run. What
    /// cannot be read or stored is kept aside.
    pub fn take_in_spilled(&mut self) -> Result<usize, StoreError> {
        let (mut taken, mut events) = (Vec::new(), Vec::new());
        for file in waiting(self.home(), DONE)? {
            if events.len() == TAKE_MAX {
                break;
            }
            match read(&file) {
                Ok(Some(wire)) => {
                    events.push((wire.event, wire.redactions));
                    taken.push(file);
                }
                // Written by a newer release, which will take it in.
                Ok(None) => {}
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => keep_aside(&file),
                Err(error) => return Err(error.into()),
            }
        }
        if events.is_empty() {
            return Ok(0);
        }
        for (file, stored) in taken.iter().zip(self.append_redacted(events)?) {
            match stored {
                // If this fails, the same facts are met again and are known.
                Ok(_) => drop(fs::remove_file(file)),
                Err(_) => keep_aside(file),
            }
        }
        Ok(taken.len())
    }
}

fn keep_aside(file: &Path) {
    // If this fails too, the next process tries the same again.
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
