//! `midcourse demo`: a small agent that goes in circles, is told so, and recovers.
//!
//! The agent is a process of its own ([`agent`]) that runs commands in a temporary folder. At each
//! of its steps it runs `midcourse hook demo`, as a coding agent does, and reads what comes back.
//! Here it is started on the terms of a launch, and at the end the store is asked what became of
//! it, as `midcourse run` does.

mod agent;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::launch::{LAUNCH_VARIABLE, Launch};
use anyhow::{Context as _, Result, ensure};
use midcourse::now;

use super::open;
use super::run::{child, summary};
use crate::terminal::eprint_line;

/// What the agent is asked to build.
const BUILD: &str = "\
[ -f settings.conf ] || { echo 'build.sh: error: cannot open settings.conf' >&2; exit 1; }
. ./settings.conf
echo \"built for $TARGET\"
";

/// The time the agent is told it has.
const TIME: Duration = Duration::from_secs(10 * 60);

/// Nothing for people.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Be the agent, in this folder.
    #[arg(long, hide = true, value_name = "FOLDER")]
    agent: Option<PathBuf>,
}

/// Runs the demo in a folder that is removed afterwards; or its agent.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(folder) = &arguments.agent {
        return agent::run(folder);
    }
    let begun = now();
    let name = format!("midcourse-demo-{}-{}", std::process::id(), begun.unix_ms());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder)
        .with_context(|| format!("the demo needs a folder and cannot make {}", folder.display()))?;
    let done = show(&folder);
    // A folder that stays behind is no reason to fail.
    let _ = fs::remove_dir_all(&folder);
    done
}

fn show(folder: &Path) -> Result<ExitCode> {
    let home = open::home()?;
    fs::write(folder.join("build.sh"), BUILD).context("the demo cannot write its build script")?;
    let begun = now();
    let launch = Launch::new(Some(begun.after(TIME)), String::new());
    let us = std::env::current_exe().context("the demo cannot find the program it is part of")?;
    let mut command = Command::new(us);
    // Where they cannot be kept, the agent is told nothing, and that is what is shown.
    let _terms = launch.keep(&home);
    command.args(["demo", "--agent"]).arg(folder).env(LAUNCH_VARIABLE, &launch.id);
    let ended = child::run(&mut command).context("the agent of the demo cannot be started")?;
    let watching = summary::Watching { hooks: true, proxy: false };
    summary::show(&home, &launch, begun, &ended, watching);
    ensure!(
        ended == child::Ended::Code(0),
        "the agent was not brought back on course; {} may say why",
        home.log_file().display()
    );
    eprint_line(
        "               midcourse replay --run latest   (what is said, and which records show why)",
    );
    Ok(ExitCode::SUCCESS)
}
