//! One run of an agent on a package for Python: in folders of its own, with a scripted model.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::anthropic::Messages;
use super::chat_completions::ChatCompletions;
use super::kept::Kept;
use super::model::{Asked, Model};
use super::script::{Piece, Script};
use super::trial::finish;
use super::{folder, skipped};

/// A key that opens nothing, and is easy to find.
pub(crate) const KEY: &str = "sk-of-nobody-0123456789abcdef";

/// A package, and how it is used.
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
    /// Python with the packages; none, which is said, where they are not to be driven.
    fn python() -> Option<PathBuf> {
        let python = folder("an agent on a package for Python")?.join("python/bin/python");
        if !python.exists() {
            skipped(&format!("no packages for Python: {} is not there", python.display()));
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

    /// A call of the agent's shell.
    pub(crate) fn shell(id: &str, command: &str) -> Piece {
        Piece::call(id, "shell", serde_json::json!({"command": command}))
    }
}

/// An agent that is about to be started.
pub(crate) struct Trial {
    package: Package,
    python: PathBuf,
    folder: TempDir,
    model: Model,
    /// How many milliseconds a request may wait for what is to be said.
    budget: &'static str,
}

/// What an agent has left.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The bodies of its requests, as it sent them.
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Trial {
    /// None, if the packages are not to be driven.
    pub(crate) fn of(package: Package, script: Script) -> Option<Self> {
        let python = Package::python()?;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let model = match package.api {
            Api::OpenAi => Model::start::<ChatCompletions>(script),
            Api::Anthropic => Model::start::<Messages>(script),
        };
        // Time enough on a busy machine.
        Some(Self { package, python, folder, model, budget: "60000" })
    }

    /// The same, with requests that wait for nothing.
    pub(crate) fn in_a_hurry(self) -> Self {
        Self { budget: "1", ..self }
    }

    /// Runs the agent to its end, without midcourse.
    pub(crate) fn run_bare(&self, words: &[&str]) -> Ended {
        self.run_in(Command::new(&self.python), words, &self.variables())
    }

    /// Runs the agent to its end by `midcourse run`, with these options.
    pub(crate) fn run(&self, options: &[&str], words: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.arg("run").args(options).arg("--").arg(&self.python);
        self.run_in(command, words, &self.variables())
    }

    /// Runs the agent to its end; the variables say where its model is.
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
            .env("MIDCOURSE_HOME", self.home())
            .env("MIDCOURSE_PROXY_BUDGET_MS", self.budget)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project());
        let output = finish(command);
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

    /// Where the model is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.model.address
    }

    /// What the model was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.model.asked()
    }

    /// The folder that the agent works in.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The folder for midcourse's data.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("midcourse")
    }

    pub(crate) fn kept(&self) -> Kept {
        Kept::at(self.home())
    }
}
