//! The embedded store: runs and records in one SQLite database.
//!
//! When a method that writes returns, its transaction is committed and, with the default settings,
//! synced to disk. A record gets its seq (its position in the run) inside the transaction
//! ([`append`]), so seqs have no gaps. A process that handles one event, such as a hook, uses
//! [`ingest`]; a long-lived process shares a [`StoreWriter`] between its tasks.

mod adopt;
mod anchor;
mod append;
mod backup;
mod batch;
mod body;
mod call_failure;
mod chain;
mod checkpoint;
mod delete;
mod entries;
mod error;
mod head;
mod import;
mod ingest;
mod labels;
mod live_facts;
mod log_frames;
mod loss;
mod memory;
mod nesting;
mod outline;
mod parents;
mod period;
mod prepare;
mod prune;
mod read;
mod redact_run;
mod redacted_text;
mod repair;
mod replace;
mod report;
mod restore;
mod run_copy;
mod run_counts;
mod run_list;
mod run_table;
mod runs;
mod schema;
mod search;
mod search_words;
mod settings;
mod spill;
mod step;
mod summaries;
mod summary;
mod synced_engine;
mod tail;
mod task;
mod verify;
mod verify_record;
mod wal;
mod writer;
mod writer_lock;

pub use anchor::Head;
pub use backup::Backup;
pub use batch::Batch;
pub use chain::Link;
pub use delete::Deleted;
pub use entries::{Entry, EntryFilter, EntryOrder};
pub use error::StoreError;
pub use import::{Imported, Importer};
pub use ingest::{Ingested, Intake, ingest, spill_event};
pub use outline::{Outline, OutlineChanges, OutlineStep, StepKind, StepState};
pub use period::{MessageCounts, PatternCount, Period, PeriodRuns, PeriodTotals, PeriodUsage};
pub use read::{RecordAtSeq, RunKey, StoredRecord};
pub use redact_run::RedactedRun;
pub use repair::{Repaired, RepairedRun};
pub use restore::Restored;
pub use run_copy::{
    BrokenChain, ChainBody, ChainEntry, ChainError, ChainLimit, ChainPart, ChainPosition,
    ChainRecord, ChainReport, RunHeader,
};
pub use run_list::{ListedRun, RunCursor, RunFilter};
pub use run_table::{RunOrder, RunTableQuery, TableRun};
pub use runs::{RunSummary, SummaryState};
pub use search::{SearchFilter, SearchHit, SearchIndex};
pub use search_words::SearchWords;
pub use settings::{Durability, StoreSettings};
pub use spill::{Backlog, Spilled, has_spilled, is_kept_in_memory};
pub use summary::{Findings, Trouble};
pub use synced_engine::SyncedEngine;
pub use tail::{Cursor, RecordOfRun};
pub use verify::Finding;
pub use writer::StoreWriter;

use std::time::Duration;

use midcourse_core::TrajectoryRecord;
use rusqlite::{Connection, TransactionBehavior};

use crate::data_dir::DataDir;
use crate::dedupe::RecordStatus;
use crate::event::Event;
use crate::sink::Recorded;
use append::Appended;
use head::RecordCount;
use prepare::PreparedEvent;
use wal::WriteAheadLog;

/// An open database of runs and their records.
pub struct Store {
    connection: Connection,
    settings: StoreSettings,
    data_dir: DataDir,
    log: WriteAheadLog,
    /// How many records were stored when this store last wrote; `None` before its first write.
    count: Option<RecordCount>,
}

impl Store {
    /// Opens the store in a data directory for writing, and creates it if there is none.
    pub fn open(data_dir: &DataDir, settings: StoreSettings) -> Result<Self, StoreError> {
        let file = data_dir.store_file();
        if !file.is_file() {
            data_dir.create(data_dir.path())?;
            loss::LossNote::create_file(data_dir)?;
        }
        replace::finish_interrupted(data_dir, settings.busy_timeout)?;
        let log = WriteAheadLog::of(&file, wal::CHECKPOINT_BYTES);
        let connection = schema::open(&file, settings.durability, settings.busy_timeout)?;
        let settings = settings.in_data_dir(data_dir);
        Ok(Self { connection, settings, data_dir: data_dir.clone(), log, count: None })
    }

