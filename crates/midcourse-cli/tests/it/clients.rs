//! Tests with real clients and a scripted model: Claude Code and Codex with midcourse's hooks, and
//! the official Python packages with midcourse's proxy.
//!
//! The script `tests/clients/install` installs the clients into a folder, and the environment
//! variable `MIDCOURSE_CLIENTS` names that folder. Without the variable the tests are skipped and
//! say so. Each trial (one run of a client) has its own temporary folders, an API key that is not
//! valid anywhere, and a local model server ([`model`]).

#![expect(clippy::panic, reason = "a test that cannot continue fails with a message")]

mod anthropic;
mod chat_completions;
mod faults;
mod hook_events;
mod http;
mod imported;
mod insertions;
mod installed;
mod model;
mod openai;
mod output;
mod package;
mod packages;
mod proxied;
mod recorded;
mod script;
mod sessions;
mod settings;
mod standalone;
mod tee;
mod trial;
mod user_settings;

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::json;

use script::{Piece, times};

const CLIENTS_VARIABLE: &str = "MIDCOURSE_CLIENTS";

/// The folder with the installed clients. If the environment variable is not set, prints that the
/// tests of `name` are skipped and returns `None`.
fn folder(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(CLIENTS_VARIABLE).filter(|folder| !folder.is_empty());
    if folder.is_none() {
        print_skipped(&format!("{name} runs only if {CLIENTS_VARIABLE} is set"));
    }
    folder.map(PathBuf::from)
}

/// Writes to standard error directly: the test runner hides the output of `eprintln!` when a test
/// passes.
fn print_skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A coding agent that the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    Codex,
}

impl Client {
    /// The name of the client in `midcourse hook NAME`.
    const fn host(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The path of the client's program; `None` if the tests are skipped.
    fn program(self) -> Option<PathBuf> {
        let folder = folder(self.host())?;
        let inside = match self {
            Self::ClaudeCode => "@anthropic-ai/claude-code-linux-x64/claude",
            Self::Codex => "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        };
        let program = folder.join("node_modules").join(inside);
        assert!(
            program.is_file(),
            "{CLIENTS_VARIABLE} is set, but {} does not exist",
            program.display()
        );
        Some(program)
    }

    /// A call of the client's shell tool.
    fn shell(self, id: &str, command: &str) -> Piece {
        match self {
            Self::ClaudeCode => {
                Piece::call(id, "Bash", json!({"command": command, "description": "a step"}))
            }
            Self::Codex => Piece::call(id, "exec_command", json!({"cmd": command})),
        }
    }

    /// A call of `curl`, which the client's settings in each trial forbid.
    fn forbidden(self, id: &str) -> Piece {
        self.shell(id, "curl --version")
    }
}
