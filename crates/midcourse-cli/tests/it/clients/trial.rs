//! A trial: one run of a coding agent (the client) in temporary folders, with a scripted model
//! server and, in most trials, midcourse's hooks or proxy.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use midcourse::Store;
use midcourse::{LABEL, RunSummary, TrajectoryPayload, TrajectoryRecord};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::anthropic::Messages;
use super::hook_events;
use super::model::{Model, ModelRequest};
use super::openai::Responses;
use super::recorded::RecordedData;
use super::script::{Requester, Script, TASK};
use super::{Client, times};

/// After this time a client counts as hanging and is killed. Normally it needs some seconds, even
/// on a busy machine.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(180);

/// How midcourse is connected to the client.
pub(crate) enum Hooks {
    None,
    /// `midcourse run` with these options, without its proxy.
    Run(&'static [&'static str]),
    /// `midcourse run` with these options, with its proxy.
    Proxied(&'static [&'static str]),
    /// The client is started directly; its settings contain this command for every hook event.
    Installed(String),
    /// `midcourse run` without its proxy, and midcourse's hooks also in the client's settings.
    Twice,
}

pub(crate) const RUN: Hooks = Hooks::Run(&[]);

/// Everything that one run of the client needs. `run` starts the client.
pub(crate) struct Trial {
    client: Client,
    program: PathBuf,
    folder: TempDir,
    model: Model,
    /// The URL to which Claude Code sends its model requests: that of the model server, unless a
    /// test sets the URL of a proxy.
    address: String,
    data_dir: PathBuf,
    /// Additional arguments for the client.
    words: Vec<String>,
}

/// What the client printed, what it sent to the model, and what midcourse recorded.
pub(crate) struct Ended {
    pub(crate) client: Client,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) requests: Vec<ModelRequest>,
    recorded: RecordedData,
    folder: TempDir,
}

impl Trial {
    /// Creates a trial; `None` if the tests are skipped.
    pub(crate) fn of(client: Client, script: Script) -> Option<Self> {
        let program = client.program()?;
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "config", "project", "cache"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let model = match client {
            Client::ClaudeCode => Model::start::<Messages>(script),
            Client::Codex => Model::start::<Responses>(script),
        };
        let data_dir = folder.path().join("midcourse");
        let address = format!("http://{}", model.address);
        Some(Self { client, program, folder, model, address, data_dir, words: Vec::new() })
    }

    pub(crate) fn with_data_dir(self, data_dir: PathBuf) -> Self {
        Self { data_dir, ..self }
    }

    pub(crate) fn with_address(self, address: String) -> Self {
        Self { address, ..self }
    }

