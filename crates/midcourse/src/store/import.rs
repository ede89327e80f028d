//! Importing records from another store or program. Importing them again changes nothing.
//!
//! A record is a duplicate if the run already has it at the same seq, or has a record with the same
//! fact key. A new record goes after the run's latest one. If it thereby gets another seq and has
//! no fact key, its old seq becomes part of a key, by which the next import recognises it.

use rusqlite::Connection;

use super::append::{self, Appended, run_head};
use super::error::StoreError;
use super::prepare::PreparedEvent;
use super::{Store, read};
use crate::dedupe::RecordStatus;
use crate::event::ForeignRecord;

/// How many imported records were new, duplicates and so on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// New records.
    pub new: u64,
    /// Records that were stored already.
    pub duplicates: u64,
    /// Stored records that gained fields from an imported one.
    pub merged: u64,
    /// Stored records for which the import has other content from the same source.
    pub conflicts: u64,
    /// New records that have another seq here than in the file.
    pub renumbered: u64,
}

impl Store {
    /// Imports records in one transaction: all or none.
    pub fn import(&mut self, records: Vec<ForeignRecord>) -> Result<Imported, StoreError> {
        let mut events = Vec::new();
        for record in records {
            for event in record.events {
                let mut event = PreparedEvent::new(event, &self.settings)?;
                let redactions = &mut event.prepared.redactions;
                *redactions = redactions.saturating_add(record.redactions);
                events.push((record.seq, event));
            }
        }
        self.write(|connection| {
            let mut imported = Imported::default();
            for (seq, event) in events {
                let (status, is_renumbered) = import_event(connection, seq, event)?;
                match status {
                    RecordStatus::New => imported.new += 1,
                    RecordStatus::Duplicate => imported.duplicates += 1,
                    RecordStatus::Merged => imported.merged += 1,
                    RecordStatus::Conflict => imported.conflicts += 1,
                }
                imported.renumbered += u64::from(is_renumbered);
            }
            Ok(imported)
        })
    }
}

/// Imports one event with the seq that it had in the file. Returns its status, and whether its seq
/// in this store is another one.
fn import_event(
    connection: &Connection,
    seq: Option<u64>,
    mut event: PreparedEvent,
) -> Result<(RecordStatus, bool), StoreError> {
    let Some(seq) = seq else {
        return Ok((status(&append::append(connection, &event)?), false));
    };
    if is_stored_at(connection, seq, &event)? {
        return Ok((RecordStatus::Duplicate, false));
    }
    let moves = seq != next_seq(connection, &event)?;
    if moves && event.prepared.fact.is_none() {
        // A record of another file may have the same seq, so the key also has a hash of the
        // content.
        let hash = blake3::hash(event.prepared.json.as_bytes()).to_hex();
        let key = format!("import:{seq}:{}", hash.get(..16).unwrap_or_default());
        event.prepared.fact = Some(key.into());
    }
    let status = status(&append::append(connection, &event)?);
    Ok((status, moves && status == RecordStatus::New))
}

const fn status(appended: &Appended) -> RecordStatus {
    match appended {
        Appended::New(_) => RecordStatus::New,
        Appended::Existing(status, _) => *status,
    }
}

fn is_stored_at(
    connection: &Connection,
    seq: u64,
    event: &PreparedEvent,
) -> Result<bool, StoreError> {
    let Some(run) = run_head(connection, event.run.run_id.as_str())? else { return Ok(false) };
    let Ok(seq) = i64::try_from(seq) else { return Ok(false) };
    let Some(record) = read::record(connection, run.id, seq)? else { return Ok(false) };
    let prepared = &event.prepared;
    Ok(record.value == prepared.value()? && record.source == prepared.source)
}

fn next_seq(connection: &Connection, event: &PreparedEvent) -> Result<u64, StoreError> {
    let run = run_head(connection, event.run.run_id.as_str())?;
    Ok(run.and_then(|run| u64::try_from(run.next_seq).ok()).unwrap_or_default())
}
