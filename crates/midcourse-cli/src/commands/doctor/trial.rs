//! Tries installed hooks: plays an agent that repeats a failing command, starts the hooks as the host
//! would, and looks for midcourse's message in their replies. The hooks record into a scratch folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use midcourse::{
    DATA_DIR_VARIABLE, DataDir, Ingested, Mode, Store, StoreSettings, SyncedEngine, ingest, now,
};

use super::super::stats::median;
use super::Place;
use super::finding::Finding;
use super::hook_command::HookCommand;
use super::process::{self, Finished};
use super::scratch::Scratch;
use super::settings::{PLUGIN_EVENT, SettingsFile};
use crate::display::one_line;
use crate::hosts::{Host, Sample};
use crate::run_settings::{LAUNCH_VARIABLE, RunSettings};

const CHECK: &str = "trial";

/// How many failing calls are made. With the built-in settings, a message is due after the third.
const MAX_CALLS: u32 = 6;

/// How long one hook may take before the trial ends. It is far longer than any hook should take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of characters that are shown of what a hook printed.
const SHOWN_CHARS: usize = 160;

/// Tries the hooks of a settings file.
pub(super) fn check(host: Host, file: &SettingsFile, place: &Place) -> Finding {
    let install = format!("`{}`", file.install_command(host));
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            return Finding::warning(
                CHECK,
                format!("the hooks were not tried: no scratch folder: {error}"),
                "free some space in the folder for temporary files, or set TMPDIR to another",
            );
        }
    };
    let trial = Trial { host, file, place, scratch: &scratch };
    match trial.run() {
        Err(Failure { detail, remedy }) => {
            let remedy = remedy.unwrap_or_else(|| format!("{install}, then `midcourse doctor`"));
            Finding::problem(CHECK, detail, remedy)
        }
        Ok(played) => trial.judge(&played, &install),
    }
}

struct Trial<'a> {
    host: Host,
    file: &'a SettingsFile,
    place: &'a Place,
    scratch: &'a Scratch,
}

/// What happened in a trial without an error.
struct Played {
    /// How long each hook took.
    times: Vec<Duration>,
    calls: u32,
    /// The event at which the message came; `None` if there was no message.
    message_at: Option<&'static str>,
    /// What a hook printed that is not a reply the host would understand.
    odd_output: Option<String>,
}

struct Failure {
    detail: String,
    /// `None` if installing again is the remedy.
    remedy: Option<String>,
}

impl Failure {
    fn of(detail: String) -> Self {
        Self { detail, remedy: None }
    }
}

