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
mod outbox;
mod rows;

use std::collections::HashSet;

use midcourse::{ChainPosition, DataDir, Link, RunId, Store};

use crate::error::FleetError;
use crate::target::FleetTarget;
use batch::{Batch, Part};
use connection::{Connection, Reply, Status, Totals};
use cursors::Cursors;
use outbox::{Outbox, Read};

pub(crate) use connection::heads_of;
pub use level::Level;
pub use outbox::BatchLimit;

/// What to ship, and to which project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipSettings {
    /// The project of the fleet.
    pub project: String,
    /// How much of each run is shipped.
    pub level: Level,
}

impl ShipSettings {
    /// What the owner of the fleet does so that a run can be shipped anew.
    fn delete(&self) -> String {
        format!(
            "have the owner of the fleet run `midcourse fleet delete ADDRESS --project {} RUN --yes`",
            self.project
        )
    }
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

/// Counts the runs of a store that have records or reports after their cursors. Does not ask the server.
pub fn unshipped_runs(
    data_dir: &DataDir,
    target: &FleetTarget,
    project: &str,
) -> Result<usize, FleetError> {
    let Some(store) = Store::open_read_only(data_dir)? else { return Ok(0) };
    let ends = store.chain_ends()?;
    let positions = Cursors::find_positions(data_dir, &place(target, project))?;
    let is_new = |(run_id, link): &&(RunId, Link)| {
        positions.get(run_id).is_none_or(|position| position.link != *link)
    };
    Ok(ends.iter().filter(is_new).count())
}

/// Names a project of a fleet.
fn place(target: &FleetTarget, project: &str) -> String {
    format!("{} project {project}", target.identity())
}

/// Forgets the cursors of runs that the fleet no longer has as far as they say: its owner has restored a
/// backup, or deleted runs. They are shipped again.
fn forget_what_is_lost(
    cursors: &mut Cursors,
    connection: &mut Connection,
) -> Result<(), FleetError> {
    let mut ours = Totals::default();
    for (_, position) in cursors.positions().filter(|(_, position)| position.records > 0) {
        ours.runs = ours.runs.saturating_add(1);
        ours.records = ours.records.saturating_add(position.records);
        ours.reports = ours.reports.saturating_add(position.reports);
    }
    if connection.shipped()? == ours {
        return Ok(());
    }
    let heads = connection.heads()?;
    let is_lost = |(run_id, position): &(&RunId, &ChainPosition)| match heads.get(*run_id) {
        Some(head) if head.records == position.records => head.link != position.link.to_string(),
        // The fleet may have more, if its last reply was lost.
        Some(head) => head.records < position.records,
        None => position.records > 0,
    };
    let lost: Vec<RunId> = cursors.positions().filter(is_lost).map(|it| it.0.clone()).collect();
    lost.iter().for_each(|run_id| cursors.forget(run_id));
    cursors.commit()
}

/// Ships the runs of one store to one project.
pub struct Shipper {
    target: FleetTarget,
    settings: ShipSettings,
    outbox: Outbox,
    cursors: Cursors,
    connection: Option<Connection>,
    /// The runs that the present call of [`Self::ship`] has shipped, in whole or in part.
    shipped: HashSet<RunId>,
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
        let outbox = Outbox::new(store, settings.clone());
        let shipped = HashSet::new();
        Ok(Some(Self { target, settings, outbox, cursors, connection: None, shipped }))
    }

    /// Checks that the fleet can be reached and accepts runs. Ships nothing.
    pub fn check(target: &FleetTarget, settings: &ShipSettings) -> Result<(), FleetError> {
        Connection::open(target, &settings.project, "").map(drop)
    }

    /// Sets how much one batch contains.
    pub const fn limit_batches(&mut self, limit: BatchLimit) {
        self.outbox.limit = limit;
    }

    /// Ships everything that is new. After an error, another call goes on where this one stopped.
    /// `progress` is told about each batch.
    pub fn ship(&mut self, mut progress: impl FnMut(&Progress)) -> Result<Progress, FleetError> {
        let mut done = Progress::default();
        self.shipped.clear();
        // A new connection may find that the fleet has lost runs.
        self.connect()?;
        self.outbox.find_news(&self.cursors)?;
        let mut read = self.outbox.read(&mut self.cursors, None)?;
        while !read.is_empty() || self.outbox.has_more() {
            let (shipped, next) = self.ship_batch(read).inspect_err(|_| self.connection = None)?;
            progress(&shipped);
            done.runs = u64::try_from(self.shipped.len()).unwrap_or(u64::MAX);
            done.records += shipped.records;
            done.reports += shipped.reports;
            done.batches += shipped.batches;
            done.refused.extend(shipped.refused);
            read = next;
        }
        Ok(done)
    }

