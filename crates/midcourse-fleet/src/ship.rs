//! Shipping: the runs of a store on this machine, to a fleet.
//!
//! The store is the outbox. For each run, a cursor says how far the run was shipped; it is only a memory
//! of what the server has said, because the server accepts a part of a run only if it continues exactly
//! what is stored there. So a part is stored once, however often it is sent: after a crash on either
//! side, the server returns the position up to which it has the run, and shipping goes on from there.
//!
//! A run that the server does not accept is reported and left out; it never keeps others from being
//! shipped.

mod batch;
mod connection;
mod cursors;
mod level;

use std::collections::{HashMap, VecDeque};

use midcourse::{ChainError, ChainLimit, ChainPosition, DataDir, Link, RunId, Store};

use crate::error::FleetError;
use crate::target::FleetTarget;
use batch::{Batch, Part};
use connection::{Connection, Reply, Status};
use cursors::Cursors;

pub use level::Level;

/// How much one batch contains at most. Its rows are in memory on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimit {
    /// The number of runs.
    pub runs: usize,
    /// The number of records and reports.
    pub entries: usize,
    /// After this many bytes, nothing is added.
    pub bytes: usize,
}

impl Default for BatchLimit {
    fn default() -> Self {
        Self { runs: 500, entries: 5_000, bytes: 8 * 1024 * 1024 }
    }
}

/// What to ship, and to which project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipSettings {
    /// The project of the fleet.
    pub project: String,
    /// How much of each run is shipped.
    pub level: Level,
}

/// What was shipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of runs of which something was shipped.
    pub runs: u64,
    /// The number of records.
    pub records: u64,
    /// The number of further reports.
    pub reports: u64,
    /// The number of batches.
    pub batches: u64,
    /// Runs that the server did not accept, or that cannot be shipped.
    pub refused: Vec<Refused>,
}

/// A run that was not shipped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The run.
    pub run_id: RunId,
    /// Why it was not shipped, and what to do.
    pub why: String,
}

/// The id under which a store was shipped to a project; `None` if it was not.
pub(crate) fn store_id(
    data_dir: &DataDir,
    target: &FleetTarget,
    project: &str,
) -> Result<Option<String>, FleetError> {
    Cursors::find_store_id(data_dir, &place(target, project))
}

/// Names a project of a fleet.
fn place(target: &FleetTarget, project: &str) -> String {
    format!("{} project {project}", target.identity())
}

/// Ships the runs of one store to one project.
pub struct Shipper {
    target: FleetTarget,
    settings: ShipSettings,
    limit: BatchLimit,
    store: Store,
    cursors: Cursors,
    connection: Option<Connection>,
    /// Runs that may have something new, each once.
    waiting: VecDeque<RunId>,
    /// How many of these, from the front, are shipped one by one, because one of them made the batch
    /// fail that they were in.
    alone: usize,
    /// Runs that were refused, with the last link that they had then: they are tried again when they
    /// have grown.
    refused: HashMap<RunId, Link>,
}

impl Shipper {
    /// Prepares to ship the store in a data directory; `None` if there is no store. Fails if another
    /// process is shipping this store to the same place.
    pub fn open(
        data_dir: &DataDir,
        target: FleetTarget,
        settings: ShipSettings,
    ) -> Result<Option<Self>, FleetError> {
        let Some(store) = Store::open_read_only(data_dir)? else { return Ok(None) };
        let cursors = Cursors::open(data_dir, &place(&target, &settings.project))?;
        Ok(Some(Self {
            target,
            settings,
            limit: BatchLimit::default(),
            store,
            cursors,
            connection: None,
            waiting: VecDeque::new(),
            alone: 0,
            refused: HashMap::new(),
        }))
    }

    /// Sets how much one batch contains.
    pub const fn limit_batches(&mut self, limit: BatchLimit) {
        self.limit = limit;
    }

    /// Ships everything that is new. After an error, another call goes on where this one stopped.
    /// `progress` is told about each batch.
    pub fn ship(&mut self, mut progress: impl FnMut(&Progress)) -> Result<Progress, FleetError> {
        let mut done = Progress::default();
        self.find_news()?;
        while !self.waiting.is_empty() {
            let shipped = self.ship_batch().inspect_err(|_| self.connection = None)?;
            progress(&shipped);
            done.runs += shipped.runs;
            done.records += shipped.records;
            done.reports += shipped.reports;
            done.batches += shipped.batches;
            done.refused.extend(shipped.refused);
        }
        Ok(done)
    }

    /// A number that changes when another process has changed the store.
    pub fn data_version(&self) -> Result<i64, FleetError> {
        Ok(self.store.data_version()?)
    }

    /// Connects if there is no connection, so that a wrong address or password is noticed at once.
    pub fn connect(&mut self) -> Result<(), FleetError> {
        self.connection().map(drop)
    }

    fn connection(&mut self) -> Result<&mut Connection, FleetError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                Connection::open(&self.target, &self.settings.project, self.cursors.store_id())?
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Finds the runs whose hash chain does not end where their cursor is.
    fn find_news(&mut self) -> Result<(), FleetError> {
        let ends = self.store.chain_ends()?;
        self.refused.retain(|run_id, link| ends.contains(&(run_id.clone(), *link)));
        let is_news = |run_id: &RunId, link: &Link| {
            let cursor = self.cursors.position(run_id);
            cursor.is_none_or(|cursor| cursor.link != *link) && !self.refused.contains_key(run_id)
        };
        let news = ends.into_iter().filter(|(run_id, link)| is_news(run_id, link));
        self.waiting = news.map(|(run_id, _)| run_id).collect();
        self.alone = 0;
        Ok(())
    }

