//! Exact copies of runs: what a store knows about a run, in a form that another store can keep.
//!
//! A copy has the records and reports of a run in the order of its hash chain, with the bytes that the
//! chain covers, and a [`RunHeader`] with everything else. Shipping to a fleet, reading from it, and
//! archives use copies; nothing in a copy is redacted, truncated or decided again.

mod read;
mod write;

use midcourse_core::{Engine, RunId};
use serde::{Deserialize, Serialize};

pub use read::{ChainError, ChainLimit, ChainPart};

use super::chain::{Link, RecordFields, record_link, report_link};
use super::run_table::TableRun;
use super::runs::{RunSummary, SummaryState};
use crate::label::Label;

/// What a store knows about a run besides its records: the summary, and the end of the hash chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHeader {
    summary: RunSummary,
    /// The number of ancestors of the run.
    pub depth: u64,
    /// The conversation that the run is part of.
    pub conversation_id: Option<String>,
    /// The number of tool calls without a result.
    pub open_calls: u64,
    /// How many further reports of its events the run has.
    pub reports: u64,
    /// The last link of the run's hash chain.
    pub link: Link,
    /// The version of the engine that made the findings in the summary; `None` if no engine has
    /// analysed the whole run.
    engine: Option<u32>,
    /// Whether the fields of the summary from `task` on are known.
    has_summary: bool,
    answered: Option<bool>,
    responded: bool,
    /// The labels of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
}

impl RunHeader {
    /// The summary of the run.
    pub fn summary(&self) -> RunSummary {
        let mut summary = self.summary.clone();
        summary.state = match self.engine {
            _ if !self.has_summary => SummaryState::Missing,
            None => SummaryState::NotAnalysed,
            Some(Engine::VERSION) => SummaryState::Current,
            Some(_) => SummaryState::OtherEngine,
        };
        summary
    }

    /// The run as a row of the table of runs. `subagents` is the number of runs that it started.
    pub fn table_run(&self, subagents: u64) -> TableRun {
        TableRun { run: self.summary(), open_calls: self.open_calls, subagents }
    }

    /// The id of the run.
    pub const fn run_id(&self) -> &RunId {
        &self.summary.run_id
    }

    /// The end of the run's hash chain.
    pub const fn end(&self) -> ChainPosition {
        ChainPosition { records: self.summary.records, reports: self.reports, link: self.link }
    }

    /// Removes every text that the agent, the model or the user wrote, and the names of folders.
    pub fn remove_texts(&mut self) {
        self.summary.task = None;
        self.summary.folder = None;
        self.summary.command = None;
        self.labels.clear();
    }

    /// The texts of the header that come from outside, to change them.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let summary = &mut self.summary;
        let optional = [
            &mut summary.outcome,
            &mut summary.reported_outcome,
            &mut summary.task,
            &mut summary.folder,
            &mut summary.command,
            &mut summary.host_version,
            &mut summary.model,
            &mut self.conversation_id,
        ];
        optional.into_iter().flatten().chain([&mut summary.host])
    }
}

/// A place in the hash chain of a run: what comes before it, and the link there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition {
    /// The number of records before it.
    pub records: u64,
    /// The number of reports before it.
    pub reports: u64,
    /// The link of the record or report directly before it.
    pub link: Link,
}

impl ChainPosition {
    /// The beginning of a run's hash chain.
    pub fn start(run_id: &RunId) -> Self {
        Self { records: 0, reports: 0, link: Link::genesis(run_id.as_str()) }
    }

    /// The position after an entry. Fails if the entry does not continue the chain here: it is not
    /// the next one, or one of its fields or texts was changed after it was stored.
    pub fn after(&self, entry: &ChainEntry) -> Result<Self, BrokenChain> {
        let (records, reports) = match entry {
            ChainEntry::Record(record) if record.seq == self.records => {
                (self.records.saturating_add(1), self.reports)
            }
            ChainEntry::Report(report)
                if report.ordinal == self.reports && report.after == self.records =>
            {
                (self.records, self.reports.saturating_add(1))
            }
            _ => return Err(BrokenChain(format!("{entry} does not follow {}", self.describe()))),
        };
        let link = entry.link();
        match entry.link_after(&self.link) == link {
            true => Ok(Self { records, reports, link }),
            false => Err(BrokenChain(format!("{entry} was changed after it was stored"))),
        }
    }

