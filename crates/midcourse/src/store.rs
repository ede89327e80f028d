//! The embedded store: runs and records in one SQLite database.
//!
//! Acknowledged means on disk: when a method that writes returns, its transaction is committed and
//! synced. Seqs are assigned inside the transaction ([`append`]), so they have no holes. A fresh
//! process per event uses [`Store::step`]; a long-lived one shares a [`StoreWriter`].

mod adopt;
mod append;
mod body;
mod chain;
mod draft;
mod error;
mod fold;
mod import;
mod intake;
mod lineage;
mod log;
mod lost;
mod plan;
mod prune;
mod read;
mod runs;
mod schema;
mod search;
mod settings;
mod spill;
mod step;
mod tail;
mod turn;
mod verify;
mod writer;

pub use chain::Link;
pub use error::StoreError;
pub use import::Imported;
pub use intake::{Taken, take_in, take_in_all};
pub use plan::Plan;
pub use read::{Placed, RunKey, StoredRecord};
pub use runs::RunSummary;
pub use search::{Hit, SearchIndex};
pub use settings::{Durability, StoreSettings};
pub use spill::{has_spilled, spill};
pub use step::Step;
pub use tail::Cursor;
pub use verify::Finding;
pub use writer::StoreWriter;

use std::time::Duration;

use midcourse_core::TrajectoryRecord;
use rusqlite::{Connection, TransactionBehavior};

use crate::event::Event;
use crate::home::Home;
use crate::sink::Recorded;
use draft::Draft;
use log::Log;

/// Runs and records on disk.
pub struct Store {
    connection: Connection,
    settings: StoreSettings,
    home: Home,
    log: Log,
}

impl Store {
    /// Opens the store of a home for writing, and makes it if there is none.
    pub fn open(home: &Home, settings: StoreSettings) -> Result<Self, StoreError> {
        let file = home.store_file();
        if !file.is_file() {
            home.make(home.folder())?;
            lost::Lost::make(home)?;
        }
        let log = Log::of(&file, log::FOLD_BYTES);
        let connection = schema::open(&file, settings.durability, settings.patience)?;
        Ok(Self { connection, settings, home: home.clone(), log })
    }

    /// Opens the store of a home for reading; nothing, if there is none.
    pub fn open_to_read(home: &Home) -> Result<Option<Self>, StoreError> {
        let file = home.store_file();
        if !file.try_exists()? {
            return Ok(None);
        }
        let settings = StoreSettings::default();
        let connection = schema::open_to_read(&file, settings.patience)?;
        let log = Log::of(&file, log::FOLD_BYTES);
        Ok(Some(Self { connection, settings, home: home.clone(), log }))
    }

    /// Records one event.
    pub fn append(&mut self, event: Event) -> Result<Recorded, StoreError> {
        let draft = Draft::new(event, &self.settings)?;
        self.append_draft(&draft)
    }

    /// Records several events with one commit. Those that cannot be stored as they are fail alone;
    /// whatever else goes wrong fails all.
    pub fn append_all(
        &mut self,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Result<Recorded, StoreError>>, StoreError> {
        self.append_redacted(events.into_iter().map(|event| (event, 0)))
    }

    /// The same for events out of which so many secrets were taken before.
    fn append_redacted(
        &mut self,
        events: impl IntoIterator<Item = (Event, u32)>,
    ) -> Result<Vec<Result<Recorded, StoreError>>, StoreError> {
        let ready = |(event, redactions): (Event, u32)| {
            let mut draft = Draft::new(event, &self.settings)?;
            draft.redactions = draft.redactions.saturating_add(redactions);
            Ok(draft)
        };
        let drafts: Vec<_> = events.into_iter().map(ready).collect();
        self.write(|connection| {
            let settle = |draft: Result<Draft, StoreError>| match draft {
                Ok(draft) => settle_alone(connection, &draft),
                Err(error) => Ok(Err(error)),
            };
            drafts.into_iter().map(settle).collect()
        })
    }

    fn append_draft(&mut self, draft: &Draft) -> Result<Recorded, StoreError> {
        self.write(|connection| Ok(settled(append::settle(connection, draft)?)))
    }

    /// Does some writing in one transaction, and commits it: the one place that does.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        append::check_version(&transaction)?;
        let done = work(&transaction)?;
        self.log.before_commit()?;
        if let Err(error) = transaction.commit() {
            // What could not be synced may stand in the log all the same, and would come back
            // with the next process as if it had been acknowledged: the log is emptied of it.
            let _ = self.log.fold(&self.connection, self.settings.patience);
            return Err(error.into());
        }
        // What fails here is no failure of the record, which is on disk: the next commit tries
        // again.
        let _ = self.log.after_commit(&self.connection, self.settings.patience);
        Ok(done)
    }

    /// Waits for locks so long from here on.
    fn set_patience(&mut self, patience: Duration) -> Result<(), StoreError> {
        self.settings.patience = patience;
        Ok(self.connection.busy_timeout(schema::bounded(patience))?)
    }

    /// Folds the log into the database, if nobody is reading: whoever opens the store next has
    /// less to read.
    fn empty_log(&mut self) {
        let _ = self.log.fold(&self.connection, self.settings.patience);
    }

    /// Some records of a run, whole, in order, from a seq on.
    pub fn records(
        &self,
        run_id: &str,
        from: u64,
        count: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let records = self.records_if_whole(run_id, from, count)?;
        records.into_iter().map(|(_, record)| record).collect()
    }

    /// The same by their places, where a record that is damaged does not keep the others away.
    pub fn records_if_whole(
        &self,
        run_id: &str,
        from: u64,
        count: usize,
    ) -> Result<Vec<Placed>, StoreError> {
        let Some(head) = append::run_head(&self.connection, run_id)? else { return Ok(Vec::new()) };
        read::records(&self.connection, head.id, i64::try_from(from).unwrap_or(i64::MAX), count)
    }

    /// The records of a run that are of some kinds, in order.
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

    /// All records of a run in order, as the engine takes them.
    pub fn trajectory(&self, run_id: &str) -> Result<Vec<TrajectoryRecord>, StoreError> {
        let records = self.records(run_id, 0, usize::MAX)?;
        Ok(records.into_iter().map(StoredRecord::into_record).collect())
    }

    /// The home it is in.
    pub const fn home(&self) -> &Home {
        &self.home
    }
}

/// Stores a draft among others. What is wrong with it, or with what is stored of its run, is its
/// own affair; what is wrong with the disk is everybody's.
fn settle_alone(
    connection: &Connection,
    draft: &Draft,
) -> Result<Result<Recorded, StoreError>, StoreError> {
    connection.prepare_cached("SAVEPOINT alone")?.execute([])?;
    match append::settle(connection, draft) {
        Ok(done) => {
            connection.prepare_cached("RELEASE alone")?.execute([])?;
            Ok(Ok(settled(done)))
        }
        Err(error @ (StoreError::Damaged(_) | StoreError::Rejected(_))) => {
            connection.execute_batch("ROLLBACK TO alone; RELEASE alone")?;
            Ok(Err(error))
        }
        Err(error) => Err(error),
    }
}

fn settled(settled: append::Settled) -> Recorded {
    Recorded { record: settled.record, standing: settled.standing }
}
