//! The formats of session files: which there are, which one a file has, and reading a file.
//!
//! `midcourse import` and `midcourse backtest` use this module. The readers themselves are in `hosts`
//! (sessions of coding agents) and in `formats` (all others), and do no I/O.

mod collection;
mod read;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::formats;
use crate::hosts;
use crate::session_file::{Head, SessionFile, SessionReader, Unit};

pub(crate) use read::{FileReport, HEAD_LEN, ReadError, format_of_file, read_file, read_stream};

/// A format of session files.
pub(crate) struct SessionFormat {
    /// The value of `--format`.
    pub(crate) name: &'static str,
    /// What the files contain, for people.
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    /// Whether every line is a run of its own.
    pub(crate) is_run_per_line: bool,
    recognises: fn(&Head<'_>) -> bool,
    reader: fn(&SessionFile<'_>) -> Box<dyn SessionReader>,
}

impl fmt::Debug for SessionFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All formats. A file has the first of these formats that recognises it.
pub(crate) static FORMATS: &[SessionFormat] = &[
    SessionFormat {
        name: "records",
        about: "trajectory records, as `midcourse export` writes them",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: formats::records::recognises,
        reader: formats::records::reader,
    },
    SessionFormat {
        name: "events",
        about: "runs of any agent, one per line (docs/measuring.md)",
        unit: Unit::Line,
        is_run_per_line: true,
        recognises: formats::events::recognises,
        reader: formats::events::reader,
    },
    SessionFormat {
        name: "atif",
        about: "trajectories in Harbor's interchange format (docs/atif.md)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::atif::recognises,
        reader: formats::atif::reader,
    },
    SessionFormat {
        name: "otel",
        about: "OpenTelemetry spans: OTLP in JSON, OpenInference, GenAI (docs/otlp.md)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::otel::recognises,
        reader: formats::otel::reader,
    },
    SessionFormat {
        name: "qwen",
        about: "sessions of Qwen Code",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: hosts::qwen_session::recognises,
        reader: hosts::qwen_session::reader,
    },
    SessionFormat {
        name: "claude-code",
        about: "sessions of Claude Code",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: hosts::claude_code_session::recognises,
        reader: hosts::claude_code_session::reader,
    },
    SessionFormat {
        name: "codex",
        about: "sessions of Codex (rollouts)",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: hosts::codex_session::recognises,
        reader: hosts::codex_session::reader,
    },
    SessionFormat {
        name: "gemini",
        about: "sessions of Gemini CLI",
        unit: Unit::LineOrDocument,
        is_run_per_line: false,
        recognises: hosts::gemini_session::recognises,
        reader: hosts::gemini_session::reader,
    },
    SessionFormat {
        name: "copilot",
        about: "sessions of GitHub Copilot CLI",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: hosts::copilot_session::recognises,
        reader: hosts::copilot_session::reader,
    },
    SessionFormat {
        name: "opencode",
        about: "opencode.db, a storage folder or `opencode export`",
        unit: Unit::Collection,
        is_run_per_line: false,
        recognises: hosts::opencode_session::recognises,
        reader: hosts::opencode_session::reader,
    },
    SessionFormat {
        name: "swe-agent",
        about: "trajectories of SWE-agent (.traj)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::swe_agent::recognises,
        reader: formats::swe_agent::reader,
    },
    SessionFormat {
        name: "mini-swe-agent",
        about: "trajectories of mini-swe-agent (.traj.json)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::mini_swe_agent::recognises,
        reader: formats::mini_swe_agent::reader,
    },
    SessionFormat {
        name: "inspect",
        about: "logs of Inspect (.eval, .json)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::inspect::recognises,
        reader: formats::inspect::reader,
    },
    SessionFormat {
        name: "tau-bench",
        about: "results of tau-bench",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::tau_bench::recognises,
        reader: formats::tau_bench::reader,
    },
    SessionFormat {
        name: "intercode",
        about: "results of InterCode",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::intercode::recognises,
        reader: formats::intercode::reader,
    },
    SessionFormat {
        name: "who-and-when",
        about: "the data set Who&When",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::who_and_when::recognises,
        reader: formats::who_and_when::reader,
    },
    SessionFormat {
        name: "openai-chat-lines",
        about: "chat messages of OpenAI's API, JSON lines",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: formats::openai_chat::lines_recognises,
        reader: formats::openai_chat::lines_reader,
    },
    SessionFormat {
        name: "openai-chat",
        about: "chat messages of OpenAI's API, one JSON document",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::openai_chat::recognises,
        reader: formats::openai_chat::reader,
    },
];

impl SessionFormat {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The format of a file, from its name and its beginning; `None` if it has none of `FORMATS`.
    pub(crate) fn of(head: &Head<'_>) -> Option<&'static Self> {
        FORMATS.iter().find(|format| (format.recognises)(head))
    }

    pub(crate) fn reader(&self, file: &SessionFile<'_>) -> Box<dyn SessionReader> {
        (self.reader)(file)
    }
}
