//! A trial: one run of the small agent `tests/clients/agent.py`, which calls a model with one of
//! the official Python packages, in temporary folders and with a scripted model server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::anthropic::Messages;
use super::chat_completions::ChatCompletions;
use super::model::{Model, ModelRequest};
use super::recorded::RecordedData;
use super::script::{Piece, Script};
use super::trial::run_to_end;
use super::{folder, print_skipped};

/// An API key that is not valid anywhere. Tests search the recorded data for this text, because
/// midcourse must never store a key.
pub(crate) const KEY: &str = "sk-of-nobody-0123456789abcdef";

/// Which Python package the agent uses, and whether it asks for streamed responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    pub(crate) api: Api,
    pub(crate) streams: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Anthropic,
}

impl Package {
    /// The Python interpreter of an environment with the packages; `None` if the tests are skipped.
    fn python() -> Option<PathBuf> {
        let python = folder("an agent on a Python package")?.join("python/bin/python");
        if !python.exists() {
            print_skipped(&format!("no Python packages: {} does not exist", python.display()));
            return None;
        }
        Some(python)
    }

    fn name(self) -> &'static str {
        match self.api {
            Api::OpenAi => "openai",
            Api::Anthropic => "anthropic",
        }
    }

    /// A call of the agent's shell tool.
    pub(crate) fn shell(id: &str, command: &str) -> Piece {
        Piece::call(id, "shell", serde_json::json!({"command": command}))
    }
}

/// Everything that one run of the agent needs. The `run` methods start the agent.
pub(crate) struct Trial {
    package: Package,
    python: PathBuf,
    folder: TempDir,
    model: Model,
    /// How many milliseconds the proxy may hold a model request back until midcourse's messages for
    /// it are ready (the variable `MIDCOURSE_PROXY_MAX_WAIT_MS`).
    budget: &'static str,
}

/// What the agent printed and sent, after it has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The bodies of the requests that the agent sent.
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Trial {
    /// Creates a trial; `None` if the tests are skipped.
    pub(crate) fn of(package: Package, script: Script) -> Option<Self> {
        let python = Package::python()?;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let model = match package.api {
            Api::OpenAi => Model::start::<ChatCompletions>(script),
            Api::Anthropic => Model::start::<Messages>(script),
        };
        // A minute is enough for each message to be ready in time, even on a busy machine.
        Some(Self { package, python, folder, model, budget: "60000" })
    }

    /// Lets the proxy hold a request back for 1 ms only, so that messages may not be ready in time.
    pub(crate) fn without_waiting(self) -> Self {
        Self { budget: "1", ..self }
    }

    /// Runs the agent without midcourse.
    pub(crate) fn run_bare(&self, words: &[&str]) -> Ended {
        self.run_in(Command::new(&self.python), words, &self.variables())
    }

    /// Runs the agent with `midcourse run` and these options.
    pub(crate) fn run(&self, options: &[&str], words: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.arg("run").args(options).arg("--").arg(&self.python);
        self.run_in(command, words, &self.variables())
    }

    /// Runs the agent directly, with environment variables that tell it the URL of the model server
    /// or of a proxy that is already running.
    pub(crate) fn run_at(&self, variables: &[(String, String)], words: &[&str]) -> Ended {
        self.run_in(Command::new(&self.python), words, variables)
    }

    fn run_in(
        &self,
        mut command: Command,
        words: &[&str],
        variables: &[(String, String)],
    ) -> Ended {
        let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/agent.py");
        let sent = tempfile::tempdir().unwrap();
        command.arg(agent).arg(self.package.name()).args(words);
        if self.package.streams {
            command.arg("--stream");
        }
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("OPENAI_API_KEY", KEY)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("AGENT_SENT", sent.path())
            .env("MIDCOURSE_HOME", self.data_dir())
            .env("MIDCOURSE_PROXY_MAX_WAIT_MS", self.budget)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project());
        let output = run_to_end(command);
        let mut files: Vec<PathBuf> =
            fs::read_dir(sent.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort_unstable();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            sent: files.iter().map(|file| fs::read(file).unwrap()).collect(),
        }
    }

    fn variables(&self) -> [(String, String); 2] {
        let address = self.address();
        [("ANTHROPIC_BASE_URL", ""), ("OPENAI_BASE_URL", "/v1")]
            .map(|(name, path)| (name.to_owned(), format!("http://{address}{path}")))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.model.address
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.model.requests()
    }

    /// The agent's working directory.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("midcourse")
    }

    pub(crate) fn recorded(&self) -> RecordedData {
        RecordedData::at(self.data_dir())
    }
}
