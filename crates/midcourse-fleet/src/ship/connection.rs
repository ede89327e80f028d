//! The connection of a shipper: copies batches into the staging tables and has the server take them.

use midcourse::{ChainPosition, Link};
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::{ToSql, Type};
use postgres::{Client, Row, Transaction};

use super::batch::{Batch, Part, body_key};
use crate::error::FleetError;
use crate::schema;
use crate::target::FleetTarget;

pub(super) struct Connection {
    client: Client,
    project: String,
    store_id: String,
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

const SHIP: &str = "SELECT run_id, status, records, reports, link FROM midcourse.ship($1, $2)";

impl Connection {
    pub(super) fn open(
        target: &FleetTarget,
        project: &str,
        store_id: &str,
    ) -> Result<Self, FleetError> {
        let mut client = target.connect()?;
        schema::check(&mut client)?;
        // What is shipped is on the server's disk, even if the database is set up not to wait for it:
        // this machine does not send it again. And a lock that is never released is an error.
        client.batch_execute(
            "SET lock_timeout = '60s'; SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'",
        )?;
        // Creates the staging tables of this session.
        client.query(SHIP, &[&project, &store_id])?;
        Ok(Self { client, project: project.to_owned(), store_id: store_id.to_owned() })
    }

    /// Sends a batch. When it returns, the parts that the server has accepted are on its disk. The
    /// replies are in the order of the parts.
    pub(super) fn send(&mut self, batch: &Batch) -> Result<Vec<Reply>, FleetError> {
        let mut transaction = self.client.transaction()?;
        copy_runs(&mut transaction, batch)?;
        copy_records(&mut transaction, batch)?;
        copy_reports(&mut transaction, batch)?;
        copy_bodies(&mut transaction, batch)?;
        let rows = transaction.query(SHIP, &[&self.project, &self.store_id])?;
        transaction.commit()?;
        let reply = |part: &Part| {
            let row = rows.iter().find(|row| row.get::<_, &str>(0) == part.run_id().as_str());
            let row = row.ok_or_else(|| FleetError::Server("a reply is missing".to_owned()))?;
            Ok(Reply { status: status(row)? })
        };
        batch.parts().iter().map(reply).collect()
    }
}

fn status(row: &Row) -> Result<Status, FleetError> {
    Ok(match row.get::<_, &str>(1) {
        "shipped" => Status::Shipped,
        "moved" => {
            let number = |column| row.try_get::<_, i64>(column).map(|it| it.unsigned_abs());
            let link: &[u8] = row.try_get(4)?;
            let link: [u8; 32] = link
                .try_into()
                .map_err(|_| FleetError::Server("a link has not 32 bytes".to_owned()))?;
            Status::Moved(ChainPosition {
                records: number(2)?,
                reports: number(3)?,
                link: Link::from(link),
            })
        }
        "unknown" => Status::Unknown,
        "other" => Status::Other,
        "level" => Status::Level,
        "dropped" => Status::Dropped,
        other => return Err(FleetError::Server(format!("unknown status `{other}`"))),
    })
}

/// Copies rows into a staging table.
struct Copy<'t> {
    writer: BinaryCopyInWriter<'t>,
}

impl<'t> Copy<'t> {
    fn into(
        transaction: &'t mut Transaction<'_>,
        table: &str,
        types: &[Type],
    ) -> Result<Self, FleetError> {
        let copy = format!("COPY pg_temp.{table} FROM STDIN BINARY");
        let writer = transaction.copy_in(&copy)?;
        Ok(Self { writer: BinaryCopyInWriter::new(writer, types) })
    }

    fn row(&mut self, values: &[&(dyn ToSql + Sync)]) -> Result<(), FleetError> {
        Ok(self.writer.write(values)?)
    }

    fn finish(self) -> Result<(), FleetError> {
        self.writer.finish()?;
        Ok(())
    }
}

/// Numbers of parts in the staging tables.
fn numbered(batch: &Batch) -> impl Iterator<Item = (i32, &Part)> {
    (0_i32..).zip(batch.parts())
}