    fn describe(&self) -> String {
        format!("{} records and {} reports", self.records, self.reports)
    }
}

/// An entry does not continue the hash chain of its run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BrokenChain(String);

/// One entry of a run's hash chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainEntry {
    /// A record.
    Record(ChainRecord),
    /// A further report of an event that already has a record.
    Report(ChainReport),
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRecord {
    /// The record's position in the run, from 0.
    pub seq: u64,
    /// When the event happened, in Unix milliseconds.
    pub at: u64,
    /// The kind of the payload.
    pub kind: String,
    /// The key by which another report of the event is recognised.
    pub fact: Option<String>,
    /// The host that reported the event.
    pub host: String,
    /// How the event arrived.
    pub channel: String,
    /// Where a message about the event could be delivered.
    pub decision_point: Option<String>,
    /// The schema version of the payload.
    pub schema_version: u32,
    /// The number of secrets that were redacted.
    pub redactions: u32,
    /// Whether the call that the record ends has failed. Not part of the hash chain.
    pub failed: Option<bool>,
    /// The payload as JSON; its long texts are empty.
    pub payload: String,
    /// The long texts of the payload, in the order of their pointers.
    pub bodies: Vec<ChainBody>,
    /// The record's link in the hash chain.
    pub link: Link,
}

/// A long text of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBody {
    /// The JSON pointer to the text in the payload.
    pub pointer: String,
    /// The BLAKE3 hash of the text.
    pub hash: [u8; 32],
    /// The length of the text in bytes.
    pub length: u64,
    /// The text, compressed with zstd.
    pub zstd: Vec<u8>,
}

/// A further report as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// The number of reports before it in the run.
    pub ordinal: u64,
    /// The seq of the record that it is about.
    pub seq: u64,
    /// The number of records in the run when it arrived.
    pub after: u64,
    /// When the event happened, in Unix milliseconds.
    pub at: u64,
    /// The host that reported the event.
    pub host: String,
    /// How the report arrived.
    pub channel: String,
    /// How it compares with the record: `merged` or `conflict`.
    pub status: String,
    /// The BLAKE3 hash of what was reported.
    pub hash: [u8; 32],
    /// What was reported, compressed with zstd.
    pub zstd: Vec<u8>,
    /// The report's link in the hash chain.
    pub link: Link,
}

impl ChainEntry {
    /// The entry's link in the hash chain.
    pub const fn link(&self) -> Link {
        match self {
            Self::Record(record) => record.link,
            Self::Report(report) => report.link,
        }
    }

    /// The link that the entry must have after this one.
    fn link_after(&self, before: &Link) -> Link {
        match self {
            Self::Record(record) => {
                let fields = RecordFields {
                    seq: record.seq,
                    at: record.at,
                    kind: &record.kind,
                    fact: record.fact.as_deref(),
                    host: &record.host,
                    channel: &record.channel,
                    decision_point: record.decision_point.as_deref(),
                    schema_version: record.schema_version,
                    redactions: record.redactions,
                    payload: &record.payload,
                };
                let bodies = record.bodies.iter();
                record_link(before, &fields, bodies.map(|it| (it.pointer.as_str(), &it.hash[..])))
            }
            Self::Report(it) => {
                report_link(before, it.seq, it.at, &it.host, &it.channel, &it.status, &it.hash)
            }
        }
    }

    /// Gives the entry the link that its present content has after this one: for an entry that was
    /// changed on purpose.
    pub fn relink(&mut self, before: &Link) {
        let link = self.link_after(before);
        match self {
            Self::Record(record) => record.link = link,
            Self::Report(report) => report.link = link,
        }
    }

    /// About how many bytes the entry has.
    pub fn size(&self) -> usize {
        const FIXED: usize = 200;
        match self {
            Self::Record(record) => {
                let bodies: usize = record.bodies.iter().map(|body| body.zstd.len()).sum();
                FIXED.saturating_add(record.payload.len()).saturating_add(bodies)
            }
            Self::Report(report) => FIXED.saturating_add(report.zstd.len()),
        }
    }
}

impl std::fmt::Display for ChainEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Record(record) => write!(f, "record {}", record.seq),
            Self::Report(report) => {
                write!(f, "report {} (about record {})", report.ordinal, report.seq)
            }
        }
    }
}
