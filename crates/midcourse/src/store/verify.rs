//! Verifies a store: seqs without gaps, unbroken hash chains, readable long texts, correct counts.
//!
//! A run has records and reports; a report is stored when an event that already has a record is
//! reported again. Other processes may write to a run while it is verified. So the row of the run
//! is read first, and records and reports that are added after that are ignored.

use std::fmt;

use midcourse_core::{RunId, Timestamp, TrajectoryPayload};
use rusqlite::OptionalExtension as _;
use serde::Deserialize as _;

use super::anchor::Head;
use super::append::{self, RunHead};
use super::chain::Link;
use super::error::StoreError;
use super::head::{self, RecordCount};
use super::log_frames::Behind;
use super::loss::LossNote;
use super::read::{self, ReportRow, Row};
use super::run_counts::{Ending, RunCounts};
use super::{RunSummary, Store, spill};

/// How many records are read from the database at a time.
const PAGE: usize = 64;

/// A defect that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The run with the defect; `None` if the defect is not in one run.
    pub run_id: Option<RunId>,
    /// What is wrong, for the user.
    pub description: String,
}

impl Finding {
    fn outside_of_runs(description: String) -> Self {
        Self { run_id: None, description }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run_id {
            Some(run_id) => write!(f, "{run_id}: {}", self.description),
            None => f.write_str(&self.description),
        }
    }
}

/// The row of a run and the id of the run's last report, as they were when its verification began.
struct Snapshot {
    head: RunHead,
    summary: RunSummary,
    last_report: i64,
}

impl Store {
    /// Verifies everything outside the runs: the database file, events left in the spill folder,
    /// and lost events for which no gap marker (a record with their number) is stored yet.
    pub fn verify_file(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = self.verify_database()?;
        let mut whats = Vec::new();
        let missing = RecordCount::in_database(&self.connection)?.missing(self.data_dir());
        // After a power cut, the log may end with parts of commits that were never acknowledged.
        // This is not damage, so damage in the log is reported only if records are missing.
        whats.extend(missing.as_ref().and_then(|_| self.behind_damage()));
        whats.extend(missing);
        whats.extend(head::notes(self.data_dir()));
        whats.extend(spill::leftovers(self.data_dir())?);
        let (runs, events) = LossNote::outstanding(self.data_dir());
        if events > 0 {
            whats.push(format!(
                "{events} events of {runs} runs were lost and no gap marker records it yet"
            ));
        }
        findings.extend(whats.into_iter().map(Finding::outside_of_runs));
        Ok(findings)
    }

    /// Describes the commits that SQLite ignores because they follow damage in the write-ahead log.
    /// Returns `None` if there are none.
    pub(super) fn behind_damage(&self) -> Option<String> {
        let Behind { frame, frames, commits } = self.log.frames().behind_damage()?;
        let place = match frame {
            0 => "in its header".to_owned(),
            frame => format!("at frame {frame}"),
        };
        Some(format!(
            "the write-ahead log is damaged {place}: {commits} commits ({frames} frames) behind the \
             damage are ignored; `midcourse repair` can read them"
        ))
    }

    /// Verifies the structure of the database, but not its runs.
    pub(super) fn verify_database(&self) -> Result<Vec<Finding>, StoreError> {
        let mut whats = Vec::new();
        let mut check = self.connection.prepare("PRAGMA integrity_check(20)")?;
        for line in check.query_map([], |row| row.get::<_, String>(0))? {
            match line {
                Ok(line) if line == "ok" => {}
                Ok(line) => whats.push(format!("the database is damaged: {line}")),
                Err(error) => {
                    whats.push(StoreError::from(error).to_string());
                    break;
                }
            }
        }
        let mut orphans = self.connection.prepare("PRAGMA foreign_key_check")?;
        let tables = orphans.query_map([], |row| row.get::<_, String>(0))?;
        let mut tables: Vec<String> = tables.filter_map(Result::ok).collect();
        tables.dedup();
        whats.extend(
            tables.iter().map(|table| format!("the table {table} has rows without a parent row")),
        );
        Ok(whats.into_iter().map(Finding::outside_of_runs).collect())
    }

    /// Verifies one run, record by record. An error means that the store could not be read at all.
    pub fn verify_run(&self, run_id: &RunId) -> Result<Vec<Finding>, StoreError> {
        self.verify_run_against(run_id, &[])
    }

    /// Verifies one run, and checks that its hash chain still contains `heads`, which are heads of
    /// this run that the user saved earlier.
    pub fn verify_run_against(
        &self,
        run_id: &RunId,
        heads: &[Head],
    ) -> Result<Vec<Finding>, StoreError> {
        let mut walk = Walk::new(run_id, heads.to_vec());
        match self.walk(run_id, &mut walk) {
            // An unreadable record is a finding about this run; the next run may be intact.
            Err(StoreError::Damaged(what)) => walk.find(what),
            other => other?,
        }
        if !walk.findings.is_empty()
            && append::run_head(&self.connection, run_id.as_str())?.is_none()
        {
            // While the run was verified, it was removed or its records moved into another run. So
            // the findings do not mean that anything is damaged.
            return Ok(Vec::new());
        }
        let find = |description| Finding { run_id: Some(run_id.clone()), description };
        Ok(walk.findings.into_iter().map(find).collect())
    }

    fn snapshot(&self, run_id: &RunId) -> Result<Option<Snapshot>, StoreError> {
        let transaction = self.connection.unchecked_transaction()?;
        let head = append::run_head(&transaction, run_id.as_str())?;
        let (Some(head), Some(summary)) = (head, self.run(run_id.as_str())?) else {
            return Ok(None);
        };
        let last_report = transaction
            .query_row("SELECT max(id) FROM reports WHERE run = ?1", [head.id], |row| row.get(0))
            .optional()?
            .flatten()
            .unwrap_or(0);
        Ok(Some(Snapshot { head, summary, last_report }))
    }