    /// A number that changes when another process has changed the store.
    pub fn data_version(&self) -> Result<i64, FleetError> {
        Ok(self.outbox.store().data_version()?)
    }

    /// Connects if there is no connection, so that a wrong address or password is noticed at once.
    pub fn connect(&mut self) -> Result<(), FleetError> {
        if self.connection.is_none() {
            let (project, store_id) = (&self.settings.project, self.cursors.store_id());
            let mut connection = Connection::open(&self.target, project, store_id)?;
            forget_what_is_lost(&mut self.cursors, &mut connection)?;
            self.outbox.forget_refusals();
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Ships a batch, and reads the one after it.
    fn ship_batch(&mut self, read: Read) -> Result<(Progress, Read), FleetError> {
        let Read { batch, refused } = read;
        let mut progress = Progress { refused, ..Progress::default() };
        if batch.is_empty() {
            // Of a run that was changed here, the cursor was forgotten: the next try asks the server.
            self.cursors.commit()?;
            return Ok((progress, self.outbox.read(&mut self.cursors, None)?));
        }
        let (sent, mut next) = self.send(&batch)?;
        let replies = match sent {
            Ok(replies) => replies,
            Err(error @ FleetError::Data(_)) => {
                // The next batch may continue what was not stored.
                self.outbox.put_back(&next.batch);
                progress.refused.append(&mut next.refused);
                match batch.parts() {
                    [part] => {
                        let refused =
                            self.outbox.refuse(part.run_id().clone(), error.to_string())?;
                        progress.refused.push(refused);
                    }
                    _ => self.outbox.separate(&batch),
                }
                return Ok((progress, self.outbox.read(&mut self.cursors, None)?));
            }
            Err(error) => return Err(error),
        };
        progress.batches = 1;
        if !replies.iter().all(|reply| matches!(reply.status, Status::Shipped)) {
            // What was read continues what was not accepted, or is in the order of another time.
            self.outbox.put_back(&next.batch);
            next.batch = Batch::new(self.settings.level);
        }
        for (part, reply) in batch.parts().iter().zip(replies) {
            self.apply(part, reply, &mut progress)?;
        }
        self.cursors.commit()?;
        Ok((progress, next))
    }

    /// Sends a batch. While the server works on it, reads the one after it.
    fn send(
        &mut self,
        batch: &Batch,
    ) -> Result<(Result<Vec<Reply>, FleetError>, Read), FleetError> {
        self.connect()?;
        let Self { connection: Some(connection), outbox, cursors, .. } = self else {
            return Err(FleetError::Server("there is no connection".to_owned()));
        };
        if !outbox.has_more() {
            let replies = connection.send(batch);
            return Ok((replies, outbox.read(cursors, Some(batch))?));
        }
        let (sent, read) = std::thread::scope(|scope| {
            let sending = scope.spawn(|| connection.send(batch));
            let read = outbox.read(cursors, Some(batch));
            (sending.join(), read)
        });
        let replies = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((replies, read?))
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
                self.shipped.insert(run_id.clone());
                progress.records += part.records();
                progress.reports += part.reports();
                self.cursors.set(&run_id, part.end());
                return Ok(());
            }
            // An earlier reply was lost, or this cursor is from an older backup.
            Status::Moved(position) if position != part.start() => {
                self.cursors.set(&run_id, position);
                self.outbox.try_again(run_id);
                return Ok(());
            }
            Status::Unknown if part.start() != ChainPosition::start(&run_id) => {
                self.cursors.forget(&run_id);
                self.outbox.try_again(run_id);
                return Ok(());
            }
            Status::Moved(_) | Status::Unknown => format!(
                "the fleet has a different version of the run; to replace it, {}",
                self.settings.delete()
            ),
            Status::Other => format!(
                "another role has shipped a run with this id; ship it with that role, or {}",
                self.settings.delete()
            ),
            Status::Level => format!(
                "the run was shipped with another level before; ship it with that level, or {}",
                self.settings.delete()
            ),
            Status::Dropped => {
                "the fleet has dropped the day on which the run started; the run stays on this \
                 machine only"
                    .to_owned()
            }
        };
        progress.refused.push(self.outbox.refuse(run_id, why)?);
        Ok(())
    }
}
