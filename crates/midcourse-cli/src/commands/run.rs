//! `midcourse run`: starts a command, usually a coding agent, and records what it does. To observe
//! the command, it adds hooks, starts a proxy between the command and its model, or both. Hooks and
//! proxy exist only for this one use of `midcourse run`, which is called a launch.
//!
//! The command gets the terminal and the signals, and `midcourse run` exits with the command's exit
//! code. If hooks or the proxy cannot be set up, the command runs without them and a warning says
//! what is missing.

pub(super) mod child;
mod end;
#[cfg_attr(not(feature = "proxy"), path = "run/without_proxy.rs")]
mod proxied;
pub(super) mod summary;
mod time;

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use midcourse::{DataDir, Mode, Store, StoreSettings, Timestamp, now};

use super::hook::hook_command;
use crate::config::Overrides;
use crate::hosts::Host;
use crate::run_settings::{LAUNCH_VARIABLE, LaunchFolder, RunSettings};
use crate::terminal::warn;
use proxied::Proxied;
use summary::Observed;

/// Run an agent with recording, deadlines and guidance.
///
/// The command keeps its terminal, its signals and its exit code. midcourse adds hooks to `claude`
/// and `codex`, for this process only. Other commands get the address of a local proxy in
/// OPENAI_BASE_URL and ANTHROPIC_BASE_URL.
///
/// Deadlines and budgets are advisory: midcourse tells the agent what is left and never stops it. A
/// summary goes to standard error at the end.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Tell the agent it has this much time, such as 90m or "1h 30m".
    #[arg(long, value_name = "DURATION", value_parser = time::duration, conflicts_with = "until")]
    deadline: Option<std::time::Duration>,
    /// Tell the agent to be done by this time: 07:00 or "2026-11-16 07:00".
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    until: Option<Timestamp>,
    /// Give the agent a budget of this many tool calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_calls: Option<u64>,
    /// Give the agent a budget of this many tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Record messages without delivering them.
    #[arg(long)]
    shadow: bool,
    /// Send model requests through the proxy, whatever the command is.
    #[arg(long, conflicts_with = "no_proxy")]
    proxy: bool,
    /// Do not use the proxy.
    #[arg(long)]
    no_proxy: bool,
    /// Read this configuration file and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run this command.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is needed to record a launch.
struct Recording {
    data_dir: DataDir,
    settings: RunSettings,
    /// Contains the saved settings and the files that the hooks need.
    folder: LaunchFolder,
    /// Not used, but kept open while the command runs. The first process that opens the database
    /// has to recover SQLite's write-ahead log; because the store is already open, no hook has to
    /// do this. `None` if the store cannot be opened; the hooks then report why.
    _store: Option<Store>,
}

/// Runs the command and returns its exit code.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some((program, program_arguments)) = arguments.command.split_first() else {
        anyhow::bail!("no command to run");
    };
    let host = Host::of_program(Path::new(program));
    let wants_proxy = arguments.proxy || (!arguments.no_proxy && proxied::is_default(host));
    if host.is_none() && !wants_proxy && arguments.max_tokens.is_some() {
        anyhow::bail!(
            "--max-tokens cannot be counted: without the proxy only {} report tokens; leave out \
             --max-tokens or --no-proxy",
            known_programs()
        );
    }
    let started = now();
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let not_recorded = |error: &anyhow::Error| warn(&format!("{name} is not recorded: {error:#}"));
    let without_proxy =
        |error: &anyhow::Error| warn(&format!("{name} runs without the proxy: {error:#}"));

    let proxy = wants_proxy.then(prepare_proxy).transpose();
    let proxy = proxy.map_err(|error| without_proxy(&error)).ok().flatten();
    // Tells the hooks that the proxy delivers the messages. This concerns only Claude Code: no
    // other host can have both hooks and a proxy.
    let proxy_delivers = proxy.is_some() && host == Some(Host::ClaudeCode);
    let recording = prepare_recording(arguments, proxy_delivers, started)?;
    let recording = recording.map_err(|error| not_recorded(&error)).ok();

    let mut command = Command::new(program);
    command.args(program_arguments);
    let mut observed = Observed::default();
    let mut running_proxy = None;
    if let Some(recording) = &recording {
        match add_hooks(host, program, program_arguments, recording) {
            Ok(with_hooks) => {
                observed.hooks = true;
                command = Command::new(program);
                command.args(with_hooks);
            }
            // The command is not a coding agent with hooks that midcourse knows. This needs no
            // warning, because the proxy records the command.
            Err(_) if host.is_none() && proxy.is_some() => {}
            Err(error) => not_recorded(&error),
        }
        if let Some(proxy) = proxy {
            match proxy.start(recording.launch_id()) {
                Ok(()) => {
                    observed.proxy = true;
                    proxy.set_variables(&mut command);
                    running_proxy = Some(proxy);
                }
                Err(error) => without_proxy(&error),
            }
        }
        // Hooks that the user installed permanently learn the id of the launch from this variable.
        command.env(LAUNCH_VARIABLE, recording.launch_id());
    }

    let ended = child::run(&mut command);
    if running_proxy.is_some_and(|proxy| !proxy.stop()) {
        warn("the proxy stopped early; later model requests were passed on and not recorded");
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(cannot_start(program, &error)),
    };
    if let Some(Recording { data_dir, settings, .. }) = &recording {
        if observed.proxy {
            // An error is ignored: the only consequence is that these runs have no recorded end.
            let _ = end::record(data_dir, settings, started, &ended);
        }
        summary::print(data_dir, settings, started, &ended, observed);
    }
    drop(recording);
    Ok(ended.exit_like())
}

