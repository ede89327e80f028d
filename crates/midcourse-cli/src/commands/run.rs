//! `midcourse run`: starts a command with hooks, or with a proxy between it and its model, or both,
//! for this process only.
//!
//! The command keeps its terminal, its signals and its exit code. If hooks or the proxy cannot be
//! set up, the command runs without them and a warning says what is missing.

pub(super) mod child;
mod end;
mod opening;
mod program;
#[cfg_attr(not(all(unix, feature = "proxy")), path = "run/without_proxy.rs")]
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
use crate::hosts::{Environment, Host, WithProxy};
use crate::run_settings::{LAUNCH_VARIABLE, LaunchFolder, Launched, RunSettings};
use crate::shell::shell_quote;
use crate::terminal::warn;
use program::Found;
use proxied::{Plan, Proxied};
use summary::Observed;

/// Run an agent with recording, deadlines and guidance.
///
/// The command keeps its terminal, its signals and its exit code. midcourse adds hooks to claude,
/// codex, copilot, gemini, opencode and qwen, for this process only. For other commands: if a base
/// URL such as OPENAI_BASE_URL is in the environment, model requests go through midcourse to that
/// same server; for aider, gptme, llm, mini and openhands, midcourse opens their HTTPS connections
/// to model APIs. Any other command runs as it is; add --proxy=intercept to record it.
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
    /// Choose how model requests reach midcourse, or `off`.
    ///
    /// `intercept`: for the command only, HTTPS connections to model APIs go through midcourse, which
    /// opens them with a certificate authority of its own; all other connections pass unread.
    /// `redirect`: base URLs in the environment, such as OPENAI_BASE_URL, lead to a local proxy.
    /// `off`: no proxy; hooks stay.
    #[arg(long, value_name = "HOW", require_equals = true, value_enum)]
    proxy: Option<ProxyChoice>,
    /// Read this configuration file and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run this command, with everything that follows as its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How model requests reach midcourse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ProxyChoice {
    /// Open HTTPS connections to model APIs.
    Intercept,
    /// Redirect base URLs that are in the environment.
    Redirect,
    /// Read no model requests.
    Off,
}

/// What is needed to record one use of `midcourse run` (a launch).
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
    let Some(program) = arguments.command.first() else {
        anyhow::bail!("no command to run");
    };
    let started = now();
    let found = program::find(&arguments.command);
    let agent = found.as_ref().map(Found::agent);
    let host = agent.and_then(|agent| agent.host);
    let name = agent.map_or_else(|| file_name(program), |agent| agent.name.to_owned());
    let not_recorded = |error: &anyhow::Error| warn(&format!("{name} is not recorded: {error:#}"));
    let without_proxy =
        |error: &anyhow::Error| warn(&format!("{name} runs without the proxy: {error:#}"));

    let mut plan = Plan::default();
    let recording = match DataDir::of_user() {
        Err(error) => Err(error.into()),
        Ok(data_dir) => {
            let settings = settings(arguments, &data_dir)?;
            let decided = Plan::decide(arguments.proxy, agent, &name, &data_dir, &settings);
            plan = decided.map_err(|error| without_proxy(&error)).unwrap_or_default();
            // Tells the hooks that the proxy delivers the messages.
            let proxy_delivers = !plan.is_empty() && host.is_some();
            Recording::prepare(arguments, data_dir, settings, proxy_delivers, started)
        }
    };
    let recording = recording.map_err(|error| not_recorded(&error)).ok();

    let mut words = arguments.command.clone();
    let mut environment = Vec::new();
    let mut observed = Observed::default();
    let mut proxy = None;
    if let Some(recording) = &recording {
        let has_hooks =
            |host: Host| plan.is_empty() || host.capabilities().with_proxy != WithProxy::Proxy;
        if let Some(found) = found.filter(|_| host.is_some_and(has_hooks)) {
            match add_hooks(found, &words, recording) {
                Ok(with_hooks) => {
                    observed.hooks = true;
                    (words, environment) = with_hooks;
                }
                Err(error) => not_recorded(&error),
            }
        }
        if let Some(note) = &plan.note {
            warn(note);
        }
        if !plan.is_empty() {
            let is_full_screen = agent.is_some_and(|agent| agent.is_full_screen);
            match Proxied::start(plan, recording, &name, is_full_screen) {
                Ok(started) => proxy = Some(started),
                Err(error) => without_proxy(&error),
            }
        }
        observed.proxy = proxy.is_some();
        let reports_tokens = host.is_some_and(|host| host.capabilities().reports_tokens);
        let counts_tokens = observed.proxy || (observed.hooks && reports_tokens);
        if recording.settings.counts_tokens() && !counts_tokens {
            warn("the token budget cannot be counted, because midcourse sees no model requests");
        }
        opening::print(&name, observed, &recording.settings);
    }
    let mut command = Command::new(program);
    command.args(words.get(1..).unwrap_or_default()).envs(environment);
    if let Some(recording) = &recording {
        // Hooks that the user installed permanently learn the id of the launch from this variable.
        command.env(LAUNCH_VARIABLE, recording.launch_id());
    }
    if let Some(proxy) = &proxy {
        proxy.set_variables(&mut command);
    }

    #[cfg(feature = "fleet")]
    if let Some(recording) = &recording {
        super::ship::start(&recording.data_dir);
    }
    let ended = child::run(&mut command);
    if proxy.as_ref().is_some_and(|proxy| !proxy.stop()) {
        warn("the proxy stopped early; some model requests were passed on and not recorded");
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(cannot_start(program, &error)),
    };
    if let Some(Recording { data_dir, settings, .. }) = &recording {
        // Ignore an error: the only consequence is that these runs have no recorded end.
        let _ = end::record(data_dir, settings, started, &ended);
        let unread = proxy.as_ref().and_then(Proxied::report);
        summary::print(data_dir, settings, started, &ended, observed, unread.as_deref());
    }
    if let Some(recording) = recording {
        super::retention::start(&recording.data_dir);
    }
    Ok(ended.exit_like())
}