    pub(crate) fn with_words(self, words: &[&str]) -> Self {
        Self { words: words.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }

    pub(crate) const fn model(&self) -> SocketAddr {
        self.model.address
    }

    pub(crate) const fn client_kind(&self) -> Client {
        self.client
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a shell script with these lines, for the client to run at every hook event.
    pub(crate) fn hook_script(&self, lines: &str) -> Hooks {
        let path = self.folder().join("hook");
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Hooks::Installed(path.to_str().unwrap().to_owned())
    }

    pub(crate) fn run(self, hooks: &Hooks) -> Ended {
        self.write_settings(hooks);
        let output = self.start(hooks, false);
        self.ended(output)
    }

    /// Runs the client, and runs it again to resume the same session.
    pub(crate) fn run_and_resume(self, hooks: &Hooks) -> Ended {
        self.write_settings(hooks);
        let output = self.start(hooks, false);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = self.start(hooks, true);
        self.ended(output)
    }

    /// Runs the bare client between two steps, which install and uninstall hooks.
    pub(crate) fn run_between(
        self,
        install: impl FnOnce(&Self),
        uninstall: impl FnOnce(&Self),
    ) -> Ended {
        self.write_settings(&Hooks::None);
        install(&self);
        // The user has approved the hooks: Codex gets the option that says so.
        let output = self.start(&Hooks::Installed(String::new()), false);
        uninstall(&self);
        self.ended(output)
    }

    /// Runs `midcourse` in the environment of the client. It must succeed.
    pub(crate) fn midcourse(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(arguments);
        self.successful(command)
    }

    /// Runs `midcourse doctor` in the environment of the client. It may find problems: the hooks of a
    /// trial have more time than the client gives them.
    pub(crate) fn doctor(&self) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(["doctor", "--json", self.client.host()]);
        self.set_environment(&mut command);
        serde_json::from_slice(&run_to_end(command).stdout).unwrap()
    }

    /// Runs the client itself with these arguments. It must succeed.
    pub(crate) fn client(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        self.successful(command)
    }

    fn successful(&self, mut command: Command) -> String {
        self.set_environment(&mut command);
        let output = run_to_end(command);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self, hooks: &Hooks, resumes: bool) -> Output {
        let mut command = self.command(hooks, resumes);
        self.set_environment(&mut command);
        run_to_end(command)
    }

    fn set_environment(&self, command: &mut Command) {
        let folder = |name: &str| self.folder().join(name);
        let config = match self.client {
            Client::ClaudeCode => "CLAUDE_CONFIG_DIR",
            Client::Codex => "CODEX_HOME",
        };
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder("home"))
            .env("XDG_CACHE_HOME", folder("cache"))
            .env(config, folder("config"))
            .env("ANTHROPIC_BASE_URL", &self.address)
            .env("ANTHROPIC_API_KEY", "dummy")
            .env("SCRIPTED_KEY", "dummy")
            .env("MIDCOURSE_HOME", &self.data_dir)
            // A minute is long enough even on a busy machine, so no hook gives up and no message is
            // late.
            .env("MIDCOURSE_HOOK_TIMEOUT_MS", "60000")
            .env("MIDCOURSE_PROXY_MAX_WAIT_MS", "60000")
            .current_dir(folder("project"));
        for name in [
            "DISABLE_TELEMETRY",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        ] {
            command.env(name, "1");
        }
    }

    fn ended(self, output: Output) -> Ended {
        Ended {
            client: self.client,
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            requests: self.model.requests(),
            recorded: RecordedData::at(self.data_dir),
            folder: self.folder,
        }
    }