    fn ship_batch(&mut self) -> Result<Progress, FleetError> {
        let mut progress = Progress::default();
        let batch = self.next_batch(&mut progress)?;
        if batch.is_empty() {
            return Ok(progress);
        }
        let replies = match self.connection()?.send(&batch) {
            Ok(replies) => replies,
            Err(error @ FleetError::Data(_)) => {
                self.separate(&batch, &error, &mut progress)?;
                return Ok(progress);
            }
            Err(error) => return Err(error),
        };
        progress.batches = 1;
        for (part, reply) in batch.parts().iter().zip(replies) {
            self.apply(part, reply, &mut progress)?;
        }
        self.cursors.commit()?;
        Ok(progress)
    }

    /// After the server could not store a batch: finds out which run is at fault, and refuses that one.
    fn separate(
        &mut self,
        batch: &Batch,
        error: &FleetError,
        progress: &mut Progress,
    ) -> Result<(), FleetError> {
        if let [part] = batch.parts() {
            return self.refuse(part.run_id().clone(), error.to_string(), progress);
        }
        for part in batch.parts().iter().rev() {
            self.put_first(part.run_id().clone());
        }
        self.alone = batch.parts().len();
        Ok(())
    }

    /// Has a run shipped next. If it was not read to its end, it is waiting already.
    fn put_first(&mut self, run_id: RunId) {
        self.waiting.retain(|waiting| *waiting != run_id);
        self.waiting.push_front(run_id);
    }

    /// Reads the next part of as many runs as fit into a batch.
    fn next_batch(&mut self, progress: &mut Progress) -> Result<Batch, FleetError> {
        let mut batch = Batch::new(self.settings.level);
        let runs = if self.alone > 0 { 1 } else { self.limit.runs.max(1) };
        self.alone = self.alone.saturating_sub(1);
        for _ in 0..runs.min(self.waiting.len()) {
            let entries = self.limit.entries.max(1).saturating_sub(batch.entries());
            let bytes = self.limit.bytes.max(1).saturating_sub(batch.bytes());
            if entries == 0 || bytes == 0 {
                break;
            }
            let Some(run_id) = self.waiting.pop_front() else { break };
            let from = self.cursors.position(&run_id);
            let from = from.unwrap_or_else(|| ChainPosition::start(&run_id));
            match self.store.chain_after(&run_id, &from, ChainLimit { entries, bytes }) {
                Ok(read) if !batch.has_room_for(&from, &read.header) => {
                    self.waiting.push_front(run_id);
                    break;
                }
                Ok(read) => {
                    let is_whole = read.end == read.header.end();
                    if let Err(why) = batch.add(&self.store, from, read) {
                        self.refuse(run_id, why, progress)?;
                    } else if !is_whole {
                        self.waiting.push_back(run_id);
                    }
                }
                // The run was deleted, or its records moved into the run that adopted it.
                Err(ChainError::NoRun) => {}
                Err(error @ ChainError::Diverged(_)) => {
                    let why = format!(
                        "{error}: it was changed here after it was shipped (`midcourse redact`, \
                         `repair`), or another store ships a run with this id; the fleet keeps what \
                         it has, until its owner runs `midcourse fleet delete`"
                    );
                    // What the cursor says may be out of date.
                    self.cursors.forget(&run_id);
                    self.refuse(run_id, why, progress)?;
                }
                Err(ChainError::Store(error @ midcourse::StoreError::Damaged(_))) => {
                    let why = format!("{error}; `midcourse verify` says more");
                    self.refuse(run_id, why, progress)?;
                }
                Err(ChainError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(batch)
    }

    /// Takes the server's word for how far a run is shipped.
    fn apply(
        &mut self,
        part: &Part,
        reply: Reply,
        progress: &mut Progress,
    ) -> Result<(), FleetError> {
        let run_id = part.run_id().clone();
        let why = match reply.status {
            Status::Shipped => {
                progress.runs += 1;
                progress.records += part.records();
                progress.reports += part.reports();
                self.cursors.set(&run_id, part.end());
                return Ok(());
            }
            // An earlier reply was lost, or this cursor is from an older backup.
            Status::Moved(position) if position != part.start() => {
                self.cursors.set(&run_id, position);
                self.put_first(run_id);
                return Ok(());
            }
            Status::Unknown if part.start() != ChainPosition::start(&run_id) => {
                self.cursors.forget(&run_id);
                self.put_first(run_id);
                return Ok(());
            }
            Status::Moved(_) | Status::Unknown => {
                "the fleet says that it has another part of the run".to_owned()
            }
            Status::Other => "another role ships a run with this id to the project".to_owned(),
            Status::Level => format!(
                "the run was shipped with another level before; ship it with the same, or have the \
                 owner of the fleet run `midcourse fleet delete {run_id}`"
            ),
            Status::Dropped => {
                "the fleet has dropped the day on which the run started, and takes nothing more of \
                 it"
                .to_owned()
            }
        };
        self.refuse(run_id, why, progress)
    }

    fn refuse(
        &mut self,
        run_id: RunId,
        why: String,
        progress: &mut Progress,
    ) -> Result<(), FleetError> {
        self.waiting.retain(|waiting| *waiting != run_id);
        if let Some(header) = self.store.run_header(&run_id)? {
            self.refused.insert(run_id.clone(), header.link);
        }
        progress.refused.push(Refused { run_id, why });
        Ok(())
    }
}
