//! Adoption: events may be stored before the id of their run is known, in a provisional run. When
//! the id is known, the real run adopts the provisional one: its records move into the real run.

use midcourse_core::{RunIdentity, TrajectoryPayload};
use rusqlite::{Connection, params};
use serde::Deserialize as _;

use super::append::{RunHead, run_head, seq_of_fact};
use super::error::StoreError;
use super::read::{self, Row};
use super::run_counts::RunCounts;
use super::summaries;

/// Moves the records of a provisional run to the end of the run that adopts it, with new seqs and
/// hashes. Child runs of the provisional run get the new parent. The caller has begun a
/// transaction.
///
/// If the adopting run already has a record with the same fact key (the text that identifies what
/// happened) and payload kind, the provisional record is deleted as a duplicate.
pub(super) fn adopt(
    connection: &Connection,
    provisional: &str,
    run: RunHead,
    identity: &RunIdentity,
) -> Result<RunHead, StoreError> {
    let Some(held) = run_head(connection, provisional)? else { return Ok(run) };
    if held.id == run.id || provisional == identity.run_id.as_str() {
        return Ok(run);
    }
    let mut run = run;
    let mut places = Vec::new();
    for seq in 0..held.next_seq {
        let Some(row) = read::row(connection, held.id, seq)? else { continue };
        let known = match &row.fact {
            Some(fact) => seq_of_fact(connection, run.id, &row.kind, fact)?,
            None => None,
        };
        if known.is_some() {
            connection.execute("DELETE FROM record_bodies WHERE record = ?1", [row.id])?;
            connection.execute("DELETE FROM records WHERE id = ?1", [row.id])?;
        } else {
            places.push((row.seq, run.next_seq));
            move_record(connection, &row, &mut run)?;
        }
    }
    move_reports(connection, &held, &mut run, &places)?;
    connection.execute(
        "UPDATE runs SET started = min(started, (SELECT started FROM runs WHERE id = ?2)), \
         latest = max(latest, (SELECT latest FROM runs WHERE id = ?2)) WHERE id = ?1",
        params![run.id, held.id],
    )?;
    connection.execute(
        "UPDATE runs SET parent_run_id = ?2 WHERE parent_run_id = ?1",
        params![provisional, identity.run_id.as_str()],
    )?;
    connection.execute("DELETE FROM checkpoints WHERE run = ?1", [held.id])?;
    connection.execute("DELETE FROM summaries WHERE run = ?1", [held.id])?;
    connection.execute("DELETE FROM labels WHERE run = ?1", [held.id])?;
    summaries::clear_engine(connection, run.id)?;
    connection.execute("DELETE FROM runs WHERE id = ?1", [held.id])?;
    Ok(run)
}

fn move_record(connection: &Connection, row: &Row, run: &mut RunHead) -> Result<(), StoreError> {
    let link = row.link_at(&run.link, u64::try_from(run.next_seq).unwrap_or_default());
    connection.execute(
        "UPDATE records SET run = ?2, seq = ?3, link = ?4 WHERE id = ?1",
        params![row.id, run.id, run.next_seq, link.as_bytes()],
    )?;
    run.next_seq = run.next_seq.saturating_add(1);
    run.link = link;
    let payload = TrajectoryPayload::deserialize(row.value()?).ok();
    let counts =
        payload.as_ref().map(|payload| RunCounts::of(payload, row.failed)).unwrap_or_default();
    counts.add(connection, run, i64::try_from(row.at).unwrap_or(i64::MAX))?;
    payload.map_or(Ok(()), |payload| summaries::add(connection, run, &payload))
}

/// Moves the further reports about the moved records into the run too. Reports about deleted
/// records are deleted.
fn move_reports(
    connection: &Connection,
    held: &RunHead,
    run: &mut RunHead,
    places: &[(u64, i64)],
) -> Result<(), StoreError> {
    for report in read::reports(connection, held.id)? {
        let Some((_, place)) = places.iter().find(|(seq, _)| *seq == report.seq) else {
            connection.execute("DELETE FROM reports WHERE id = ?1", [report.id])?;
            continue;
        };
        let link = report.link_at(&run.link, u64::try_from(*place).unwrap_or_default());
        connection.execute(
            "UPDATE reports SET run = ?2, seq = ?3, after = ?4, link = ?5 WHERE id = ?1",
            params![report.id, run.id, place, run.next_seq, link.as_bytes()],
        )?;
        connection
            .execute("UPDATE runs SET head = ?2 WHERE id = ?1", params![run.id, link.as_bytes()])?;
        run.link = link;
    }
    Ok(())
}
