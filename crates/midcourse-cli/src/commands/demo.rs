//! `midcourse demo`: runs a small agent that loops, gets a message, and recovers.
//!
//! The agent is a child process ([`agent`]) that runs shell commands in a temporary directory. Like
//! a coding agent, it runs a hook at each step (`midcourse hook demo`) and reads the reply. This
//! process does what `midcourse run` does: it saves the settings for the hooks, starts the agent
//! and prints a summary.

mod agent;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use midcourse::now;

use super::open;
use super::run::{child, summary};
use crate::run_settings::{LAUNCH_VARIABLE, RunSettings};
use crate::terminal::eprint_line;

/// The failing script that the agent has to fix.
const BUILD_SCRIPT: &str = "\
[ -f settings.conf ] || { echo 'build.sh: error: cannot open settings.conf' >&2; exit 1; }
. ./settings.conf
echo \"built for $TARGET\"
";

const DEADLINE: Duration = Duration::from_secs(10 * 60);

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Run as the agent, in this directory.
    #[arg(long, hide = true, value_name = "DIR")]
    agent: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(directory) = &arguments.agent {
        return agent::run(directory);
    }
    let name = format!("midcourse-demo-{}-{}", std::process::id(), now().unix_ms());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir(&directory)
        .with_context(|| format!("cannot create the demo directory {}", directory.display()))?;
    let result = run_agent(&directory);
    let _ = fs::remove_dir_all(&directory);
    result
}

fn run_agent(directory: &Path) -> Result<ExitCode> {
    let data_dir = open::data_dir()?;
    fs::write(directory.join("build.sh"), BUILD_SCRIPT)
        .context("cannot write the build script of the demo")?;
    let started = now();
    let settings = RunSettings::shipped().for_new_launch(Some(started.after(DEADLINE)), false);
    let program = std::env::current_exe().context("cannot find the midcourse program")?;
    let mut command = Command::new(program);
    // If the settings cannot be saved, the hooks deliver no messages and write a warning to
    // `hook.log`. The summary then tells the user to look into that file.
    let _ = settings.save(&data_dir);
    command.args(["demo", "--agent"]).arg(directory);
    command.env(LAUNCH_VARIABLE, settings.launch_id.as_deref().unwrap_or_default());
    let ended = child::run(&mut command).context("cannot start the agent of the demo")?;
    let observed = summary::Observed { hooks: true, proxy: false };
    summary::print(&data_dir, &settings, started, &ended, observed, None);
    ensure!(
        ended == child::Ended::Code(0),
        "the agent did not recover; see {}",
        data_dir.log_file().display()
    );
    eprint_line("           midcourse replay --run latest   (every message, and its evidence)");
    Ok(ExitCode::SUCCESS)
}
