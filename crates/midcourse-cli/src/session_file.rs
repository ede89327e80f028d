//! Reading runs from files that other programs wrote: what a reader of one format is given, and what
//! it returns.
//!
//! Readers of the session files of coding agents are in `hosts`, all others in `formats`.
//! `session_format` lists them, recognises the format of a file, and reads files. Reading never
//! fails: what cannot be used is counted, and the rest of the file is read. A reader gets a file
//! line by line where the format has lines, so memory use does not depend on the length of a run.

mod counts;
mod document;
mod head;
mod time;

use std::path::Path;

use midcourse::{
    AgentMessage, Channel, DecisionPoint, Event, FactKey, ForeignRecord, RunIdentity, Source,
    Timestamp, TrajectoryPayload,
};

pub(crate) use counts::{Counts, Fate};
pub(crate) use document::{Part, for_each_part};
pub(crate) use head::Head;
pub(crate) use time::{LineTime, parse_time};

/// The parts in which a reader gets its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One line at a time, without its newline. Empty lines are left out.
    Line,
    /// The whole file at once.
    Document,
    /// One line at a time if the first line is a JSON object, otherwise the whole file at once.
    LineOrDocument,
    /// One row of a database or one file of a folder at a time, or the whole file at once.
    Collection,
}

/// What is known about a file before it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionFile<'a> {
    pub(crate) path: &'a Path,
    /// When the file was last changed. Used for events if the file contains no times.
    pub(crate) modified: Timestamp,
}

impl SessionFile<'_> {
    /// The name of the file without its last extension, for runs that have no id of their own.
    pub(crate) fn stem(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }
}

/// Reads one file of a format. A new reader is made for each file.
///
/// An implementation must accept any bytes: it counts what it cannot use with [`Found::count`] and
/// goes on. It keeps no more than it needs to understand what follows.
pub(crate) trait SessionReader {
    /// Takes in one unit of the file, in order: a line, or the whole document.
    fn read(&mut self, bytes: &[u8], found: &mut Found);

    /// Called once, after the last unit.
    fn end(&mut self, _found: &mut Found) {}
}

/// What a reader has found. The caller empties `records` after each unit.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The records, in order within each run. A file may contain several runs.
    pub(crate) records: Vec<ForeignRecord>,
    /// How often each kind of line occurred, and what became of it.
    pub(crate) counts: Counts,
    /// Why the latest unit could not be used completely; the caller reports it with the position.
    pub(crate) problem: Option<String>,
}

impl Found {
    pub(crate) fn push(&mut self, event: Event) {
        self.records.push(ForeignRecord::from(event));
    }

    /// Counts a line, or a part of a line or document, under the name that the format gives to its
    /// kind.
    pub(crate) fn count(&mut self, kind: &str, fate: Fate) {
        self.counts.add(kind, fate);
    }

    /// Counts a document that is invalid or cut off, if there was an error.
    pub(crate) fn cut_off(&mut self, error: Option<serde_json::Error>) {
        if let Some(error) = error {
            let problem = format!("used only what comes before the error: {error}");
            self.invalid("(document)", problem);
        }
    }

    /// Counts a unit that could not be parsed to its end.
    pub(crate) fn invalid(&mut self, kind: &str, problem: impl ToString) {
        self.counts.add(kind, Fate::Invalid);
        self.problem.get_or_insert_with(|| problem.to_string());
    }
}

/// Makes the events of one run. Sets the decision points at which midcourse could have delivered a
/// message, so that `backtest` and `replay` give the same messages.
#[derive(Debug, Clone)]
pub(crate) struct RunEvents {
    pub(crate) run: RunIdentity,
    pub(crate) source: Source,
}

impl RunEvents {
    /// `host` names the agent or dataset, such as `claude-code`.
    pub(crate) fn new(run: RunIdentity, host: &str) -> Self {
        Self { run, source: Source::new(host, Channel::Import) }
    }

    /// An event that its payload identifies, such as the start or the end of a tool call.
    pub(crate) fn event(&self, at: Timestamp, payload: TrajectoryPayload) -> Event {
        let point = decision_point(&payload);
        let event = Event::new(self.run.clone(), self.source.clone(), at, payload);
        Event { decision_point: point, ..event }
    }

    /// An event with a key. Reading the file again must give the same key, and no other event of
    /// this payload kind in the run may have it.
    pub(crate) fn keyed(
        &self,
        at: Timestamp,
        key: impl Into<FactKey>,
        payload: TrajectoryPayload,
    ) -> Event {
        self.event(at, payload).with_fact(key)
    }

    /// The start of the run.
    pub(crate) fn started(&self, at: Timestamp) -> Event {
        self.event(at, TrajectoryPayload::RunStarted { identity: self.run.clone() })
    }
}

/// The decision point of an event in an imported run: after a result or a message of the user, before
/// the next model request.
fn decision_point(payload: &TrajectoryPayload) -> Option<DecisionPoint> {
    let is_point = match payload {
        TrajectoryPayload::ToolEnded { .. } | TrajectoryPayload::Denied { .. } => true,
        TrajectoryPayload::MessageAppended { message } => {
            matches!(message, AgentMessage::User { .. })
        }
        _ => false,
    };
    is_point.then_some(DecisionPoint::PreToolSelection)
}