fn copy_runs(transaction: &mut Transaction<'_>, batch: &Batch) -> Result<(), FleetError> {
    let types = [
        Type::INT4,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::BYTEA,
        Type::INT8,
        Type::INT8,
        Type::BYTEA,
        Type::JSONB,
        Type::TEXT_ARRAY,
    ];
    let mut copy = Copy::into(transaction, "staged_runs", &types)?;
    for (n, part) in numbered(batch) {
        let (from, end) = (part.start(), part.end());
        copy.row(&[
            &n,
            &part.run_id().as_str(),
            &signed(part.started),
            &batch.level().as_str(),
            &signed(from.records),
            &signed(from.reports),
            &from.link.as_bytes().as_slice(),
            &signed(end.records),
            &signed(end.reports),
            &end.link.as_bytes().as_slice(),
            &part.header,
            &part.words,
        ])?;
    }
    copy.finish()
}

fn copy_records(transaction: &mut Transaction<'_>, batch: &Batch) -> Result<(), FleetError> {
    let types = [
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT4,
        Type::INT4,
        Type::BOOL,
        Type::TEXT,
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::TEXT,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ];
    if batch.parts().iter().all(|part| part.records.is_empty()) {
        return Ok(());
    }
    let mut copy = Copy::into(transaction, "staged_records", &types)?;
    for (n, part) in numbered(batch) {
        for record in &part.records {
            let bodies = (!record.bodies.is_empty()).then_some(&record.bodies);
            let pointers = bodies.map(|bodies| -> Vec<&[u8]> {
                bodies.iter().map(|body| body.pointer.as_bytes()).collect()
            });
            let hashes = bodies
                .map(|bodies| -> Vec<&[u8]> { bodies.iter().map(|it| &it.hash[..]).collect() });
            let keys = bodies.map(|bodies| -> Vec<Vec<u8>> {
                bodies.iter().map(|body| body_key(body.length, &body.zstd).to_vec()).collect()
            });
            copy.row(&[
                &n,
                &signed(record.seq),
                &signed(record.at),
                &signed_int(record.schema_version),
                &signed_int(record.redactions),
                &record.failed,
                &record.kind,
                &record.fact.as_ref().map(String::as_bytes),
                &record.host,
                &record.channel,
                &record.decision_point,
                &record.link.as_bytes().as_slice(),
                &record.payload,
                &pointers,
                &hashes,
                &keys,
            ])?;
        }
    }
    copy.finish()
}

fn copy_reports(transaction: &mut Transaction<'_>, batch: &Batch) -> Result<(), FleetError> {
    let types = [
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::BYTEA,
        Type::BYTEA,
    ];
    if batch.parts().iter().all(|part| part.reports.is_empty()) {
        return Ok(());
    }
    let mut copy = Copy::into(transaction, "staged_reports", &types)?;
    for (n, part) in numbered(batch) {
        for report in &part.reports {
            copy.row(&[
                &n,
                &signed(report.ordinal),
                &signed(report.seq),
                &signed(report.after),
                &signed(report.at),
                &report.host,
                &report.channel,
                &report.status,
                &report.hash.as_slice(),
                &report.link.as_bytes().as_slice(),
                &report.zstd,
            ])?;
        }
    }
    copy.finish()
}

fn copy_bodies(transaction: &mut Transaction<'_>, batch: &Batch) -> Result<(), FleetError> {
    let bodies = |part: &'_ Part| part.records.iter().any(|record| !record.bodies.is_empty());
    if !batch.parts().iter().any(bodies) {
        return Ok(());
    }
    let types = [Type::INT4, Type::BYTEA, Type::INT8, Type::BYTEA];
    let mut copy = Copy::into(transaction, "staged_bodies", &types)?;
    for (n, part) in numbered(batch) {
        let mut sent = std::collections::HashSet::new();
        for body in part.records.iter().flat_map(|record| &record.bodies) {
            let key = body_key(body.length, &body.zstd);
            if sent.insert(key) {
                copy.row(&[&n, &key.as_slice(), &signed(body.length), &body.zstd])?;
            }
        }
    }
    copy.finish()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn signed_int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
