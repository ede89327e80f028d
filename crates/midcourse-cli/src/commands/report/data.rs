//! What a report says about one run and its subagents, as plain data. The text, the page and the
//! JSON are made from it, and so is the summary at the end of `midcourse run`.
//!
//! Lists are limited, so that a report of a long run fits into memory; the counts next to them are
//! of the whole run.

use std::time::Duration;

use midcourse::{FailureKind, OutcomeVerdict, RunId, Timestamp};
use serde::{Serialize, Serializer};

use super::prices::{Cost, ModelTokens, Tokens};
use crate::display;

/// A report about a run, its subagents, and further runs of the same `midcourse run`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RunReport {
    pub(crate) run_id: RunId,
    pub(crate) host: String,
    pub(crate) host_version: Option<String>,
    /// The first message of the user, on one line.
    pub(crate) task: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) command: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) started: Timestamp,
    /// The time of the latest record.
    #[serde(serialize_with = "rfc3339")]
    pub(crate) latest: Timestamp,
    /// When the run ended; `None` if no end is recorded.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub(crate) ended: Option<Timestamp>,
    pub(crate) outcome: Option<String>,
    pub(crate) exit_code: Option<i64>,
    /// How the run went, in a few sentences.
    pub(crate) headline: String,
    pub(crate) records: u64,
    pub(crate) calls: u64,
    /// Calls that failed or were refused.
    pub(crate) errors: u64,
    /// Calls that have no result: they are running, or the agent stopped during them.
    pub(crate) open_calls: Vec<CallRef>,
    pub(crate) tokens: Tokens,
    /// Tokens by model. A model that nobody reported is `null`.
    pub(crate) models: Vec<ModelTokens>,
    pub(crate) cost: Cost,
    pub(crate) timeline: Timeline,
    /// The first pattern that the engine found.
    pub(crate) first_trouble: Option<Trouble>,
    /// Stretches of the run in which a pattern held, in the order of their beginning.
    pub(crate) trouble: Vec<Trouble>,
    pub(crate) message_count: u64,
    pub(crate) messages: Vec<Message>,
    /// Failing calls by what they did and why they failed, the most frequent first.
    pub(crate) failing: Vec<FailingCalls>,
    /// Files that the agent wrote or edited, the most frequent first.
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) subagents: Vec<Subagent>,
    /// Records that are missing.
    pub(crate) gaps: Vec<Gap>,
    /// Stretches without any record, the longest first.
    pub(crate) pauses: Vec<Pause>,
    /// How often the agent's conversation was replaced by a summary.
    pub(crate) compactions: u64,
    pub(crate) last_words: Option<LastWords>,
}

impl RunReport {
    pub(crate) const fn duration(&self) -> Duration {
        self.latest.since(self.started)
    }
}

/// A record of a run. People write it as `RUN:SEQ`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RecordRef {
    pub(crate) run_id: RunId,
    pub(crate) seq: u64,
}

impl std::fmt::Display for RecordRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.run_id, self.seq)
    }
}

/// A call, as one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CallRef {
    #[serde(flatten)]
    pub(crate) record: RecordRef,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) at: Timestamp,
    /// The tool with its most telling argument, such as `Bash cargo test`.
    pub(crate) text: String,
}

/// A stretch of the run in which a pattern held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Trouble {
    /// The record after which the engine found the pattern.
    #[serde(flatten)]
    pub(crate) record: RecordRef,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) at: Timestamp,
    /// How many calls of the run had ended by then.
    pub(crate) call: u64,
    /// The name of the pattern in the configuration, such as `doom_loop`.
    pub(crate) pattern: String,
    /// What had happened by then, such as `ran "cargo test" 3 times with the same failure`.
    pub(crate) sign: String,
    /// What happened in the whole stretch.
    pub(crate) text: String,
    /// Where the first of the calls ended that show the pattern.
    pub(crate) first_seq: u64,
    /// When it began.
    #[serde(serialize_with = "rfc3339")]
    pub(crate) from: Timestamp,
    /// When the last of them ended.
    #[serde(serialize_with = "rfc3339")]
    pub(crate) until: Timestamp,
    /// How many calls, or model responses, show the pattern.
    pub(crate) count: u64,
}

/// Something that midcourse said to the agent, or only recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    #[serde(flatten)]
    pub(crate) record: RecordRef,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) at: Timestamp,
    pub(crate) text: String,
    pub(crate) provider: String,
    /// What the message is about, such as `doom_loop` or `deadline`; `None` if unknown.
    #[serde(rename = "cause")]
    pub(crate) pattern: Option<String>,
    /// Whether the message was only recorded and not shown to the agent, because of the shadow mode.
    pub(crate) shadow: bool,
    /// Whether an experiment withheld the message from the agent.
    pub(crate) withheld: bool,
    pub(crate) evidence: Vec<RecordRef>,
    /// What became of the problem; `None` if the message is not about a problem, or if that was not
    /// recorded.
    pub(crate) outcome: Option<MessageOutcome>,
}

