//! The connection of a shipper: copies batches into the staging tables and has the server take them.

use std::collections::HashMap;
use std::io::Write as _;

use midcourse::{ChainPosition, Head, Link, RunId};
use postgres::{Client, Row};

use super::batch::{Batch, Part};
use super::rows;
use crate::error::FleetError;
use crate::schema;
use crate::target::FleetTarget;

pub(super) struct Connection {
    client: Client,
    project: String,
    store_id: String,
}

/// How much of a store is shipped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) runs: u64,
    pub(super) records: u64,
    pub(super) reports: u64,
}

/// What the server says about a part of a run.
pub(super) struct Reply {
    pub(super) status: Status,
}

/// What became of a part. See the function `midcourse.ship`.
pub(super) enum Status {
    Shipped,
    Moved(ChainPosition),
    Unknown,
    Other,
    Level,
    Dropped,
}

/// How many bytes of rows are handed to the network at once.
const CHUNK: usize = 64 * 1024;

const SHIP: &str =
    "SELECT run_id, status, records, reports, link, project, run FROM midcourse.ship($1, $2)";

/// The longest notification that Postgres takes has 7,999 bytes.
const MAX_NOTIFICATION: usize = 7_000;

impl Connection {
    pub(super) fn open(
        target: &FleetTarget,
        project: &str,
        store_id: &str,
    ) -> Result<Self, FleetError> {
        let mut client = target.connect()?;
        schema::check(&mut client)?;
        // What is shipped is on the server's disk, even if the database is set up not to wait for it:
        // this machine does not send it again. And a lock that is never released is an error. A batch
        // stays in memory until it is moved; only as much as is staged is allocated.
        client.batch_execute(
            "SET lock_timeout = '60s'; SET temp_buffers = '32MB'; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'",
        )?;
        // Creates the staging tables of this session.
        client.query(SHIP, &[&project, &store_id])?;
        Ok(Self { client, project: project.to_owned(), store_id: store_id.to_owned() })
    }

    /// How much of this store the role of this connection has shipped.
    pub(super) fn shipped(&mut self) -> Result<Totals, FleetError> {
        let row = self.client.query_one(
            "SELECT runs, records, reports FROM midcourse.shipped($1, $2)",
            &[&self.project, &self.store_id],
        )?;
        let number = |column| row.try_get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(Totals { runs: number(0)?, records: number(1)?, reports: number(2)? })
    }

    /// The ends of the runs that the role of this connection has shipped.
    pub(super) fn heads(&mut self) -> Result<HashMap<RunId, Head>, FleetError> {
        let heads = heads_of(&mut self.client, &self.project)?;
        Ok(heads.into_iter().map(|(head, _)| (head.run_id.clone(), head)).collect())
    }

    /// Sends a batch. When it returns, the parts that the server has accepted are on its disk. The
    /// replies are in the order of the parts.
    pub(super) fn send(&mut self, batch: &Batch) -> Result<Vec<Reply>, FleetError> {
        let mut transaction = self.client.transaction()?;
        for (table, staged) in batch.tables() {
            if staged.is_empty() {
                continue;
            }
            let mut copy =
                transaction.copy_in(&format!("COPY pg_temp.{table} FROM STDIN BINARY"))?;
            staged
                .bytes()
                .chunks(CHUNK)
                .try_for_each(|chunk| copy.write_all(chunk))
                .map_err(lost)?;
            copy.write_all(&rows::END).map_err(lost)?;
            copy.finish()?;
        }
        let rows = transaction.query(SHIP, &[&self.project, &self.store_id])?;
        transaction.commit()?;
        self.notify(&rows);
        let rows: HashMap<&str, &Row> = rows.iter().map(|row| (row.get(0), row)).collect();
        let reply = |part: &Part| {
            let row = rows.get(part.run_id().as_str());
            let row = row.ok_or_else(|| FleetError::Server("a reply is missing".to_owned()))?;
            Ok(Reply { status: status(row)? })
        };
        batch.parts().iter().map(reply).collect()
    }

    /// Tells those who follow the project which runs were shipped. A transaction with a notification
    /// holds a lock of all databases of the server until its commit is on the disk, so this one is on
    /// its own and does not wait for the disk. A notification may be lost: followers look for themselves
    /// from time to time. The batch is stored, so an error has no consequence; if the connection is
    /// lost, the next batch finds out.
    fn notify(&mut self, rows: &[Row]) {
        let shipped = rows.iter().filter(|row| row.get::<_, &str>(1) == "shipped");
        let numbers = shipped.map(|row| Some((row.try_get(5).ok()?, row.try_get(6).ok()?)));
        let Some(numbers) = numbers.collect::<Option<Vec<(i32, i64)>>>() else { return };
        let Some((project, _)) = numbers.first() else { return };
        let mut text = project.to_string();
        for (_, run) in &numbers {
            text.push_str(&format!(" {run}"));
        }
        if text.len() > MAX_NOTIFICATION {
            text = project.to_string();
        }
        let _ = self.client.batch_execute(&format!(
            "BEGIN; SET LOCAL synchronous_commit = off; SELECT pg_notify('midcourse', '{text}'); COMMIT"
        ));
    }
}

/// The ends of the runs of a project that the role may know, each with the id of its store.
pub(crate) fn heads_of(
    client: &mut Client,
    project: &str,
) -> Result<Vec<(Head, String)>, FleetError> {
    let rows = client
        .query("SELECT run_id, records, link, store FROM midcourse.heads($1)", &[&project])?;
    let head = |row: &Row| {
        let run_id = RunId::from(row.try_get::<_, &str>(0)?);
        let records = row.try_get::<_, i64>(1)?.unsigned_abs();
        Ok((Head { run_id, records, link: link(row, 2)?.to_string() }, row.try_get(3)?))
    };
    rows.iter().map(head).collect()
}

fn link(row: &Row, column: usize) -> Result<Link, FleetError> {
    let link: [u8; 32] = row
        .try_get::<_, &[u8]>(column)?
        .try_into()
        .map_err(|_| FleetError::Server("a link has not 32 bytes".to_owned()))?;
    Ok(Link::from(link))
}

/// An error while rows are sent. What the server says comes as an error of Postgres.
fn lost(error: std::io::Error) -> FleetError {
    match error.downcast::<postgres::Error>() {
        Ok(error) => error.into(),
        Err(error) => FleetError::Unreachable(error.to_string()),
    }
}

fn status(row: &Row) -> Result<Status, FleetError> {
    Ok(match row.get::<_, &str>(1) {
        "shipped" => Status::Shipped,
        "moved" => {
            let number = |column| row.try_get::<_, i64>(column).map(|it| it.unsigned_abs());
            Status::Moved(ChainPosition {
                records: number(2)?,
                reports: number(3)?,
                link: link(row, 4)?,
            })
        }
        "unknown" => Status::Unknown,
        "other" => Status::Other,
        "level" => Status::Level,
        "dropped" => Status::Dropped,
        other => return Err(FleetError::Server(format!("unknown status `{other}`"))),
    })
}
