//! Reads copies of runs from the store.

use midcourse_core::RunId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{ChainBody, ChainEntry, ChainPosition, ChainRecord, ChainReport, RunHeader};
use crate::store::append::run_head;
use crate::store::chain::Link;
use crate::store::error::StoreError;
use crate::store::read::{self, ReportRow, Row};
use crate::store::runs::{RunSummary, SummaryState};
use crate::store::{Store, labels, runs};

/// How much of a hash chain is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLimit {
    /// The maximum number of entries.
    pub entries: usize,
    /// After this many bytes, no further entry is read.
    pub bytes: usize,
}

impl ChainLimit {
    /// The whole chain.
    pub const NONE: Self = Self { entries: usize::MAX, bytes: usize::MAX };
}

/// A part of a run's hash chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPart {
    /// The run as it was when the part was read.
    pub header: RunHeader,
    /// The entries, in the order of the chain.
    pub entries: Vec<ChainEntry>,
    /// The position after the last entry.
    pub end: ChainPosition,
}

/// Why a part of a hash chain cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The run is not stored.
    #[error("the run is not in the store")]
    NoRun,
    /// The run's hash chain does not contain the position from which to read.
    #[error("the run does not contain the position after {0} records any more")]
    Diverged(u64),
    /// The store could not be read, or the chain is broken.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for ChainError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// The header of a run; `None` if the run is not stored.
    pub fn run_header(&self, run_id: &RunId) -> Result<Option<RunHeader>, StoreError> {
        header(&self.connection, run_id)
    }

    /// The ids of all runs with the last link of their hash chains, parents before their child runs.
    pub fn chain_ends(&self) -> Result<Vec<(RunId, Link)>, StoreError> {
        let mut find =
            self.connection.prepare_cached("SELECT run_id, head FROM runs ORDER BY depth, id")?;
        let found = find.query_map([], |row| {
            let link: [u8; 32] = row.get(1)?;
            Ok((RunId::from(row.get::<_, String>(0)?), Link::from(link)))
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Reads the entries after a position of a run's hash chain, and checks each: that nothing is
    /// missing, and that its hash is that of its content.
    pub fn chain_after(
        &self,
        run_id: &RunId,
        from: &ChainPosition,
        limit: ChainLimit,
    ) -> Result<ChainPart, ChainError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let header = header(&snapshot, run_id)?.ok_or(ChainError::NoRun)?;
        let head = run_head(&snapshot, run_id.as_str())?.ok_or(ChainError::NoRun)?;
        let mut reader = Reader { connection: &snapshot, run: head.id, end: *from };
        if !reader.is_in_chain(run_id)? {
            return Err(ChainError::Diverged(from.records));
        }
        let mut entries = Vec::new();
        let mut bytes = 0_usize;
        while entries.len() < limit.entries && bytes < limit.bytes {
            let left = limit.entries.saturating_sub(entries.len()).min(PAGE);
            let page = reader.next_entries(left)?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                let broken = |error: super::BrokenChain| StoreError::Damaged(error.to_string());
                reader.end = reader.end.after(&entry).map_err(broken)?;
                bytes = bytes.saturating_add(entry.size());
                entries.push(entry);
                if bytes >= limit.bytes {
                    break;
                }
            }
        }
        Ok(ChainPart { header, entries, end: reader.end })
    }
}

/// How many records are read with one query.
const PAGE: usize = 512;

struct Reader<'c> {
    connection: &'c Connection,
    run: i64,
    end: ChainPosition,
}

