//! The records of a run as a person reads them: a tool call and its result are one entry, and
//! records without content of their own, such as the start of a turn, are left out.
//!
//! [`Store::entry_seqs`] finds entries without reading their texts; [`Store::entry`] reads one. So a
//! caller that shows the last ten entries of a long run reads only these.

use midcourse_core::TrajectoryPayload;
use rusqlite::named_params;

use super::Store;
use super::append::{run_head, seq_of_fact};
use super::error::StoreError;
use super::read::{self, StoredRecord, unsigned};

/// Which entries of a run to find. The default finds all that have content of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// Only calls that failed or were refused. With `said`, both kinds are found.
    pub errors: bool,
    /// Only messages for the agent and what became of them.
    pub said: bool,
    /// Only calls of this tool; upper and lower case do not matter.
    pub tool: Option<String>,
    /// Only entries from this seq on.
    pub first: Option<u64>,
    /// Only entries up to this seq.
    pub last: Option<u64>,
    /// Also turns, model requests, token counts and costs.
    pub all: bool,
}

/// One entry: a record, and the end of the call if the record is the start of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The record. For a call whose start is not stored, this is its end.
    pub record: StoredRecord,
    /// The result of the call, or its refusal; `None` if the call has not ended, and for all other
    /// records.
    pub end: Option<StoredRecord>,
}

/// The direction in which [`Store::entry_seqs`] searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOrder {
    /// From the start of the run.
    Forward,
    /// From the end of the run.
    Backward,
}

/// Records that say nothing which other records do not say, or that only a program needs. The end of
/// a turn repeats the response and the results of the turn.
const MECHANICS: [&str; 5] =
    ["turn_started", "turn_ended", "provider_request_prepared", "usage_reported", "cost_reported"];

/// The end of a call whose start is an entry of its own, or the message that repeats a result.
const IN_ANOTHER_ENTRY: &str = "r.kind IN ('tool_ended', 'denied') AND r.fact IS NOT NULL AND EXISTS \
     (SELECT 1 FROM records AS s WHERE s.run = r.run AND s.kind = 'tool_started' AND s.fact = r.fact \
      AND s.seq BETWEEN :first AND :last) \
     OR r.kind = 'message_appended' AND json_valid(r.payload) \
     AND r.payload ->> '$.message.role' IS 'tool_result' AND EXISTS \
     (SELECT 1 FROM records AS e WHERE e.run = r.run AND e.kind IN ('tool_ended', 'denied') \
      AND e.fact = r.payload ->> '$.message.tool_call_id')";

const FAILED: &str = "r.failed = 1 OR r.kind = 'tool_started' AND r.fact IS NOT NULL AND EXISTS \
     (SELECT 1 FROM records AS e WHERE e.run = r.run AND e.kind IN ('tool_ended', 'denied') \
      AND e.fact = r.fact AND e.failed = 1)";

const SAID: &str = "r.kind IN ('feedback_delivered', 'guidance_delivered', 'outcome')";

const OF_TOOL: &str = "r.kind IN ('tool_started', 'tool_ended', 'denied') AND json_valid(r.payload) \
                       AND r.payload ->> '$.tool_name' = :tool COLLATE NOCASE";

/// The SQL condition of an [`EntryFilter`] on the `records` table with the alias `r`. The parameters
/// are `:first`, `:last`, `:all`, `:errors`, `:said` and `:tool`.
pub(super) fn condition() -> String {
    let mechanics = MECHANICS.join("', '");
    format!(
        "r.seq BETWEEN :first AND :last AND (:all OR r.kind NOT IN ('{mechanics}')) AND NOT ({IN_ANOTHER_ENTRY}) \
         AND (NOT (:errors OR :said) OR :errors AND ({FAILED}) OR :said AND {SAID}) \
         AND (:tool IS NULL OR {OF_TOOL})"
    )
}

impl EntryFilter {
    /// Whether all records pass, except that calls are joined with their results.
    pub fn is_unlimited(&self) -> bool {
        Self { all: false, ..self.clone() } == Self::default()
    }

    pub(super) fn first_seq(&self) -> i64 {
        self.first.map_or(0, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
    }

    pub(super) fn last_seq(&self) -> i64 {
        self.last.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
    }
}

impl Store {
    /// The seqs of up to `count` entries of a run, in this order.
    pub fn entry_seqs(
        &self,
        run_id: &str,
        filter: &EntryFilter,
        order: EntryOrder,
        count: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(Vec::new()) };
        let order = match order {
            EntryOrder::Forward => "ASC",
            EntryOrder::Backward => "DESC",
        };
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT r.seq FROM records AS r WHERE r.run = :run AND {} \
             ORDER BY r.seq {order} LIMIT :count",
            condition()
        ))?;
        let found = find.query_map(
            named_params! {
                ":run": head.id, ":first": filter.first_seq(), ":last": filter.last_seq(),
                ":all": filter.all, ":errors": filter.errors, ":said": filter.said,
                ":tool": filter.tool, ":count": i64::try_from(count).unwrap_or(i64::MAX),
            },
            |row| unsigned(row, 0),
        )?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The entry whose record is at `seq`; `None` if there is no such record.
    pub fn entry(&self, run_id: &str, seq: u64) -> Result<Option<Entry>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(None) };
        self.entry_at(head.id, i64::try_from(seq).unwrap_or(i64::MAX))
    }

    pub(super) fn entry_at(&self, run: i64, seq: i64) -> Result<Option<Entry>, StoreError> {
        let Some(record) = read::record(&self.connection, run, seq)? else { return Ok(None) };
        let end = match (record.kind(), &record.fact) {
            ("tool_started", Some(fact)) => self.end_of_call(run, fact)?,
            _ => None,
        };
        Ok(Some(Entry { record, end }))
    }

    /// The record that ends the call with this fact key.
    fn end_of_call(&self, run: i64, fact: &str) -> Result<Option<StoredRecord>, StoreError> {
        for kind in ["tool_ended", "denied"] {
            if let Some(seq) = seq_of_fact(&self.connection, run, kind, fact)? {
                return read::record(&self.connection, run, seq);
            }
        }
        Ok(None)
    }

    /// The seq of the entry that contains the record at `seq`: for the end of a call, the seq of its
    /// start, if that is stored.
    pub fn entry_of(&self, run_id: &str, seq: u64) -> Result<u64, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(seq) };
        let place = i64::try_from(seq).unwrap_or(i64::MAX);
        let Some(record) = read::row(&self.connection, head.id, place)? else { return Ok(seq) };
        let ("tool_ended" | "denied", Some(fact)) = (record.kind.as_str(), &record.fact) else {
            return Ok(seq);
        };
        let start = seq_of_fact(&self.connection, head.id, "tool_started", fact)?;
        Ok(start.and_then(|start| u64::try_from(start).ok()).unwrap_or(seq))
    }
}

impl Entry {
    /// Whether the call of this entry failed or was refused; `None` if it has not ended, and for
    /// all other records.
    pub fn failed(&self) -> Option<bool> {
        self.end.as_ref().unwrap_or(&self.record).failed
    }
}

impl StoredRecord {
    /// The name of the payload's kind, such as `tool_started`.
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// Whether the record has no content of its own, or only a program needs it: turns, model
    /// requests, token counts and costs.
    pub fn is_mechanics(&self) -> bool {
        MECHANICS.contains(&self.kind())
    }

    /// The payload; `None` if this release cannot read it.
    pub fn payload(&self) -> Option<TrajectoryPayload> {
        serde::Deserialize::deserialize(&self.value).ok()
    }
}
