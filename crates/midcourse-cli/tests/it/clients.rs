//! The real Claude Code and the real Codex, with midcourse at their hooks, and the real packages for
//! Python, with midcourse between them and a scripted model.
//!
//! The clients are those that `tests/clients/install` puts into a folder. `MIDCOURSE_CLIENTS` names
//! that folder; without it these tests say that they are skipped. Each trial has folders of its own
//! for everything, a key that opens nothing, and a model on the loopback interface ([`model`]).

#![expect(clippy::panic, reason = "a test that cannot go on fails, and says why")]

mod anthropic;
mod carried;
mod chat_completions;
mod exits;
mod faults;
mod hook_events;
mod http;
mod kept;
mod model;
mod openai;
mod package;
mod packages;
mod proxied;
mod script;
mod sessions;
mod standalone;
mod tee;
mod terms;
mod trial;
mod untouched;

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::json;

use script::{Piece, times};

/// The environment variable that names the folder with the clients.
const SWITCH: &str = "MIDCOURSE_CLIENTS";

/// The folder with the clients; none, which is said, if they are not to be driven.
fn folder(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(SWITCH).filter(|folder| !folder.is_empty());
    if folder.is_none() {
        skipped(&format!("{name} is driven if {SWITCH} is set"));
    }
    folder.map(PathBuf::from)
}

/// Not `eprintln!`, which the test runner keeps to itself when a test passes.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A coding agent that is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    Codex,
}

impl Client {
    /// The host's name at `midcourse hook`.
    const fn host(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The client's program; none, which is said, if the clients are not to be driven.
    fn program(self) -> Option<PathBuf> {
        let folder = folder(self.host())?;
        let inside = match self {
            Self::ClaudeCode => "@anthropic-ai/claude-code-linux-x64/claude",
            Self::Codex => "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        };
        let program = folder.join("node_modules").join(inside);
        assert!(program.is_file(), "{SWITCH} is set, and {} is not there", program.display());
        Some(program)
    }

    /// A call of the client's shell.
    fn shell(self, id: &str, command: &str) -> Piece {
        match self {
            Self::ClaudeCode => {
                Piece::call(id, "Bash", json!({"command": command, "description": "a step"}))
            }
            Self::Codex => Piece::call(id, "exec_command", json!({"cmd": command})),
        }
    }

    /// A call of the shell that what the user set forbids ([`trial`]).
    fn forbidden(self, id: &str) -> Piece {
        self.shell(id, "curl --version")
    }
}