impl Reader<'_> {
    /// Whether the chain of the run has the position's link at the position.
    fn is_in_chain(&self, run_id: &RunId) -> Result<bool, StoreError> {
        let ChainPosition { records, reports, link } = self.end;
        let (records, reports) = (signed(records), signed(reports));
        // The report directly before the position, if it arrived after the last record before it.
        let report: Option<[u8; 32]> = match reports {
            0 => None,
            _ => self
                .connection
                .prepare_cached(
                    "SELECT iif(after = ?2, link, NULL) FROM reports WHERE run = ?1 \
                     ORDER BY after, id LIMIT 1 OFFSET ?3",
                )?
                .query_row(params![self.run, records, reports.saturating_sub(1)], |row| row.get(0))
                .optional()?
                .flatten(),
        };
        if let Some(found) = report {
            return Ok(Link::from(found) == link);
        }
        if records == 0 {
            return Ok(reports == 0 && ChainPosition::start(run_id) == self.end);
        }
        let found: Option<[u8; 32]> = self
            .connection
            .prepare_cached("SELECT link FROM records WHERE run = ?1 AND seq = ?2")?
            .query_row([self.run, records.saturating_sub(1)], |row| row.get(0))
            .optional()?;
        Ok(found.map(Link::from) == Some(link))
    }

    /// Up to `count` entries after the position, or a few more.
    fn next_entries(&self, count: usize) -> Result<Vec<ChainEntry>, StoreError> {
        let rows = read::rows(self.connection, self.run, signed(self.end.records), count)?;
        // Reports that arrived before the last of these records; at the end of the run all others.
        let last = match rows.last() {
            Some(row) if rows.len() == count => signed(row.seq),
            _ => i64::MAX,
        };
        let reports = self.reports(last)?;
        let mut reports = reports.into_iter().peekable();
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            while let Some(report) = reports.next_if(|report| report.after <= row.seq) {
                entries.push(ChainEntry::Report(report));
            }
            entries.push(ChainEntry::Record(record(row)?));
        }
        entries.extend(reports.map(ChainEntry::Report));
        Ok(entries)
    }

    /// The reports after the position that arrived before the record at `last` or directly before it.
    fn reports(&self, last: i64) -> Result<Vec<ChainReport>, StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT id, seq, after, at, host, channel, status, hash, link, zstd FROM reports \
             WHERE run = ?1 AND after <= ?2 ORDER BY after, id LIMIT -1 OFFSET ?3",
        )?;
        let found = find
            .query_map(params![self.run, last, signed(self.end.reports)], |row| {
                Ok((read::read_report(row)?, row.get::<_, Vec<u8>>(9)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let first = self.end.reports;
        let ordinals = first..;
        found
            .into_iter()
            .zip(ordinals)
            .map(|((row, zstd), ordinal)| report(row, ordinal, zstd))
            .collect()
    }
}

fn record(row: Row) -> Result<ChainRecord, StoreError> {
    let bodies = row.bodies.into_iter().map(|body| {
        Ok(ChainBody {
            pointer: body.pointer,
            hash: hash(&body.hash)?,
            length: u64::try_from(body.length).unwrap_or_default(),
            zstd: body.zstd,
        })
    });
    Ok(ChainRecord {
        seq: row.seq,
        at: row.at,
        kind: row.kind,
        fact: row.fact,
        host: row.host,
        channel: row.channel,
        decision_point: row.decision_point,
        schema_version: row.schema_version,
        redactions: row.redactions,
        failed: row.failed,
        payload: row.payload,
        bodies: bodies.collect::<Result<_, StoreError>>()?,
        link: row.link,
    })
}

fn report(row: ReportRow, ordinal: u64, zstd: Vec<u8>) -> Result<ChainReport, StoreError> {
    Ok(ChainReport {
        ordinal,
        seq: row.seq,
        after: row.after,
        at: row.at,
        host: row.host,
        channel: row.channel,
        status: row.status,
        hash: hash(&row.hash)?,
        zstd,
        link: row.link,
    })
}

fn hash(bytes: &[u8]) -> Result<[u8; 32], StoreError> {
    let damaged = |_| StoreError::Damaged("a hash has not 32 bytes".to_owned());
    bytes.try_into().map_err(damaged)
}

fn header(connection: &Connection, run_id: &RunId) -> Result<Option<RunHeader>, StoreError> {
    let added = ", depth, conversation_id, head, answered, responded, \
         (SELECT count(*) FROM reports WHERE reports.run = runs.id) AS report_count, \
         (SELECT count(*) FROM records AS call WHERE call.run = runs.id \
          AND call.kind = 'tool_started' AND call.fact IS NOT NULL AND NOT EXISTS \
          (SELECT 1 FROM records AS e WHERE e.run = runs.id \
           AND e.kind IN ('tool_ended', 'denied') AND e.fact = call.fact)) AS open_calls";
    let mut find =
        connection.prepare_cached(&format!("{} WHERE run_id = ?1", runs::select(added)))?;
    let found = find.query_row([run_id.as_str()], |row| {
        let link: [u8; 32] = row.get("head")?;
        let count = |value: i64| u64::try_from(value).unwrap_or_default();
        Ok(RunHeader {
            // The state follows from the fields below.
            summary: RunSummary { state: SummaryState::default(), ..runs::read_summary(row)? },
            depth: count(row.get("depth")?),
            conversation_id: row.get("conversation_id")?,
            open_calls: count(row.get("open_calls")?),
            reports: count(row.get("report_count")?),
            link: link.into(),
            engine: row.get(runs::ENGINE_COLUMN)?,
            has_summary: row.get::<_, Option<i64>>(runs::HAS_SUMMARY_COLUMN)?.is_some(),
            answered: row.get("answered")?,
            responded: row.get::<_, Option<i64>>("responded")?.unwrap_or_default() > 0,
            labels: Vec::new(),
        })
    });
    let Some(mut header) = found.optional()? else { return Ok(None) };
    header.labels = labels::of_run(connection, run_id)?;
    Ok(Some(header))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