    fn walk(&self, run_id: &RunId, walk: &mut Walk) -> Result<(), StoreError> {
        let Some(Snapshot { head, summary, last_report }) = self.snapshot(run_id)? else {
            return Ok(());
        };
        if let Some(parent_id) = &summary.parent_run_id
            && self.run(parent_id.as_str())?.is_none()
        {
            walk.find(format!("its parent run {parent_id} is not in the store"));
        }
        let reports = read::reports(&self.connection, head.id)?;
        let mut reports = reports.iter().filter(|report| report.id <= last_report).peekable();
        let mut from = 0_i64;
        while from < head.next_seq {
            let rest = usize::try_from(head.next_seq.saturating_sub(from)).unwrap_or(PAGE);
            let page = read::rows(&self.connection, head.id, from, rest.min(PAGE))?;
            let Some(last) = page.last() else { break };
            from = i64::try_from(last.seq).unwrap_or(i64::MAX).saturating_add(1);
            for row in page.iter().filter(|row| row.seq < summary.records) {
                while let Some(report) = reports.next_if(|report| report.after <= row.seq) {
                    walk.report(report);
                }
                walk.record(row);
            }
        }
        for report in reports {
            walk.report(report);
        }
        walk.close(&summary, &head.link);
        Ok(())
    }
}

/// The state of verifying one run record by record.
struct Walk {
    findings: Vec<String>,
    /// Heads that the user saved earlier and that were not found in the chain so far.
    heads: Vec<Head>,
    next_seq: u64,
    link: Link,
    chain_broken: bool,
    calls: i64,
    errors: i64,
    deliveries: i64,
    started: Option<u64>,
    latest: Option<u64>,
    ended: Option<(u64, String)>,
}

impl Walk {
    fn new(run_id: &RunId, heads: Vec<Head>) -> Self {
        Self {
            findings: Vec::new(),
            heads,
            next_seq: 0,
            link: Link::genesis(run_id.as_str()),
            chain_broken: false,
            calls: 0,
            errors: 0,
            deliveries: 0,
            started: None,
            latest: None,
            ended: None,
        }
    }

    fn find(&mut self, what: String) {
        self.findings.push(what);
    }

    fn record(&mut self, row: &Row) {
        if row.seq != self.next_seq {
            self.find(format!("record {} is missing; the next one is {}", self.next_seq, row.seq));
        }
        self.next_seq = row.seq.saturating_add(1);
        let expected = row.link_at(&self.link, row.seq);
        self.advance(&expected, &row.link, &format!("record {}", row.seq));
        self.started = Some(self.started.map_or(row.at, |at| at.min(row.at)));
        self.latest = self.latest.max(Some(row.at));
        match row.value() {
            Err(error) => self.find(error.to_string()),
            Ok(value) => {
                let kind = value.get("kind").and_then(|kind| kind.as_str());
                if kind != Some(row.kind.as_str()) {
                    self.find(format!("the kind of record {} contradicts its payload", row.seq));
                }
                if let Ok(payload) = TrajectoryPayload::deserialize(&value) {
                    self.count(&RunCounts::of(&payload, row.failed), row.at);
                }
            }
        }
    }

    fn count(&mut self, counts: &RunCounts<'_>, at: u64) {
        self.calls += counts.calls;
        self.errors += counts.errors;
        self.deliveries += counts.deliveries;
        match counts.ending {
            Ending::Ended(outcome) => self.ended = Some((at, outcome.to_owned())),
            Ending::Continues => self.ended = None,
            Ending::Unchanged => {}
        }
    }

    fn report(&mut self, report: &ReportRow) {
        let expected = report.link_at(&self.link, report.seq);
        self.latest = self.latest.max(Some(report.at));
        self.advance(&expected, &report.link, &format!("a report about record {}", report.seq));
    }

    /// Compares a stored hash with the expected one. Only the first difference in a run is
    /// reported: it already shows that the run was changed.
    fn advance(&mut self, expected: &Link, found: &Link, what: &str) {
        if expected != found && !self.chain_broken {
            self.chain_broken = true;
            self.find(format!("{what} was changed after it was stored, or moved"));
        }
        self.link = *found;
        self.heads.retain(|head| !head.is(self.next_seq, found));
    }

    fn close(&mut self, summary: &RunSummary, head: &Link) {
        let missing: Vec<u64> = self.heads.iter().map(|head| head.records).collect();
        for records in missing {
            self.find(format!(
                "the run was changed since its head was kept: its first {records} records were others"
            ));
        }
        if self.next_seq != summary.records {
            self.find(format!(
                "the run has {} records, but {} were stored",
                self.next_seq, summary.records
            ));
        }
        if self.link != *head && !self.chain_broken {
            self.find("the last link differs from the one in the run's row".to_owned());
        }
        let counted = [self.calls, self.errors, self.deliveries].map(i64::unsigned_abs);
        if counted != [summary.calls, summary.errors, summary.deliveries] {
            self.find(
                "the run's counts of calls, errors and deliveries do not match its records"
                    .to_owned(),
            );
        }
        let ended = summary.ended.map(|at| {
            let reported = summary.reported_outcome.clone();
            (at, reported.unwrap_or_default())
        });
        let walked = self.ended.clone().map(|(at, how)| (Timestamp::from_unix_ms(at), how));
        let times = [self.started, self.latest].map(|at| at.map(Timestamp::from_unix_ms));
        if self.next_seq > 0
            && (ended, times) != (walked, [summary.started, summary.latest].map(Some))
        {
            self.find("the run's times or its end do not match its records".to_owned());
        }
    }
}
