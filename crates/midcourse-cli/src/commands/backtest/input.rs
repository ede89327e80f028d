//! Finds what `midcourse backtest` replays: the files and stored runs that the user names, all runs
//! of the store, or the sessions that agents keep on this machine.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use midcourse::{DataDir, RunCursor, RunFilter, Store};

use super::pipeline::Input;
use crate::commands::input_files::{InputFile, find_session_files};
use crate::commands::open;
use crate::hosts::Host;
use crate::session_format::SessionFormat;

/// Number of runs that are listed at once.
const PAGE: usize = 500;

pub(super) struct Inputs {
    pub(super) list: Vec<Input>,
    /// The data directory; `None` if no run of the store is replayed.
    pub(super) data_dir: Option<DataDir>,
    /// Whether the user named the input. Otherwise it was searched.
    pub(super) are_named: bool,
    /// Folders in which sessions were searched.
    searched: Vec<PathBuf>,
    /// Agents of which no session was found.
    pub(super) without_sessions: Vec<&'static str>,
}

impl Inputs {
    /// The length of the input, for a progress bar.
    pub(super) fn bytes(&self) -> u64 {
        let len = |input: &Input| match input {
            Input::File(file, _) => file.len(),
            Input::Stored(_) => 1,
        };
        self.list.iter().map(len).sum()
    }

    /// What to say if there was no run.
    pub(super) fn nothing_found(&self) -> String {
        if self.are_named {
            return "these files contain no runs (docs/formats.md lists the formats that midcourse \
                    reads; --format names one)"
                .to_owned();
        }
        let folders: Vec<String> =
            self.searched.iter().map(|folder| format!("\n  {}", folder.display())).collect();
        format!(
            "found no sessions of agents on this machine; looked in:{}\nName the files or \
             directories that contain sessions, or use --store for recorded runs",
            folders.concat()
        )
    }
}

/// Finds the input. `names` are paths and runs of the store. If there are none and `all_stored` is
/// false, the folders of the agents are searched.
pub(super) fn find(
    names: &[String],
    all_stored: bool,
    format: Option<&'static SessionFormat>,
) -> Result<Inputs> {
    if names.is_empty() && !all_stored {
        return find_agent_sessions(format);
    }
    let mut list = Vec::new();
    let mut store = None;
    for name in names {
        let path = Path::new(name);
        if path.exists() {
            let files = find_session_files(&[path.to_owned()])?;
            list.extend(files.into_iter().map(|file| Input::File(file, format)));
        } else if let Some(run) = find_stored(name, &mut store)? {
            list.push(run);
        } else {
            bail!("no file, directory or stored run `{name}`");
        }
    }
    if all_stored {
        let store = store_of(&mut store)?;
        ensure!(store.is_some(), "no runs recorded yet; record one with `midcourse run`");
        let mut cursor = RunCursor::START;
        while let Some(store) = store {
            let (page, next) = store.list_runs(&RunFilter::default(), cursor, PAGE)?;
            if page.is_empty() {
                break;
            }
            list.extend(page.into_iter().map(|listed| Input::Stored(listed.run.run_id)));
            cursor = next;
        }
    }
    let data_dir = store.is_some().then(open::data_dir).transpose()?;
    Ok(Inputs {
        list,
        data_dir,
        are_named: true,
        searched: Vec::new(),
        without_sessions: Vec::new(),
    })
}

fn store_of(store: &mut Option<Store>) -> Result<Option<&Store>> {
    if store.is_none() {
        *store = open::existing()?;
    }
    Ok(store.as_ref())
}

fn find_stored(name: &str, store: &mut Option<Store>) -> Result<Option<Input>> {
    let Some(store) = store_of(store)? else { return Ok(None) };
    Ok(open::find_run(store, name).ok().map(|run| Input::Stored(run.run_id)))
}

fn find_agent_sessions(format: Option<&'static SessionFormat>) -> Result<Inputs> {
    let home = dirs::home_dir();
    let mut searched = Vec::new();
    let mut files: Vec<InputFile> = Vec::new();
    let mut without_sessions = Vec::new();
    for host in Host::ALL {
        let (found, searched_before) = (files.len(), searched.len());
        for folder in host.session_folders(|name| std::env::var_os(name), home.as_deref()) {
            if folder.is_dir() {
                files.extend(find_session_files(std::slice::from_ref(&folder))?);
            }
            searched.push(folder);
        }
        if files.len() == found && searched.len() > searched_before {
            without_sessions.push(host.name());
        }
    }
    let list = files.into_iter().map(|file| Input::File(file, format)).collect();
    Ok(Inputs { list, data_dir: None, are_named: false, searched, without_sessions })
}

/// Next steps, printed below the overview of a backtest without arguments.
pub(super) const NEXT_STEPS: &str = "Nothing was stored. `midcourse import PATH` keeps sessions. `midcourse install` lets midcourse \
     speak in the next ones.";
