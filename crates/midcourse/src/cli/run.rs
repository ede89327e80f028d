//! `midcourse run`: a coding agent as it is, recorded, told the time and nudged.
//!
//! The command runs as it would by itself: its terminal, its signals, its exit code. What is added
//! is hooks, for that process only. Whatever goes wrong with them, the command runs all the same,
//! and it is said what is missing.

pub(super) mod child;
mod claude_code;
mod codex;
pub(super) mod summary;
mod time;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use midcourse::{Home, Host, LAUNCH_VARIABLE, Launch, now};
use midcourse_core::Timestamp;

use super::remark;

/// What is run, and on which terms.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// How long the agent has, such as 90m, 2h or "1h 30m". It is told; it is not stopped.
    #[arg(long, value_name = "LENGTH", value_parser = time::length, conflicts_with = "until")]
    deadline: Option<std::time::Duration>,
    /// When the agent has to be done: a time of day such as 07:00, or a date and time such as
    /// "2026-11-16 07:00".
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    until: Option<Timestamp>,
    /// How many tool calls the agent may make. It is told at half, 80 %, 95 % and at the end; it
    /// is not stopped.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_calls: Option<u64>,
    /// How many tokens the agent may use, told in the same way.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Record what would be said, and say nothing.
    #[arg(long)]
    shadow: bool,
    /// Read this configuration, and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A command that is ready to be started.
struct Prepared {
    arguments: Vec<OsString>,
    /// A file that is there for as long as the command runs.
    file: Option<PathBuf>,
}

/// Runs the command, and returns what it returned.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some((program, words)) = arguments.command.split_first() else {
        anyhow::bail!("there is no command to run");
    };
    let host = host_of(Path::new(program));
    if host.is_none() && arguments.max_tokens.is_some() {
        anyhow::bail!(
            "--max-tokens needs to know how many tokens are used, and only {} tell; leave it out",
            names(" and ")
        );
    }
    let begun = now();
    let launch = launch(arguments, begun)?;
    let watched = host.and_then(|host| prepare(host, program, words, &launch));
    let mut command = Command::new(program);
    match &watched {
        Some((_, prepared)) => {
            command.args(&prepared.arguments).env(LAUNCH_VARIABLE, launch.write());
        }
        None => {
            command.args(words);
        }
    }
    let ended = child::run(&mut command);
    if let Some(file) = watched.as_ref().and_then(|(_, prepared)| prepared.file.as_ref()) {
        // It holds nothing that the user's own file does not hold.
        let _ = std::fs::remove_file(file);
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(cannot_start(program, &error)),
    };
    if let Some((home, _)) = &watched {
        summary::show(home, &launch, begun, &ended);
    }
    Ok(ended.pass_on())
}

/// The terms of the launch: flags win over files.
fn launch(arguments: &Arguments, begun: Timestamp) -> Result<Launch> {
    let deadline = arguments.until.or_else(|| arguments.deadline.map(|length| begun.after(length)));
    Ok(Launch::new(deadline, String::new()))
}

/// The command with hooks in it; nothing, and a remark, if they cannot be had.
fn prepare(
    host: Host,
    program: &OsString,
    words: &[OsString],
    launch: &Launch,
) -> Option<(Home, Prepared)> {
    let home = Home::of_user();
    let prepared = home.map_err(anyhow::Error::from).and_then(|home| {
        let us = std::env::current_exe()?;
        let prepared = match host {
            Host::ClaudeCode | Host::Demo => claude_code::prepare(words, &us, &home, &launch.id)?,
            Host::Codex => codex::prepare(program, words, &us)?,
        };
        Ok((home, prepared))
    });
    match prepared {
        Ok(prepared) => Some(prepared),
        Err(error) => {
            remark(&format!("{} runs unobserved: {error:#}", host.name()));
            None
        }
    }
}

/// The host that a command is, by the name of its program.
fn host_of(program: &Path) -> Option<Host> {
    let name = program.file_stem()?.to_str()?;
    let host = Host::ALL.into_iter().find(|host| host.program() == Some(name));
    if host.is_none() {
        remark(&format!(
            "{name} runs unobserved: nothing is recorded and nothing is said, since only the \
             hooks of {} are known",
            names(" and ")
        ));
    }
    host
}

fn names(between: &str) -> String {
    let names: Vec<_> = Host::ALL.into_iter().filter_map(Host::program).collect();
    names.join(between)
}

/// As a shell says it.
fn cannot_start(program: &OsString, error: &std::io::Error) -> ExitCode {
    let program = program.to_string_lossy();
    let (code, hint) = match error.kind() {
        std::io::ErrorKind::NotFound => (127, "; is it installed, and is its folder in PATH?"),
        _ => (126, ""),
    };
    remark(&format!("{program} cannot be started: {error}{hint}"));
    ExitCode::from(code)
}