    /// Opens the store in a data directory for reading; `None` if there is none.
    pub fn open_read_only(data_dir: &DataDir) -> Result<Option<Self>, StoreError> {
        let file = data_dir.store_file();
        if !file.try_exists()? {
            return Ok(None);
        }
        let settings = StoreSettings::default();
        replace::finish_interrupted(data_dir, settings.busy_timeout)?;
        let connection = schema::open_read_only(&file, settings.busy_timeout)?;
        let log = WriteAheadLog::of(&file, wal::CHECKPOINT_BYTES);
        Ok(Some(Self { connection, settings, data_dir: data_dir.clone(), log, count: None }))
    }

    /// The version of the store's schema.
    pub fn schema_version(&self) -> Result<u32, StoreError> {
        schema::version(&self.connection)
    }

    /// Stores one event without showing it to an engine, so no message for the agent results.
    pub fn append(&mut self, event: Event) -> Result<Recorded, StoreError> {
        let event = PreparedEvent::new(event, &self.settings)?;
        let appended = self.write(|connection| append::append_unanalysed(connection, &event))?;
        Ok(recorded(event, appended))
    }

    /// Stores several events with one commit. An event that is malformed, or whose run is damaged,
    /// fails alone; any other error, such as a full disk, fails all of them.
    pub fn append_all(
        &mut self,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Result<Recorded, StoreError>>, StoreError> {
        self.append_redacted(events.into_iter().map(|event| (event, 0)))
    }

    /// Stores several events with one commit. Each comes with the number of secrets that were
    /// redacted in it earlier, for example when it was written to the spill folder.
    fn append_redacted(
        &mut self,
        events: impl IntoIterator<Item = (Event, u32)>,
    ) -> Result<Vec<Result<Recorded, StoreError>>, StoreError> {
        let prepare = |(event, redactions): (Event, u32)| {
            let mut event = PreparedEvent::new(event, &self.settings)?;
            event.prepared.redactions = event.prepared.redactions.saturating_add(redactions);
            Ok(event)
        };
        let events: Vec<Result<PreparedEvent, StoreError>> =
            events.into_iter().map(prepare).collect();
        let appended = self.write(|connection| {
            let append = |event: &Result<PreparedEvent, StoreError>| match event {
                Ok(event) => append_alone(connection, event),
                Err(error) => Ok(Err(error.clone())),
            };
            events.iter().map(append).collect::<Result<Vec<_>, StoreError>>()
        })?;
        let results = events.into_iter().zip(appended);
        Ok(results.map(|(event, appended)| Ok(recorded(event?, appended?))).collect())
    }

    /// Runs `work` in a write transaction and commits it. Everything that adds, changes or removes
    /// records uses this method.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        append::check_version(&transaction)?;
        let mut is_noted = true;
        if self.count.is_none()
            && let Some(what) = RecordCount::in_database(&transaction)?.missing(&self.data_dir)
        {
            is_noted = head::note(&self.data_dir, &what).is_ok();
            // The commit below overwrites the part of the log after the damage, so copy the log
            // first.
            self.log.keep_damaged();
        }
        let done = work(&transaction)?;
        let count = RecordCount::in_database(&transaction)?;
        self.log.before_commit()?;
        if let Err(error) = transaction.commit() {
            // The write-ahead log may contain the transaction although the log could not be synced,
            // and the next process would take the transaction for committed. A checkpoint prevents
            // that: for SQLite the transaction has failed, so it is not copied into the database,
            // and the log is empty afterwards.
            let _ = self.log.checkpoint(&self.connection, self.settings.busy_timeout);
            return Err(error.into());
        }
        // If the note could not be written, the number in the file stays, and the next process tries
        // again. If commits are not synced, a power cut may take the latest ones back.
        let is_full = self.settings.durability == Durability::Full;
        if is_noted && is_full && self.count != Some(count) {
            count.write(&self.data_dir);
        }
        self.count = is_noted.then_some(count);
        // The transaction is already durable. `after_commit` only shortens the write-ahead log; if
        // that fails, the next commit tries again.
        let _ = self.log.after_commit(&self.connection, self.settings.busy_timeout);
        Ok(done)
    }

