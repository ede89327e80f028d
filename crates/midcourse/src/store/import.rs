//! Importing records that were stored elsewhere, as often as one likes.
//!
//! A record that its run already has at the same seq is a duplicate, and so is one whose fact is
//! stored. A new record goes after the run's latest one. If that gives it another seq than it had,
//! it keeps the old one as its key, by which the next import recognises it.

use rusqlite::Connection;

use super::append::{self, Appended, run_head};
use super::error::StoreError;
use super::prepare::PreparedEvent;
use super::{Store, read};
use crate::dedupe::RecordStatus;
use crate::event::ForeignRecord;

/// What became of the imported records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// New records.
    pub new: u64,
    /// Facts that were stored already.
    pub duplicates: u64,
    /// Stored facts that gained fields.
    pub merged: u64,
    /// Stored facts that the same source reported with other content.
    pub conflicts: u64,
    /// New records that have another seq here than in the file.
    pub renumbered: u64,
}

impl Store {
    /// Imports some records, all or none.
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

/// Imports one event that had a seq elsewhere; also returns whether it has another one now.
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
        // The seq alone could belong to a record of another file.
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

/// Whether the run has exactly this record at this seq.
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
