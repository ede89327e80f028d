//! `midcourse doctor`: checks whether midcourse works on this machine, and says what to do if not.
//!
//! A settings file that contains hooks proves nothing, so the command runs them: it feeds a loop of
//! failing calls through the installed commands, into a scratch store ([`trial`]), and examines the
//! replies. It changes nothing, stores nothing in the user's store, and uses no network except to ask
//! an installed proxy on the loopback interface, and a fleet that the configuration names.

mod approval;
mod config;
mod finding;
mod folder;
mod hook_command;
mod hosts;
mod output;
mod process;
mod program;
#[cfg(feature = "proxy")]
mod proxy;
mod scratch;
mod settings;
#[cfg(feature = "fleet")]
mod ship;
mod store;
mod switches;
mod timeouts;
mod trial;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use midcourse::DataDir;

use super::install::program as own_program;
use super::install::target::host_named;
use crate::hosts::Host;
use finding::{Area, Finding};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Check only these agents: claude-code, codex, copilot, gemini, opencode or qwen.
    #[arg(value_parser = host_named)]
    host: Vec<Host>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Where the command runs, and what `midcourse install` would use.
struct Place {
    cwd: PathBuf,
    /// The path of this program.
    program: PathBuf,
    /// The user's data directory; `None` if there is none.
    data_dir: Option<DataDir>,
}

/// Runs all checks, prints the findings, and returns true if there is no problem.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let place = Place {
        cwd: std::env::current_dir().context("no current directory")?,
        program: own_program::path()?,
        data_dir: DataDir::of_user().ok(),
    };
    let areas = check(&arguments.host, &place);
    let problems = areas.iter().map(Area::problem_count).sum();
    let printed = if arguments.json {
        output::print_json(&areas, problems)
    } else {
        output::print_text(&areas, problems)
    };
    match printed {
        // The exit code must say whether there are problems even if the reader closes the pipe.
        Err(error) if !super::is_broken_pipe(&error) => Err(error),
        _ => Ok(problems == 0),
    }
}

fn check(named: &[Host], place: &Place) -> Vec<Area> {
    let hosts = Host::ALL.into_iter().filter(|host| *host != Host::Demo);
    let hosts = hosts.filter(|host| named.is_empty() || named.contains(host));
    let checked: Vec<_> =
        hosts.filter_map(|host| hosts::check(host, !named.is_empty(), place)).collect();
    // Hooks may record elsewhere than the user's commands look.
    let mut data_dirs: Vec<DataDir> = place.data_dir.iter().cloned().collect();
    let mut areas = Vec::new();
    for (area, used) in checked {
        areas.push(area);
        data_dirs.extend(used);
    }
    if areas.is_empty() {
        let none = Finding::note(
            "program",
            "none of the agents that midcourse knows is on PATH",
            "install one, or use `midcourse run -- COMMAND` with any other agent",
        );
        areas.push(Area::new("agents", "Agents", vec![none]));
    }
    #[cfg(feature = "proxy")]
    areas.extend(proxy::check(place));
    #[cfg(feature = "fleet")]
    areas.extend(ship::check(place));
    if place.data_dir.is_none() {
        let missing = Finding::problem(
            "data-directory",
            "there is no data directory",
            "set MIDCOURSE_HOME to a folder in which you can write",
        );
        areas.push(Area::new("store", "Store", vec![missing]));
    }
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for data_dir in &data_dirs {
        if !folders.contains(&data_dir.path()) {
            folders.push(data_dir.path());
            areas.push(store::check(data_dir));
        }
    }
    for data_dir in &data_dirs {
        if !files.contains(&data_dir) {
            files.push(data_dir);
            areas.push(config::check(data_dir, &place.cwd));
        }
    }
    areas
}