impl Message {
    /// Whether the agent got the message.
    pub(crate) const fn was_shown(&self) -> bool {
        !self.shadow && !self.withheld
    }

    /// Says that the agent did not get the message, and why; `None` if it got it.
    pub(crate) const fn not_shown(&self) -> Option<&'static str> {
        match self {
            Self { withheld: true, .. } => {
                Some("withheld by the experiment: the agent did not see it")
            }
            Self { shadow: true, .. } => Some("recorded only: the agent did not see it"),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct MessageOutcome {
    pub(crate) verdict: OutcomeVerdict,
    pub(crate) after_calls: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FailingCalls {
    /// What the agent did, such as `ran "cargo test"`.
    pub(crate) text: String,
    pub(crate) kind: FailureKind,
    /// Whether the calls were refused before they ran.
    pub(crate) refused: bool,
    pub(crate) count: u64,
    /// Where the first of these calls ended.
    pub(crate) first: RecordRef,
    /// Where the latest of these calls ended.
    pub(crate) last: RecordRef,
    /// The line of its result that says most about the failure.
    pub(crate) error: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChangedFile {
    pub(crate) path: String,
    /// How many successful calls changed it.
    pub(crate) count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Subagent {
    pub(crate) run_id: RunId,
    pub(crate) parent_run_id: Option<RunId>,
    pub(crate) task: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) started: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) latest: Timestamp,
    pub(crate) outcome: Option<String>,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) messages: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Gap {
    #[serde(flatten)]
    pub(crate) record: RecordRef,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) at: Timestamp,
    /// How many records are missing.
    pub(crate) lost: u64,
    pub(crate) text: String,
}

/// A stretch without any record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Pause {
    #[serde(serialize_with = "rfc3339")]
    pub(crate) from: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) until: Timestamp,
    /// A call that was running at the time.
    pub(crate) during: Option<String>,
}

impl Pause {
    pub(crate) const fn length(&self) -> Duration {
        self.until.since(self.from)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LastWords {
    #[serde(flatten)]
    pub(crate) record: RecordRef,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

/// The run in slices of equal length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Timeline {
    #[serde(serialize_with = "rfc3339")]
    pub(crate) from: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub(crate) until: Timestamp,
    pub(crate) slices: Vec<Slice>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Slice {
    pub(crate) records: u32,
    pub(crate) calls: u32,
    pub(crate) errors: u32,
    pub(crate) messages: u32,
    /// Whether a pattern held.
    pub(crate) trouble: bool,
}

impl Slice {
    fn add(&mut self, other: Self) {
        self.records = self.records.saturating_add(other.records);
        self.calls = self.calls.saturating_add(other.calls);
        self.errors = self.errors.saturating_add(other.errors);
        self.messages = self.messages.saturating_add(other.messages);
        self.trouble |= other.trouble;
    }
}

impl Timeline {
    /// How many slices a timeline has: more than any terminal has columns.
    const SLICES: usize = 960;

    pub(crate) fn new(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until, slices: vec![Slice::default(); Self::SLICES] }
    }

    /// The number of the slice that contains this time.
    fn index(&self, at: Timestamp) -> usize {
        let total = self.until.since(self.from).as_millis().max(1);
        let last = self.slices.len().saturating_sub(1);
        let slices = u128::try_from(self.slices.len()).unwrap_or(1);
        let index = at.since(self.from).as_millis().saturating_mul(slices) / total;
        usize::try_from(index).unwrap_or(last).min(last)
    }

    pub(crate) fn add(&mut self, at: Timestamp, change: Slice) {
        let index = self.index(at);
        if let Some(slice) = self.slices.get_mut(index) {
            slice.add(change);
        }
    }

    /// Marks the slices from `from` to `until` as trouble.
    pub(crate) fn mark_trouble(&mut self, from: Timestamp, until: Timestamp) {
        let (first, last) = (self.index(from), self.index(until));
        for slice in self.slices.iter_mut().take(last.saturating_add(1)).skip(first) {
            slice.trouble = true;
        }
    }

    /// The timeline in `count` slices.
    pub(crate) fn in_slices(&self, count: usize) -> Vec<Slice> {
        let mut wide = vec![Slice::default(); count.max(1)];
        let last = wide.len().saturating_sub(1);
        for (index, slice) in self.slices.iter().enumerate() {
            let place = index.saturating_mul(wide.len()) / self.slices.len().max(1);
            if let Some(sum) = wide.get_mut(place.min(last)) {
                sum.add(*slice);
            }
        }
        wide
    }

    /// The time at which slice `index` of `count` begins.
    pub(crate) fn time_of(&self, index: usize, count: usize) -> Timestamp {
        let total = self.until.since(self.from);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        self.from.after(total.saturating_mul(index) / count)
    }
}

fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&display::rfc3339(*at))
}

fn rfc3339_or_null<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    at.map(display::rfc3339).serialize(serializer)
}