impl Trial<'_> {
    /// Runs the hooks until a message comes.
    fn run(&self) -> Result<Played, Failure> {
        let mut played = Played { times: Vec::new(), calls: 0, message_at: None, odd_output: None };
        let cwd = self.place.cwd.to_string_lossy().into_owned();
        let commands = self.commands();
        while played.message_at.is_none() && played.calls < MAX_CALLS {
            for sample in self.host.samples(&cwd, played.calls) {
                // The host starts no hook for an event that has none.
                let Some(command) =
                    commands.get(sample.event).or_else(|| commands.get(PLUGIN_EVENT))
                else {
                    continue;
                };
                let bytes = sample.payload.to_string().into_bytes();
                let form = self.host.decode(&bytes, now()).reply;
                let finished = self.start(command, &sample, bytes)?;
                played.times.push(finished.took);
                let message = form.and_then(|form| form.message_in(&finished.stdout));
                if message.is_some() {
                    played.message_at = Some(sample.event);
                } else if !finished.stdout.trim_ascii().is_empty() {
                    played.odd_output = Some(shown(&finished.stdout));
                }
            }
            played.calls = played.calls.saturating_add(1);
        }
        Ok(played)
    }

    /// The command of each event.
    fn commands(&self) -> BTreeMap<&str, HookCommand> {
        let hooks = self.file.hooks().iter();
        let parsed = hooks
            .filter_map(|hook| Some((hook.event.as_str(), HookCommand::parse(&hook.command)?)));
        parsed.collect()
    }

    fn start(
        &self,
        hook: &HookCommand,
        sample: &Sample,
        payload: Vec<u8>,
    ) -> Result<Finished, Failure> {
        let mut command = self.command(hook)?;
        command.current_dir(&self.place.cwd).env(DATA_DIR_VARIABLE, self.scratch.path());
        // A launch belongs to another data directory.
        command.env_remove(LAUNCH_VARIABLE);
        let event = sample.event;
        let finished = process::run(&mut command, payload, TIME_LIMIT)
            .map_err(|error| Failure::of(format!("the hook of {event} failed: {error}")))?;
        let stderr = shown(&finished.stderr);
        match finished.code {
            Some(0) if stderr.is_empty() => Ok(finished),
            Some(0) => Err(Failure::of(format!("the hook of {event} printed an error: {stderr}"))),
            code => {
                let code =
                    code.map_or_else(|| "a signal".to_owned(), |it| format!("exit code {it}"));
                Err(Failure::of(format!("the hook of {event} ended with {code}: {stderr}")))
            }
        }
    }

    /// The process that the host would start, with the scratch folder as the data directory.
    fn command(&self, hook: &HookCommand) -> Result<Command, Failure> {
        let home = self.scratch.path().to_string_lossy();
        let program = hook.program_file().unwrap_or_default();
        // opencode starts the program itself. So does the trial for a file of the project: its text
        // could contain anything, and only this program is started from there.
        if self.host == Host::Opencode || self.file.is_project {
            let words = hook.words_in(&home, &program.to_string_lossy());
            let (program, arguments) =
                words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            let mut command = Command::new(program);
            command.args(arguments);
            return Ok(command);
        }
        let text = hook.text_in(&home).ok_or_else(|| {
            Failure::of("the command of the hooks is too unusual to be tried".to_owned())
        })?;
        let shell = match self.host {
            _ if cfg!(windows) => ["cmd", "/C"],
            Host::Copilot => ["bash", "-c"],
            _ => ["sh", "-c"],
        };
        let [shell, option] = shell;
        let mut command = Command::new(shell);
        command.args([option, &text]);
        Ok(command)
    }

    fn judge(&self, played: &Played, install: &str) -> Finding {
        let Played { times, calls, message_at, odd_output } = played;
        let count = times.len();
        let Some(middle) = median(times.clone()) else {
            return Finding::problem(
                CHECK,
                "no hook is installed for the start and the end of a call",
                format!("{install} adds what is missing"),
            );
        };
        let speed = format!("a hook took {:.1} ms (median of {count})", middle.as_secs_f64() * 1e3);
        if let Some(event) = message_at {
            return Finding::ok(
                CHECK,
                format!("{calls} failing calls gave a message at {event}; {speed}"),
            );
        }
        let recorded = self.recorded_calls();
        if recorded > 0 && !self.expects_message() {
            return Finding::note(
                CHECK,
                format!(
                    "{calls} failing calls were recorded; the configuration gives no message \
                         about them; {speed}"
                ),
                "nothing if you want that, otherwise see the configuration below",
            );
        }
        let log = std::fs::read_to_string(DataDir::at(self.scratch.path()).log_file());
        let log = log.unwrap_or_default();
        let mut detail = match recorded {
            0 => "the hooks ran, but recorded nothing and gave no message".to_owned(),
            _ => format!("{calls} failing calls were recorded, but no message came out"),
        };
        if let Some(output) = odd_output {
            detail.push_str(&format!("; a hook printed: {output}"));
        }
        if let Some(line) = log.lines().last() {
            detail.push_str(&format!("; hook.log: {}", one_line(line, SHOWN_CHARS)));
        }
        Finding::problem(
            CHECK,
            detail,
            format!(
                "if the hooks start a script of yours, let it pass on the output of midcourse; \
                 otherwise {install}"
            ),
        )
    }

    /// How many calls the scratch store contains.
    fn recorded_calls(&self) -> u64 {
        let store = Store::open_read_only(&DataDir::at(self.scratch.path())).ok().flatten();
        let runs = store.and_then(|store| store.runs(usize::MAX).ok()).unwrap_or_default();
        runs.iter().map(|run| run.calls).sum()
    }

    /// Whether the configuration that the hooks read asks for a message in this trial. Evaluates the
    /// same payloads in this process.
    fn expects_message(&self) -> bool {
        let settings = self.settings();
        if settings.mode() == Mode::Shadow {
            return false;
        }
        let engine = SyncedEngine::new(settings.engine(self.host.delivery_policy(), false));
        let (Ok(mut engine), Ok(scratch)) = (engine, Scratch::new()) else { return true };
        let data_dir = DataDir::at(scratch.path());
        let cwd = self.place.cwd.to_string_lossy().into_owned();
        let samples = (0..MAX_CALLS).flat_map(|call| {
            self.host.samples(&cwd, call).into_iter().map(move |sample| (call, sample))
        });
        for (call, sample) in samples {
            let bytes = sample.payload.to_string().into_bytes();
            let mut decoded = self.host.decode(&bytes, now());
            if decoded.unnamed_call.is_some() {
                decoded.set_call_id(&format!("call-{call}"));
            }
            let has_message = decoded.events.into_iter().fold(false, |found, event| {
                let stored = ingest(&data_dir, &StoreSettings::default(), event, &mut engine);
                let Ok(Ingested::Stored { step, .. }) = stored else { return found };
                found || !step.deliveries.is_empty()
            });
            if has_message && decoded.reply.is_some() {
                return true;
            }
        }
        false
    }

    /// The settings that the hooks use in the trial. The scratch folder has no approvals, so the
    /// project's configuration does not apply.
    fn settings(&self) -> RunSettings {
        let commands = self.file.commands();
        let config = commands.first().and_then(HookCommand::data_dir);
        let data_dir = DataDir::at(self.scratch.path());
        let data_dir = match config {
            Some(config) => data_dir.with_config_file(config.config_file()),
            None => data_dir,
        };
        RunSettings::find(&data_dir, Path::new(""))
    }
}

fn shown(output: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(output), SHOWN_CHARS)
}
