//! `midcourse statusline`: one line for the status line of Claude Code.
//!
//! Claude Code runs the command after each of its own updates, with a description of the session on
//! standard input. The command only reads the store. It never fails: whatever goes wrong, it prints a
//! short line and its exit code is 0.

use std::ffi::OsString;
use std::io::{Read as _, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser as _;
use midcourse::{DataDir, Mode, RunSummary, Store, StoreError, Timestamp, TrajectoryPayload, now};
use serde::Deserialize;

use crate::display::{counted, duration, one_line};
use crate::run_settings::{LaunchId, RunSettings};

/// Maximum number of characters shown of the last message.
const MESSAGE_WIDTH: usize = 48;

/// Maximum number of bytes that are read from standard input.
const MAX_INPUT: u64 = 1 << 20;

/// Print a status line for Claude Code.
///
/// Claude Code runs this command and passes it the session as JSON on standard input; `midcourse
/// install claude-code` sets it up. The line says what was recorded, the last message to the agent,
/// and the time left. The exit code is always 0.
#[derive(Default, clap::Args)]
pub(super) struct Arguments {
    /// Read this data directory instead of the user's.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Use this configuration file instead of midcourse.toml in the data directory.
    #[arg(long, value_name = "FILE", requires = "home")]
    config: Option<PathBuf>,
    /// Run this shell command first, with the same input, and print its output above.
    #[arg(long, value_name = "COMMAND")]
    wrap: Option<String>,
}

// A parser of its own, because the parser of all commands takes longer to build.
#[derive(clap::Parser)]
#[command(name = "midcourse statusline", no_binary_name = true, max_term_width = 100)]
struct StatusLineCli {
    #[command(flatten)]
    arguments: Arguments,
}

/// What Claude Code says about the session. Fields that are missing or have another type are ignored.
#[derive(Debug, Default, Deserialize)]
struct InputWire {
    #[serde(default)]
    session_id: serde_json::Value,
    #[serde(default)]
    cwd: serde_json::Value,
}

pub(super) fn run(words: Vec<OsString>) -> ExitCode {
    let mut out = stdout().lock();
    let arguments = match StatusLineCli::try_parse_from(words) {
        Ok(StatusLineCli { arguments }) => arguments,
        Err(error) if !error.use_stderr() => {
            let _ = write!(out, "{error}");
            return ExitCode::SUCCESS;
        }
        Err(_) => {
            let _ =
                writeln!(out, "midcourse: wrong arguments; run `midcourse install claude-code`");
            return ExitCode::SUCCESS;
        }
    };
    let mut input = Vec::new();
    let _ = stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    if let Some(command) = &arguments.wrap {
        let theirs = wrapped_output(command, &input);
        let _ = out.write_all(&theirs);
        if !theirs.is_empty() && !theirs.ends_with(b"\n") {
            let _ = writeln!(out);
        }
        let _ = out.flush();
    }
    let input: InputWire = serde_json::from_slice(&input).unwrap_or_default();
    let _ = writeln!(out, "midcourse: {}", line(&arguments, &input));
    ExitCode::SUCCESS
}

/// What another status line prints; nothing if it cannot be started.
fn wrapped_output(command: &str, input: &[u8]) -> Vec<u8> {
    let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
    let [program, option] = shell;
    let child = Command::new(program)
        .args([option, command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return Vec::new() };
    let pipe = child.stdin.take();
    std::thread::scope(|scope| {
        // In a thread, because the command may print before it has read everything, or read nothing.
        scope.spawn(move || pipe.map(|mut pipe| pipe.write_all(input)));
        child.wait_with_output().map(|output| output.stdout).unwrap_or_default()
    })
}

fn line(arguments: &Arguments, input: &InputWire) -> String {
    let data_dir = match &arguments.home {
        Some(home) => Ok(DataDir::at(home)),
        None => DataDir::of_user(),
    };
    let Ok(data_dir) = data_dir else { return "no data directory".to_owned() };
    let data_dir = match &arguments.config {
        Some(config) => data_dir.with_config_file(config.clone()),
        None => data_dir,
    };
    let session = input.session_id.as_str().unwrap_or_default();
    let status = match Status::read(&data_dir, session) {
        Ok(Some(status)) => status,
        Ok(None) => return "nothing recorded yet".to_owned(),
        Err(_) => return "the store cannot be read".to_owned(),
    };
    let cwd = input.cwd.as_str().map(PathBuf::from);
    let launch = LaunchId::in_environment();
    let settings = RunSettings::for_event(Some(&data_dir), launch.as_ref(), cwd.as_deref());
    // A deadline in the configuration counts from the start of the run.
    let in_config = || Some(status.run.started.after(settings.config.deadline?));
    let deadline = settings.deadline.or_else(in_config);
    status.line(now(), deadline, settings.mode() == Mode::Shadow)
}

/// What the store contains about a session.
struct Status {
    run: RunSummary,
    /// The last message to the agent, and when it was delivered.
    message: Option<(Timestamp, String)>,
}

impl Status {
    fn read(data_dir: &DataDir, session: &str) -> Result<Option<Self>, StoreError> {
        let Some(store) = Store::open_read_only(data_dir)? else { return Ok(None) };
        let Some(run) = store.run(session)? else { return Ok(None) };
        let kinds = ["feedback_delivered", "guidance_delivered"];
        let message = match run.deliveries {
            // Most runs have no message. Do not search all of their records for one.
            0 => None,
            _ => store.latest_record_of(session, &kinds)?.filter(|it| it.payload.reached_agent()),
        };
        let message = message.and_then(|record| {
            let at = record.at();
            match record.payload {
                TrajectoryPayload::FeedbackDelivered { text, .. } => Some((at, text)),
                TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
                    Some((at, guidance.injection.content().to_owned()))
                }
                _ => None,
            }
        });
        Ok(Some(Self { run, message }))
    }

    fn line(&self, now: Timestamp, deadline: Option<Timestamp>, is_shadow: bool) -> String {
        let state = if is_shadow { "recording (shadow)" } else { "recording" };
        let mut parts = vec![state.to_owned(), counted(self.run.calls, "call")];
        if self.run.errors > 0 {
            parts.push(format!("{} failed", self.run.errors));
        }
        if let Some(deadline) = deadline {
            parts.push(match deadline > now {
                true => format!("{} left", duration(deadline.since(now))),
                false => "the deadline is over".to_owned(),
            });
        }
        if let Some((at, text)) = &self.message {
            let age = duration(now.since(*at));
            parts.push(format!("{age} ago: {}", one_line(text, MESSAGE_WIDTH)));
        }
        parts.join(" · ")
    }
}
