//! `midcourse run`: a coding agent as it is, recorded, told the time and nudged.
//!
//! The command runs as it would by itself: its terminal, its signals, its exit code. What is added
//! is hooks, for that process only, or a proxy between it and its model, or both. Whatever goes wrong
//! with them, the command runs all the same,
//! and it is said what is missing.

pub(super) mod child;
mod claude_code;
mod codex;
mod end;
#[cfg_attr(not(feature = "proxy"), path = "run/unproxied.rs")]
mod proxied;
pub(super) mod summary;
mod time;

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::config::{Flags, InForce};
use crate::hosts::Host;
use crate::launch::{LAUNCH_VARIABLE, Launch, LaunchFolder};
use anyhow::{Context as _, Result};
use midcourse::{DataDir, Mode, Store, StoreSettings, Timestamp, now};

use super::hook;
use crate::terminal::warn;
use proxied::Proxied;
use summary::Watching;

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
    /// Stand between the agent and its model, whatever the command is. Without this it is done for
    /// commands whose hooks are not known, and for claude if its key or address is in the
    /// environment.
    #[arg(long, conflicts_with = "no_proxy")]
    proxy: bool,
    /// Do not stand between the agent and its model.
    #[arg(long)]
    no_proxy: bool,
    /// Read this configuration, and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is there for a command that runs under watch.
struct Watched {
    home: DataDir,
    launch: Launch,
    /// Where its terms lie.
    folder: LaunchFolder,
    /// The store, for as long as it runs: each hook finds it open, and need not read its log anew.
    /// Where it cannot be had, the hooks say so.
    _store: Option<Store>,
}

/// Runs the command, and returns what it returned.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some((program, words)) = arguments.command.split_first() else {
        anyhow::bail!("there is no command to run");
    };
    let host = host_of(Path::new(program));
    let has_proxy = arguments.proxy || (!arguments.no_proxy && proxied::is_wanted(host));
    if host.is_none() && !has_proxy && arguments.max_tokens.is_some() {
        anyhow::bail!(
            "--max-tokens needs to know how many tokens are used, and without the proxy only {} \
             tell; leave it out",
            names(" and ")
        );
    }
    let begun = now();
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let unobserved = |error: &anyhow::Error| {
        warn(&format!("{name} runs unobserved: {error:#}"));
    };
    let mut proxy = match has_proxy.then(prepare_proxy).transpose() {
        Ok(proxy) => proxy,
        Err(error) => {
            warn(&format!("{name} runs without the proxy: {error:#}"));
            None
        }
    };
    // Hooks leave it to the proxy to speak; others have none.
    let is_proxied = proxy.is_some() && host == Some(Host::ClaudeCode);
    let watched = watched(arguments, is_proxied, begun)?;
    let watched = watched.map_err(|error| unobserved(&error)).ok();
    let mut command = Command::new(program);
    command.args(words);
    let mut watching = Watching::default();
    if let Some(Watched { home, launch, folder, .. }) = &watched {
        match with_hooks(host, program, words, home, launch, folder) {
            Ok(words) => {
                watching.hooks = true;
                command = Command::new(program);
                command.args(words);
            }
            Err(error) if proxy.is_none() || host.is_some() => unobserved(&error),
            Err(_) => {}
        }
        if let Some(prepared) = &proxy {
            match prepared.start(launch) {
                Ok(()) => {
                    watching.proxy = true;
                    prepared.put_into(&mut command);
                }
                Err(error) => {
                    warn(&format!("{name} runs without the proxy: {error:#}"));
                    proxy = None;
                }
            }
        }
        // Hooks that the user has installed are on the same terms.
        command.env(LAUNCH_VARIABLE, &launch.id);
    }
    let ended = child::run(&mut command);
    if proxy.filter(|_| watching.proxy).is_some_and(|proxy| !proxy.stop()) {
        warn("the proxy could not be kept running: what was asked since then is not recorded");
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(cannot_start(program, &error)),
    };
    if let Some(Watched { home, launch, .. }) = &watched {
        if watching.proxy {
            // A run whose end cannot be written has none on record.
            let _ = end::note(home, launch, begun, &ended);
        }
        summary::show(home, launch, begun, &ended, watching);
    }
    drop(watched);
    Ok(ended.pass_on())
}

fn prepare_proxy() -> Result<Proxied> {
    Proxied::prepare(&DataDir::of_user()?)
}

/// What a command under watch needs. What the user named and got wrong is an error, since nothing
/// has begun yet; whatever else is wrong does not keep the command from running.
fn watched(arguments: &Arguments, is_proxied: bool, begun: Timestamp) -> Result<Result<Watched>> {
    let home = match DataDir::of_user() {
        Ok(home) => home,
        Err(error) => return Ok(Err(error.into())),
    };
    let launch = Launch { is_proxied, ..launch(arguments, &home, begun)? };
    let keep = || {
        let folder = launch.keep(&home);
        let folder =
            folder.with_context(|| format!("{} cannot be written", home.path().display()))?;
        let store = Store::open(&home, StoreSettings::default()).ok();
        Ok((folder, store))
    };
    Ok(keep().map(|(folder, _store)| Watched { home, launch, folder, _store }))
}

/// The command's words with hooks among them.
fn with_hooks(
    host: Option<Host>,
    program: &OsString,
    words: &[OsString],
    home: &DataDir,
    launch: &Launch,
    folder: &LaunchFolder,
) -> Result<Vec<OsString>> {
    let host = host.with_context(|| format!("only the hooks of {} are known", names(" and ")))?;
    let command = hook::Arguments::command(host, home, launch)?;
    match host {
        Host::ClaudeCode | Host::Demo => claude_code::prepare(words, &command, folder),
        Host::Codex => codex::prepare(program, words, &command),
    }
}

/// The terms of the launch: flags win over files. A file that was named has to be right; one that
/// was found and is not is left out, since the command is to run.
fn launch(arguments: &Arguments, home: &DataDir, begun: Timestamp) -> Result<Launch> {
    let folder = std::env::current_dir().unwrap_or_default();
    let flags = Flags {
        mode: arguments.shadow.then_some(Mode::Shadow),
        calls: arguments.max_calls.and_then(NonZeroU64::new),
        tokens: arguments.max_tokens.and_then(NonZeroU64::new),
    };
    let found = InForce::find(home, arguments.config.as_deref(), &folder)?;
    let InForce { config, text, remarks } = found.with_flags(flags);
    for left_out in &remarks {
        warn(left_out);
    }
    let length = arguments.deadline.or(config.deadline);
    let deadline = arguments.until.or_else(|| length.map(|length| begun.after(length)));
    Ok(Launch::new(deadline, text))
}

/// The host that a command is, by the name of its program.
fn host_of(program: &Path) -> Option<Host> {
    let name = program.file_stem()?.to_str()?;
    Host::ALL.into_iter().find(|host| host.program() == Some(name))
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
    warn(&format!("{program} cannot be started: {error}{hint}"));
    ExitCode::from(code)
}
