//! Taking in records that were stored elsewhere, as often as one likes.
//!
//! A record that stands in its run at the same place already is known, and so is one whose fact
//! is. What is new goes behind the run's latest record; where that gives it another place than it
//! had, it keeps its old one as the key by which it is known the next time.

use rusqlite::Connection;

use super::append::{self, run_head};
use super::draft::Draft;
use super::error::StoreError;
use super::{Store, read};
use crate::event::ForeignRecord;
use crate::relation::Standing;

/// What became of the lines of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Facts that were not known.
    pub new: u64,
    /// Facts that were.
    pub known: u64,
    /// Known facts that gained something.
    pub filled: u64,
    /// Known facts that the same source told differently.
    pub diverged: u64,
    /// New records that stand at another place than where they came from.
    pub renumbered: u64,
}

impl Store {
    /// Takes in some records, all or none.
    pub fn import(&mut self, records: Vec<ForeignRecord>) -> Result<Imported, StoreError> {
        let mut drafts = Vec::new();
        for record in records {
            for event in record.events {
                let mut draft = Draft::new(event, &self.settings)?;
                draft.redactions = draft.redactions.saturating_add(record.redactions);
                drafts.push((record.seq, draft));
            }
        }
        self.write(|connection| {
            let mut imported = Imported::default();
            for (seq, draft) in drafts {
                let (standing, is_renumbered) = take_in(connection, seq, draft)?;
                match standing {
                    Standing::New => imported.new += 1,
                    Standing::Known => imported.known += 1,
                    Standing::Filled => imported.filled += 1,
                    Standing::Diverged => imported.diverged += 1,
                }
                imported.renumbered += u64::from(is_renumbered);
            }
            Ok(imported)
        })
    }
}

/// Takes in one record that had a place elsewhere; tells whether it has another one now.
fn take_in(
    connection: &Connection,
    seq: Option<u64>,
    mut draft: Draft,
) -> Result<(Standing, bool), StoreError> {
    let Some(seq) = seq else {
        return Ok((append::settle(connection, &draft)?.standing, false));
    };
    if is_there(connection, seq, &draft)? {
        return Ok((Standing::Known, false));
    }
    let moves = seq != next_seq(connection, &draft)?;
    if moves && draft.fact.is_none() {
        // The place alone would take another file's record for this one.
        let hash = blake3::hash(draft.json.as_bytes()).to_hex();
        draft.fact = Some(format!("import:{seq}:{}", hash.get(..16).unwrap_or_default()).into());
    }
    let standing = append::settle(connection, &draft)?.standing;
    Ok((standing, moves && standing == Standing::New))
}

/// Whether the run has this very record at this place.
fn is_there(connection: &Connection, seq: u64, draft: &Draft) -> Result<bool, StoreError> {
    let Some(run) = run_head(connection, draft.run.run_id.as_str())? else { return Ok(false) };
    let Ok(seq) = i64::try_from(seq) else { return Ok(false) };
    let Some(record) = read::record(connection, run.id, seq)? else { return Ok(false) };
    Ok(record.value == draft.value()? && record.source == draft.source.as_str())
}

fn next_seq(connection: &Connection, draft: &Draft) -> Result<u64, StoreError> {
    let run = run_head(connection, draft.run.run_id.as_str())?;
    Ok(run.and_then(|run| u64::try_from(run.next_seq).ok()).unwrap_or_default())
}