    /// The command that starts the client, directly or through `midcourse run`. If `resumes` is
    /// set, the client continues its last session.
    fn command(&self, hooks: &Hooks, resumes: bool) -> Command {
        let mut command = match hooks {
            Hooks::None | Hooks::Installed(_) => Command::new(&self.program),
            Hooks::Run(_) | Hooks::Proxied(_) | Hooks::Twice => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
                command.arg("run");
                // With the proxy, messages reach the agent at other places than with hooks alone,
                // so only the trials that expect the proxy (`Proxied`) use it.
                match hooks {
                    Hooks::Proxied(options) => command.arg("--proxy=redirect").args(*options),
                    Hooks::Run(options) => command.arg("--proxy=off").args(*options),
                    _ => command.arg("--proxy=off"),
                };
                command.arg("--").arg(&self.program);
                command
            }
        };
        let prompt = if resumes { "Go on." } else { TASK };
        match self.client {
            Client::ClaudeCode => {
                command.args(["-p", prompt, "--output-format", "json"]);
                command.args(["--allowedTools", "Bash,Read,Write,Edit,Agent"]);
                command.args(&self.words);
                if resumes {
                    command.arg("--continue");
                }
            }
            Client::Codex => {
                command.arg("exec");
                if resumes {
                    command.args(["resume", "--last"]);
                }
                command.args(["--json", "--skip-git-repo-check"]);
                command.arg("--dangerously-bypass-approvals-and-sandbox");
                if matches!(hooks, Hooks::Installed(_) | Hooks::Twice) {
                    command.arg("--dangerously-bypass-hook-trust");
                }
                command.arg(prompt);
            }
        }
        command
    }

    /// Writes the client's settings: forbidden commands, the model's address, and installed hooks.
    fn write_settings(&self, hooks: &Hooks) {
        let config = self.folder().join("config");
        let hooks = match hooks {
            Hooks::None | Hooks::Run(_) | Hooks::Proxied(_) => Value::Null,
            Hooks::Installed(command) => self.hooks(command),
            Hooks::Twice => self.hooks(&self.hook_command()),
        };
        match self.client {
            Client::ClaudeCode => {
                let mut settings = json!({"permissions": {"deny": ["Bash(curl:*)"]}});
                if !hooks.is_null() {
                    settings["hooks"] = hooks;
                }
                fs::write(config.join("settings.json"), settings.to_string()).unwrap();
            }
            Client::Codex => {
                let settings = format!(
                    "model = \"scripted\"\nmodel_provider = \"scripted\"\n\
                     [model_providers.scripted]\nname = \"scripted\"\n\
                     base_url = \"http://{}/v1\"\nwire_api = \"responses\"\n\
                     env_key = \"SCRIPTED_KEY\"\n",
                    self.model.address
                );
                fs::write(config.join("config.toml"), settings).unwrap();
                let rule = "prefix_rule(pattern=[\"curl\"], decision=\"forbidden\")\n";
                fs::create_dir(config.join("rules")).unwrap();
                fs::write(config.join("rules/default.rules"), rule).unwrap();
                if !hooks.is_null() {
                    let hooks = json!({"hooks": hooks}).to_string();
                    fs::write(config.join("hooks.json"), hooks).unwrap();
                }
            }
        }
    }

    pub(crate) fn hook_command(&self) -> String {
        format!("{} hook {}", env!("CARGO_BIN_EXE_midcourse"), self.client.host())
    }

    fn hooks(&self, command: &str) -> Value {
        let events = match self.client {
            Client::ClaudeCode => &hook_events::CLAUDE_CODE[..],
            Client::Codex => &hook_events::CODEX,
        };
        let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
        let hooks: Map<String, Value> =
            events.iter().map(|event| ((*event).to_owned(), hook.clone())).collect();
        Value::Object(hooks)
    }
}

/// Runs a command until it ends. If it hangs, kills it and all processes it started, and fails.
pub(crate) fn run_to_end(mut command: Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = rustix::process::Pid::from_child(&child);
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(CLIENT_TIMEOUT) else {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let output = receive.recv_timeout(CLIENT_TIMEOUT);
        panic!("hangs: {command:?}: {output:?}");
    };
    output.unwrap()
}

impl Ended {
    /// The bodies of all model requests that `requester` sent.
    pub(crate) fn requests_of(&self, requester: Requester) -> Vec<&Value> {
        let requests = self.requests.iter().filter(|request| request.requester == requester);
        requests.map(|request| &request.body).collect()
    }

    /// Checks that the client succeeded, and that this was the model's last message.
    #[track_caller]
    pub(crate) fn assert_finished(&self, message: &str) {
        let ended = (self.code, self.final_message());
        assert_eq!(ended, (Some(0), message.to_owned()), "{}", self.stderr);
    }