    /// Changes how long this store waits for another process's lock.
    fn set_busy_timeout(&mut self, busy_timeout: Duration) -> Result<(), StoreError> {
        self.settings.busy_timeout = busy_timeout;
        Ok(self.connection.busy_timeout(schema::bounded(busy_timeout))?)
    }

    /// Truncates the write-ahead log if nobody is reading, so that the next process has less to
    /// read.
    fn truncate_log(&mut self) {
        let _ = self.log.checkpoint(&self.connection, self.settings.busy_timeout);
    }

    /// Up to `count` records of a run in order, beginning with seq `from`. One damaged record fails
    /// the whole call.
    pub fn records(
        &self,
        run_id: &str,
        from: u64,
        count: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let records = self.records_or_damage(run_id, from, count)?;
        records.into_iter().map(|(_, record)| record).collect()
    }

    /// Up to `count` records of a run in order, beginning with seq `from`. For a damaged record,
    /// the list has an error in its place.
    pub fn records_or_damage(
        &self,
        run_id: &str,
        from: u64,
        count: usize,
    ) -> Result<Vec<RecordAtSeq>, StoreError> {
        let Some(head) = append::run_head(&self.connection, run_id)? else { return Ok(Vec::new()) };
        read::records(&self.connection, head.id, i64::try_from(from).unwrap_or(i64::MAX), count)
    }

    /// The records of a run whose payload kind is in `kinds`, in order.
    pub fn records_of(
        &self,
        run_id: &str,
        kinds: &[&str],
    ) -> Result<Vec<TrajectoryRecord>, StoreError> {
        let Some(head) = append::run_head(&self.connection, run_id)? else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        for seq in read::seqs_of(&self.connection, head.id, kinds)? {
            records.extend(read::record(&self.connection, head.id, seq)?);
        }
        Ok(records.into_iter().map(StoredRecord::into_record).collect())
    }

    /// The latest record of a run whose payload kind is in `kinds`. Searches from the end of the run.
    pub fn latest_record_of(
        &self,
        run_id: &str,
        kinds: &[&str],
    ) -> Result<Option<TrajectoryRecord>, StoreError> {
        let Some(head) = append::run_head(&self.connection, run_id)? else { return Ok(None) };
        let Some(seq) = read::latest_seq_of(&self.connection, head.id, kinds)? else {
            return Ok(None);
        };
        let record = read::record(&self.connection, head.id, seq)?;
        Ok(record.map(StoredRecord::into_record))
    }

    /// All records of a run in order, in the form that the engine takes.
    pub fn trajectory(&self, run_id: &str) -> Result<Vec<TrajectoryRecord>, StoreError> {
        let records = self.records(run_id, 0, usize::MAX)?;
        Ok(records.into_iter().map(StoredRecord::into_record).collect())
    }

    /// The data directory of the store.
    pub const fn data_dir(&self) -> &DataDir {
        &self.data_dir
    }
}

/// Appends one of several events in a transaction. If the event is malformed or its run is damaged,
/// only this event fails; if the disk fails, the whole transaction does.
fn append_alone(
    connection: &Connection,
    event: &PreparedEvent,
) -> Result<Result<Appended, StoreError>, StoreError> {
    connection.prepare_cached("SAVEPOINT alone")?.execute([])?;
    match append::append_unanalysed(connection, event) {
        Ok(appended) => {
            connection.prepare_cached("RELEASE alone")?.execute([])?;
            Ok(Ok(appended))
        }
        Err(error @ (StoreError::Damaged(_) | StoreError::Rejected(_))) => {
            connection.execute_batch("ROLLBACK TO alone; RELEASE alone")?;
            Ok(Err(error))
        }
        Err(error) => Err(error),
    }
}

/// The stored record of an event, with its status.
fn recorded(event: PreparedEvent, appended: Appended) -> Recorded {
    match appended {
        Appended::New(seq) => {
            let mut record = event.prepared.record;
            record.seq = seq;
            Recorded { record, status: RecordStatus::New }
        }
        Appended::Existing(status, record) => Recorded { record, status },
    }
}
