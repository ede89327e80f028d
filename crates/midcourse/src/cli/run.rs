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
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use midcourse::{Flags, Home, Host, InForce, LAUNCH_VARIABLE, Launch, Store, StoreSettings, now};
use midcourse_core::{Mode, Timestamp};

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

/// A command with hooks in it.
struct Watched {
    home: Home,
    launch: Launch,
    prepared: Prepared,
    /// The store, for as long as the command runs: each hook finds it open, and need not read its
    /// log anew. Where it cannot be had, the hooks say so.
    _store: Option<Store>,
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
    let watched = match host {
        Some(host) => watched(arguments, host, program, words, begun)?,
        None => None,
    };
    let mut command = Command::new(program);
    match &watched {
        Some(Watched { launch, prepared, .. }) => {
            command.args(&prepared.arguments).env(LAUNCH_VARIABLE, launch.write());
        }
        None => {
            command.args(words);
        }
    }
    let ended = child::run(&mut command);
    if let Some(file) = watched.as_ref().and_then(|watched| watched.prepared.file.as_ref()) {
        // It holds nothing that the user's own file does not hold.
        let _ = std::fs::remove_file(file);
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(cannot_start(program, &error)),
    };
    if let Some(Watched { home, launch, .. }) = &watched {
        summary::show(home, launch, begun, &ended);
    }
    Ok(ended.pass_on())
}

/// The command with hooks in it; nothing, and a remark, if they cannot be had. Only what the user
/// named and got wrong is an error: then nothing has begun yet.
fn watched(
    arguments: &Arguments,
    host: Host,
    program: &OsString,
    words: &[OsString],
    begun: Timestamp,
) -> Result<Option<Watched>> {
    let unobserved = |error: anyhow::Error| {
        remark(&format!("{} runs unobserved: {error:#}", host.name()));
        None
    };
    let home = match Home::of_user() {
        Ok(home) => home,
        Err(error) => return Ok(unobserved(error.into())),
    };
    let launch = launch(arguments, &home, begun)?;
    let prepared = std::env::current_exe().map_err(anyhow::Error::from).and_then(|us| match host {
        Host::ClaudeCode | Host::Demo => claude_code::prepare(words, &us, &home, &launch.id),
        Host::Codex => codex::prepare(program, words, &us),
    });
    Ok(match prepared {
        Ok(prepared) => {
            let store = Store::open(&home, StoreSettings::default()).ok();
            Some(Watched { home, launch, prepared, _store: store })
        }
        Err(error) => unobserved(error),
    })
}

/// The terms of the launch: flags win over files. A file that was named has to be right; one that
/// was found and is not is left out, since the command is to run.
fn launch(arguments: &Arguments, home: &Home, begun: Timestamp) -> Result<Launch> {
    let folder = std::env::current_dir().unwrap_or_default();
    let flags = Flags {
        mode: arguments.shadow.then_some(Mode::Shadow),
        calls: arguments.max_calls.and_then(NonZeroU64::new),
        tokens: arguments.max_tokens.and_then(NonZeroU64::new),
    };
    let found = InForce::find(home, arguments.config.as_deref(), &folder)?;
    let InForce { config, text, remarks } = found.with_flags(flags);
    for left_out in &remarks {
        remark(left_out);
    }
    let length = arguments.deadline.or(config.deadline);
    let deadline = arguments.until.or_else(|| length.map(|length| begun.after(length)));
    Ok(Launch::new(deadline, text))
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
