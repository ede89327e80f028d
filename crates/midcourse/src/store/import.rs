//! Importing records from another store or program. Importing them again changes nothing.
//!
//! An imported record is a duplicate if the run already has an equal record at the same seq. If the
//! run has a record with the same fact key (a text that identifies what happened), the two are
//! compared like two reports of one event. Any other record is added at the end of the run. If it
//! gets another seq there and has no fact key, it gets a key that contains its old seq, so that the
//! next import recognises it.
//!
//! The session file of a run that hooks or the proxy recorded adds only what is missing, see
//! `live_facts`. What it adds has no decision point: no message could have been delivered there, and
//! a replay gives the recorded messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use midcourse_core::RunId;
use rusqlite::Connection;

use super::append::{self, Appended, run_head};
use super::error::StoreError;
use super::live_facts::LiveFacts;
use super::prepare::PreparedEvent;
use super::{Store, labels, read};
use crate::dedupe::RecordStatus;
use crate::event::{Channel, ForeignRecord};

/// The result of an import: how many records were new, how many were duplicates, and so on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// New records.
    pub new: u64,
    /// Records that were stored already.
    pub duplicates: u64,
    /// Imported records that added fields to a stored record.
    pub merged: u64,
    /// Imported records that differ from the stored record although they are from the same source.
    pub conflicts: u64,
    /// New records that have another seq in this store than in the imported file.
    pub renumbered: u64,
}

impl Store {
    /// Imports records in one transaction: if one of them cannot be imported, none is.
    pub fn import(&mut self, records: Vec<ForeignRecord>) -> Result<Imported, StoreError> {
        self.importer().import(records)
    }

    /// An import in several transactions, for files that are too large for one.
    pub fn importer(&mut self) -> Importer<'_> {
        Importer { store: self, live: HashMap::new() }
    }
}

/// Imports records of the same files in several transactions.
pub struct Importer<'s> {
    store: &'s mut Store,
    /// What was recorded live, of the runs that were imported so far.
    live: HashMap<RunId, LiveFacts>,
}

impl Importer<'_> {
    /// Imports records in one transaction: if one of them cannot be imported, none is.
    pub fn import(&mut self, records: Vec<ForeignRecord>) -> Result<Imported, StoreError> {
        let mut events = Vec::new();
        for record in records {
            let mut labels = record.labels;
            for event in record.events {
                let mut event = PreparedEvent::new(event, &self.store.settings)?;
                let redactions = &mut event.prepared.redactions;
                *redactions = redactions.saturating_add(record.redactions);
                events.push((record.seq, event, std::mem::take(&mut labels)));
            }
        }
        // Only what a session file says about a run is compared with what was recorded live. Records
        // that another store exported have their own channels.
        let is_from_file =
            |event: &PreparedEvent| event.prepared.source.channel() == Channel::Import;
        let live = &mut self.live;
        let settings = self.store.settings.clone();
        self.store.write(|connection| {
            let mut imported = Imported::default();
            for (seq, mut event, labels) in events {
                if seq.is_none() && is_from_file(&event) {
                    let live = match live.entry(event.run.run_id.clone()) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => {
                            new.insert(LiveFacts::read(connection, event.run.run_id.as_str())?)
                        }
                    };
                    if live.take(&event) {
                        imported.duplicates += 1;
                        continue;
                    }
                    if live.is_recorded() {
                        event.decision_point = None;
                        event.prepared.decision_point = None;
                    }
                }
                let run_id = event.run.run_id.clone();
                let ImportedEvent { status, stored_seq, is_renumbered } =
                    import_event(connection, seq, event)?;
                if !labels.is_empty()
                    && let Some(run) = run_head(connection, run_id.as_str())?
                {
                    for label in &labels {
                        labels::import(connection, run.id, stored_seq, label, &settings)?;
                    }
                }
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

/// What became of an imported event.
struct ImportedEvent {
    status: RecordStatus,
    /// The seq of its record in this store.
    stored_seq: u64,
    /// Whether it became a new record with another seq than in the imported file.
    is_renumbered: bool,
}

/// Imports one event. `seq` is the seq of its record in the imported file.
fn import_event(
    connection: &Connection,
    seq: Option<u64>,
    mut event: PreparedEvent,
) -> Result<ImportedEvent, StoreError> {
    let Some(seq) = seq else {
        let (status, stored_seq) = status(&append::append_unanalysed(connection, &event)?);
        return Ok(ImportedEvent { status, stored_seq, is_renumbered: false });
    };
    if is_stored_at(connection, seq, &event)? {
        let status = RecordStatus::Duplicate;
        return Ok(ImportedEvent { status, stored_seq: seq, is_renumbered: false });
    }
    let moves = seq != next_seq(connection, &event)?;
    if moves && event.prepared.fact.is_none() {
        // A record of another file may have had the same seq, so the key also contains a hash of
        // the payload.
        let hash = blake3::hash(event.prepared.json.as_bytes()).to_hex();
        let key = format!("import:{seq}:{}", hash.get(..16).unwrap_or_default());
        event.prepared.fact = Some(key.into());
    }
    let (status, stored_seq) = status(&append::append_unanalysed(connection, &event)?);
    let is_renumbered = moves && status == RecordStatus::New;
    Ok(ImportedEvent { status, stored_seq, is_renumbered })
}

/// The status of an appended event, and the seq of its record.
const fn status(appended: &Appended) -> (RecordStatus, u64) {
    match appended {
        Appended::New(seq) => (RecordStatus::New, *seq),
        Appended::Existing(status, record) => (*status, record.seq),
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
