//! Checks single records, for commands that return only some records of a run.
//!
//! The link of a record is the hash of its fields and of the link before it. So checking a record
//! needs only one more row, the one before it. This does not show whether earlier records are
//! missing or were changed; [`Store::verify_run`] checks that.

use midcourse_core::RunId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{RunHead, run_head};
use super::chain::Link;
use super::error::StoreError;
use super::verify::Finding;
use super::{Store, read};

impl Store {
    /// Checks a record and the further reports about it. Finds nothing if the record is not stored:
    /// it may just have been removed.
    pub fn verify_record(&self, run_id: &RunId, seq: u64) -> Result<Vec<Finding>, StoreError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let mut findings = Vec::new();
        let mut find = |description| {
            findings.push(Finding { run_id: Some(run_id.clone()), description });
        };
        let Some(head) = run_head(&snapshot, run_id.as_str())? else { return Ok(findings) };
        let Ok(place) = i64::try_from(seq) else { return Ok(findings) };
        let Some(row) = read::row(&snapshot, head.id, place)? else { return Ok(findings) };
        match link_before(&snapshot, run_id, &head, place, i64::MAX)? {
            None => find(format!("record {} is missing", seq.saturating_sub(1))),
            Some(before) if row.link_at(&before, seq) != row.link => {
                find(format!("record {seq} was changed after it was stored, or moved"));
            }
            Some(_) => {}
        }
        if let Err(error) = row.value() {
            find(error.to_string());
        }
        for report in read::reports_about(&snapshot, head.id, place)? {
            let after = i64::try_from(report.after).unwrap_or(i64::MAX);
            let before = link_before(&snapshot, run_id, &head, after, report.id)?;
            if before.is_none_or(|before| report.link_at(&before, seq) != report.link) {
                find(format!(
                    "a report about record {seq} was changed after it was stored, or moved"
                ));
            }
        }
        Ok(findings)
    }
}

/// The link that a record or report continues. This is the link of the latest report that arrived
/// when the run had `after` records and has an id below `report`. Without such a report, it is the
/// link of record `after - 1`, or the first link of the chain if `after` is 0. Returns `None` if
/// that record is missing.
fn link_before(
    connection: &Connection,
    run_id: &RunId,
    head: &RunHead,
    after: i64,
    report: i64,
) -> Result<Option<Link>, StoreError> {
    let latest_report = "SELECT link FROM reports WHERE run = ?1 AND after = ?2 AND id < ?3 \
                         ORDER BY id DESC LIMIT 1";
    let link: Option<[u8; 32]> = connection
        .prepare_cached(latest_report)?
        .query_row(params![head.id, after, report], |row| row.get(0))
        .optional()?;
    if let Some(link) = link {
        return Ok(Some(link.into()));
    }
    if after == 0 {
        return Ok(Some(Link::genesis(run_id.as_str())));
    }
    let link: Option<[u8; 32]> = connection
        .prepare_cached("SELECT link FROM records WHERE run = ?1 AND seq = ?2")?
        .query_row([head.id, after.saturating_sub(1)], |row| row.get(0))
        .optional()?;
    Ok(link.map(Link::from))
}