fn prepare_proxy() -> Result<Proxied> {
    Proxied::prepare(&DataDir::of_user()?)
}

impl Recording {
    fn launch_id(&self) -> &str {
        self.settings.launch_id.as_deref().unwrap_or_default()
    }
}

/// Prepares the recording. The outer `Result` is an error if the configuration file that the user
/// named is wrong; the command must then not be started. The inner `Result` is an error if the
/// command can run, but cannot be recorded.
fn prepare_recording(
    arguments: &Arguments,
    proxy_delivers: bool,
    started: Timestamp,
) -> Result<Result<Recording>> {
    let data_dir = match DataDir::of_user() {
        Ok(data_dir) => data_dir,
        Err(error) => return Ok(Err(error.into())),
    };
    let settings = settings(arguments, &data_dir, proxy_delivers, started)?;
    let folder = settings
        .save(&data_dir)
        .with_context(|| format!("cannot write to {}", data_dir.path().display()));
    Ok(folder.map(|folder| {
        let _store = Store::open(&data_dir, StoreSettings::default()).ok();
        Recording { data_dir, settings, folder, _store }
    }))
}

/// The settings for a new launch. Command-line options take precedence over configuration files.
fn settings(
    arguments: &Arguments,
    data_dir: &DataDir,
    proxy_delivers: bool,
    started: Timestamp,
) -> Result<RunSettings> {
    let overrides = Overrides {
        mode: arguments.shadow.then_some(Mode::Shadow),
        calls: arguments.max_calls.and_then(NonZeroU64::new),
        tokens: arguments.max_tokens.and_then(NonZeroU64::new),
    };
    let found = match &arguments.config {
        Some(file) => RunSettings::read(file)?,
        None => RunSettings::find(data_dir, &std::env::current_dir().unwrap_or_default()),
    };
    let settings = found.with_overrides(overrides);
    for warning in &settings.warnings {
        warn(warning);
    }
    let length = arguments.deadline.or(settings.config.deadline);
    let deadline = arguments.until.or_else(|| length.map(|length| started.after(length)));
    Ok(settings.for_new_launch(deadline, proxy_delivers))
}

/// Returns the command's arguments, changed so that the command runs midcourse's hooks. Writes the
/// files that these arguments refer to. Fails if the command is not a host that midcourse knows.
fn add_hooks(
    host: Option<Host>,
    program: &OsStr,
    arguments: &[OsString],
    recording: &Recording,
) -> Result<Vec<OsString>> {
    let host =
        host.with_context(|| format!("midcourse knows the hooks of {} only", known_programs()))?;
    let Recording { data_dir, folder, .. } = recording;
    let hook = hook_command(host, data_dir, recording.launch_id())?;
    let hooked = host.install_hooks(program, arguments, &hook, folder.path())?;
    for (name, text) in hooked.files {
        folder.write(name, text.as_bytes()).context("cannot write the hooks")?;
    }
    Ok(hooked.arguments)
}

fn known_programs() -> String {
    let names: Vec<_> = Host::ALL.into_iter().filter_map(Host::program).collect();
    names.join(" and ")
}

/// Prints why the command cannot be started. Returns the exit code that a shell uses in this case.
fn cannot_start(program: &OsStr, error: &std::io::Error) -> ExitCode {
    let program = program.to_string_lossy();
    let (code, hint) = match error.kind() {
        std::io::ErrorKind::NotFound => (127, "; is it installed and in PATH?"),
        _ => (126, ""),
    };
    warn(&format!("cannot start {program}: {error}{hint}"));
    ExitCode::from(code)
}