    /// The model's last message, as the client printed it.
    pub(crate) fn final_message(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match self.client {
            Client::ClaudeCode => {
                let result: Value = serde_json::from_str(&self.stdout)
                    .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr));
                text(&result["result"])
            }
            Client::Codex => {
                let is_message = |line: &&Value| line["item"]["type"] == "agent_message";
                let lines = self.lines();
                lines
                    .iter()
                    .rfind(is_message)
                    .map_or_else(String::new, |it| text(&it["item"]["text"]))
            }
        }
    }

    /// Standard output, one JSON value per line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The results of the main agent's calls. The last model request contains all of them.
    pub(crate) fn results(&self) -> Vec<String> {
        let requests = self.requests_of(Requester::Main);
        let Some(last) = requests.last() else { return Vec::new() };
        match self.client {
            Client::ClaudeCode => {
                let messages = last["messages"].as_array().unwrap().iter();
                let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
                let results = blocks.filter(|block| block["type"] == "tool_result");
                results.map(|it| format!("{} {}", it["tool_use_id"], it["content"])).collect()
            }
            Client::Codex => {
                let items = last["input"].as_array().unwrap().iter();
                let outputs = items.filter(|item| item["type"] == "function_call_output");
                let line =
                    |line: &&str| !line.starts_with("Chunk ID:") && !line.starts_with("Wall time:");
                let stable =
                    |output: &str| output.lines().filter(line).collect::<Vec<_>>().join("\n");
                outputs
                    .map(|it| {
                        format!("{} {}", it["call_id"], stable(it["output"].as_str().unwrap()))
                    })
                    .collect()
            }
        }
    }

    /// For each request of the main agent, how often it contains the label with which midcourse's
    /// messages begin.
    pub(crate) fn label_counts(&self) -> Vec<usize> {
        let requests = self.requests_of(Requester::Main);
        requests.into_iter().map(|body| times(body, LABEL)).collect()
    }

    /// Opens the store. Fails if `verify` finds a problem in it.
    pub(crate) fn store(&self) -> Store {
        self.recorded.store()
    }

    /// Checks that `midcourse replay` computes, for each stored run, exactly the messages that the
    /// agent got during the run.
    pub(crate) fn assert_replay_is_equal(&self) {
        self.recorded.assert_replay_is_equal();
    }

    /// The log of the hooks. It is in the data directory or, if that cannot be written, in the
    /// cache folder. Empty if there were no problems.
    pub(crate) fn log(&self) -> String {
        let cache = self.folder.path().join("cache/midcourse/hook.log");
        self.recorded.log() + &fs::read_to_string(cache).unwrap_or_default()
    }

    /// A path in the client's working directory.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.folder.path().join("project").join(name)
    }

    /// The text of a file that a hook script wrote, empty if there is none.
    pub(crate) fn note(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// The row of the main agent's run.
    pub(crate) fn summary(&self) -> RunSummary {
        self.recorded.runs().remove(0).0
    }

    /// The records of each run. The first run is the session itself, the others are its subagents.
    pub(crate) fn runs(&self) -> Vec<Vec<TrajectoryRecord>> {
        let runs = self.recorded.runs();
        let root = runs.first().map(|(run, _)| run.run_id.clone());
        assert!(runs.iter().skip(1).all(|(run, _)| run.parent_run_id == root), "{runs:?}");
        runs.into_iter().map(|(_, records)| records).collect()
    }
}

/// The id of every call of a run and how the call ended (`ok`, `failed` or `denied`), sorted by id.
/// Fails unless each call has exactly one record of its start and one of its end.
pub(crate) fn calls(records: &[TrajectoryRecord]) -> Vec<String> {
    let (mut started, mut ended) = (Vec::new(), Vec::new());
    for record in records {
        match &record.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, .. } => {
                started.push(tool_call_id.to_string());
            }
            TrajectoryPayload::ToolEnded { tool_call_id, is_error, .. } => {
                ended.push((tool_call_id.to_string(), if *is_error { "failed" } else { "ok" }));
            }
            TrajectoryPayload::Denied { tool_call_id, .. } => {
                ended.push((tool_call_id.to_string(), "denied"));
            }
            _ => {}
        }
    }
    started.sort_unstable();
    ended.sort_unstable();
    let ids: Vec<String> = ended.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(started, ids, "each call starts once and ends once");
    let calls: Vec<String> = ended.into_iter().map(|(id, how)| format!("{id} {how}")).collect();
    assert!(ids.windows(2).all(|two| two[0] != two[1]), "{calls:?}");
    calls
}

/// The texts of all messages of midcourse that are recorded in a run, in order. In shadow mode the
/// agent did not get them.
pub(crate) fn texts(records: &[TrajectoryRecord]) -> Vec<String> {
    let text = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::FeedbackDelivered { text, .. } => Some(text.clone()),
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            Some(guidance.injection.content().to_string())
        }
        _ => None,
    };
    records.iter().filter_map(text).collect()
}