impl Recording {
    /// Saves the settings of a new launch.
    fn prepare(
        arguments: &Arguments,
        data_dir: DataDir,
        settings: RunSettings,
        proxy_delivers: bool,
        started: Timestamp,
    ) -> Result<Self> {
        let length = arguments.deadline.or(settings.config.deadline);
        let deadline = arguments.until.or_else(|| length.map(|length| started.after(length)));
        let launched = Launched::new(
            &arguments.command,
            std::env::current_dir().ok().as_deref(),
            &settings.config.redaction(),
        );
        let settings =
            RunSettings { launched, ..settings.for_new_launch(deadline, proxy_delivers) };
        let folder = settings
            .save(&data_dir)
            .with_context(|| format!("cannot write to {}", data_dir.path().display()))?;
        let _store = Store::open(&data_dir, StoreSettings::default()).ok();
        Ok(Self { data_dir, settings, folder, _store })
    }

    fn launch_id(&self) -> &str {
        self.settings.launch_id.as_deref().unwrap_or_default()
    }
}

/// The settings of this command. Command-line options take precedence over configuration files.
/// Fails if the configuration file that the user named is wrong; the command must then not be
/// started.
fn settings(arguments: &Arguments, data_dir: &DataDir) -> Result<RunSettings> {
    let overrides = Overrides {
        mode: arguments.shadow.then_some(Mode::Shadow),
        calls: arguments.max_calls.and_then(NonZeroU64::new),
        tokens: arguments.max_tokens.and_then(NonZeroU64::new),
        // The deadline of a launch counts from the launch, also for a resumed run.
        deadline: None,
    };
    let found = match &arguments.config {
        Some(file) => RunSettings::read(file)?,
        None => RunSettings::find(data_dir, &std::env::current_dir().unwrap_or_default()),
    };
    let settings = found.with_overrides(overrides);
    for warning in &settings.warnings {
        warn(warning);
    }
    Ok(settings)
}

/// Returns the command, changed so that its agent runs midcourse's hooks, and environment variables
/// for it. Writes the files that these refer to.
fn add_hooks(
    found: Found,
    command: &[OsString],
    recording: &Recording,
) -> Result<(Vec<OsString>, Environment)> {
    let (words, at) = match &found {
        Found::Argument { at, .. } => (command, *at),
        Found::Script { words, word, .. } => (words.as_slice(), *word),
        Found::InsideScript { agent } => anyhow::bail!(
            "it is started by a shell script; start `{}` directly, or put its hooks into its own \
             settings",
            agent.name
        ),
    };
    let Some(host) = found.agent().host else { anyhow::bail!("midcourse knows no hooks for it") };
    let (starter, arguments) = words.split_at_checked(at.saturating_add(1)).unwrap_or((words, &[]));
    let Recording { data_dir, folder, .. } = recording;
    let hook = hook_command(host, data_dir, recording.launch_id())?;
    let hooked = host.install_hooks(starter, arguments, &hook, folder.path())?;
    for (name, text) in hooked.files {
        folder.write(name, text.as_bytes()).context("cannot write the hooks")?;
    }
    let changed: Vec<OsString> = starter.iter().cloned().chain(hooked.arguments).collect();
    let environment = hooked.environment;
    let Found::Script { at, .. } = found else { return Ok((changed, environment)) };
    let script: Option<Vec<String>> =
        changed.iter().map(|word| Some(shell_quote(word.to_str()?))).collect();
    let script = script.context("its arguments are not text")?.join(" ");
    let mut command = command.to_vec();
    if let Some(word) = command.get_mut(at) {
        *word = script.into();
    }
    Ok((command, environment))
}

fn file_name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
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
