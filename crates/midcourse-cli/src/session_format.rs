//! The formats of session files: which there are, which one a file has, and reading a file.
//!
//! `midcourse import` and `midcourse backtest` use this module. The readers themselves are in `hosts`
//! (sessions of coding agents) and in `formats` (all others), and do no I/O.

mod read;

use std::fmt;

use crate::formats;
use crate::hosts;
use crate::session_file::{Head, SessionFile, SessionReader, Unit};

pub(crate) use read::{FileReport, ReadError, read_file, read_stream};

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
        name: "otel",
        about: "OpenTelemetry spans: OTLP in JSON, OpenInference, GenAI (docs/otlp.md)",
        unit: Unit::Document,
        is_run_per_line: false,
        recognises: formats::otel::recognises,
        reader: formats::otel::reader,
    },
    SessionFormat {
        name: "claude-code",
        about: "sessions of Claude Code",
        unit: Unit::Line,
        is_run_per_line: false,
        recognises: hosts::claude_code_session::recognises,
        reader: hosts::claude_code_session::reader,
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
