//! Applies the current redaction rules to a run that was stored earlier.
//!
//! The search for secrets takes long, so it runs before the transaction. The transaction reads the
//! run again and searches only what another process has changed or added meanwhile. It then
//! replaces payloads, long texts and reports, and recomputes the hash chain from the first change
//! on. It also checks the old chain, so that a damaged run does not look intact afterwards.
//!
//! Afterwards the old text is removed from the disk. SQLite leaves remains of rows in unused parts
//! of pages, so the database is rebuilt, the write-ahead log truncated and the search index
//! deleted.

use std::collections::{BTreeSet, HashMap};

use midcourse_core::{RunId, TrajectoryPayload};
use rusqlite::{Connection, params};
use serde::Deserialize as _;
use serde_json::Value;

use super::append::run_head;
use super::body::{self, Body};
use super::chain::Link;
use super::error::StoreError;
use super::read::{self, ReportRow, Row};
use super::redacted_text;
use super::settings::StoreSettings;
use super::{Store, append, labels};

/// How many records are read from the database at a time.
const PAGE: usize = 64;

/// What was redacted in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedactedRun {
    /// The number of secrets that were replaced.
    pub secrets: u64,
    /// The number of records with secrets.
    pub records: u64,
    /// The number of long texts with secrets that other runs contain too. Those runs still have the
    /// secrets.
    pub texts_in_other_runs: u64,
    /// Whether the old text is gone from the write-ahead log. If another process is reading the
    /// store, the text stays in the log until a later checkpoint.
    pub is_log_empty: bool,
}

/// The redacted form of a record.
#[derive(Debug)]
struct RedactedRecord {
    payload: String,
    fact: Option<String>,
    bodies: Vec<Body>,
    secrets: u32,
}

/// For each record id: the record's link when it was searched, and its redacted form if it has
/// secrets.
type Plan = HashMap<i64, (Link, Option<RedactedRecord>)>;

impl Store {
    /// Redacts the secrets in a run, with the settings of this store. Fails, and changes nothing,
    /// if the run is damaged.
    pub fn redact_run(&mut self, run_id: &RunId) -> Result<RedactedRun, StoreError> {
        let mut plan = Plan::new();
        for_each_row(&self.connection, run_id, |row| {
            plan.insert(row.id, (row.link, redact_record(&row, &self.settings)?));
            Ok(())
        })?;
        // Makes SQLite overwrite replaced text with zeros.
        self.connection.execute_batch("PRAGMA secure_delete=ON")?;
        let settings = self.settings.clone();
        let mut redacted = self.write(|connection| apply(connection, run_id, plan, &settings))?;
        // Do this even if nothing was replaced: an earlier call may have been interrupted here.
        self.shrink()?;
        self.delete_search_index()?;
        redacted.is_log_empty = self.log.is_empty();
        Ok(redacted)
    }
}

fn for_each_row(
    connection: &Connection,
    run_id: &RunId,
    mut each: impl FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let Some(head) = run_head(connection, run_id.as_str())? else { return Ok(()) };
    let mut from = 0;
    loop {
        let page = read::rows(connection, head.id, from, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        from = i64::try_from(last.seq).unwrap_or(i64::MAX).saturating_add(1);
        page.into_iter().try_for_each(&mut each)?;
    }
}

/// The state of redacting a run in a transaction.
struct Redacting<'a> {
    connection: &'a Connection,
    settings: &'a StoreSettings,
    /// The latest link of the stored chain (`old`) and of the new chain (`new`).
    old: Link,
    new: Link,
    redacted: RedactedRun,
    /// The ids of long texts that were replaced.
    loose: BTreeSet<i64>,
    changed: BTreeSet<u64>,
}

fn apply(
    connection: &Connection,
    run_id: &RunId,
    mut plan: Plan,
    settings: &StoreSettings,
) -> Result<RedactedRun, StoreError> {
    let Some(head) = run_head(connection, run_id.as_str())? else {
        return Err(StoreError::Rejected(format!("the run {run_id} was removed")));
    };
    let genesis = Link::genesis(run_id.as_str());
    let mut redacting = Redacting {
        connection,
        settings,
        old: genesis,
        new: genesis,
        redacted: RedactedRun::default(),
        loose: BTreeSet::new(),
        changed: BTreeSet::new(),
    };
    let mut reports = read::reports(connection, head.id)?.into_iter().peekable();
    let mut next_seq = 0;
    for_each_row(connection, run_id, |row| {
        while let Some(report) = reports.next_if(|report| report.after <= row.seq) {
            redacting.report(&report)?;
        }
        if row.seq != next_seq {
            return Err(damaged(&format!("record {next_seq} is missing")));
        }
        next_seq = row.seq.saturating_add(1);
        let planned = plan.remove(&row.id).filter(|(link, _)| *link == row.link);
        let found = match planned {
            Some((_, found)) => found,
            None => redact_record(&row, settings)?,
        };
        redacting.record(row, found)
    })?;
    for report in reports {
        redacting.report(&report)?;
    }
    if redacting.old != head.link || i64::try_from(next_seq) != Ok(head.next_seq) {
        return Err(damaged("its last records are missing"));
    }
    let in_notes = labels::redact(connection, head.id, settings)?;
    redacting.redacted.secrets = redacting.redacted.secrets.saturating_add(in_notes);
    redacting.finish(&head)
}

impl Redacting<'_> {
    fn record(&mut self, mut row: Row, found: Option<RedactedRecord>) -> Result<(), StoreError> {
        if row.link_at(&self.old, row.seq) != row.link {
            return Err(damaged(&format!("record {} was changed after it was stored", row.seq)));
        }
        let stored = row.link;
        self.old = stored;
        if let Some(found) = found {
            self.redacted.secrets = self.redacted.secrets.saturating_add(found.secrets.into());
            self.changed.insert(row.seq);
            row.redactions = row.redactions.saturating_add(found.secrets);
            (row.payload, row.fact) = (found.payload, found.fact);
            self.replace_bodies(&row, &found.bodies)?;
            row = read::with_bodies(self.connection, row)?;
        }
        self.new = row.link_at(&self.new, row.seq);
        if self.new != stored {
            self.connection
                .prepare_cached(
                    "UPDATE records SET payload = ?2, fact = ?3, redactions = ?4, link = ?5 WHERE id = ?1",
                )?
                .execute(params![
                    row.id,
                    row.payload,
                    row.fact,
                    row.redactions,
                    self.new.as_bytes()
                ])?;
        }
        Ok(())
    }

    fn replace_bodies(&mut self, row: &Row, bodies: &[Body]) -> Result<(), StoreError> {
        let mut find =
            self.connection.prepare_cached("SELECT body FROM record_bodies WHERE record = ?1")?;
        let old = find.query_map([row.id], |row| row.get(0))?;
        self.loose.extend(old.collect::<Result<Vec<i64>, _>>()?);
        self.connection.execute("DELETE FROM record_bodies WHERE record = ?1", [row.id])?;
        bodies.iter().try_for_each(|body| append::insert_body(self.connection, row.id, body))
    }

    fn report(&mut self, report: &ReportRow) -> Result<(), StoreError> {
        if report.link_at(&self.old, report.seq) != report.link {
            return Err(damaged(&format!("a report about record {} was changed", report.seq)));
        }
        self.old = report.link;
        let zstd: Vec<u8> = self
            .connection
            .prepare_cached("SELECT zstd FROM reports WHERE id = ?1")?
            .query_row([report.id], |row| row.get(0))?;
        let mut content = read::unpack_report(&report.hash, &zstd)?;
        let secrets = match (report.status.as_str(), &mut content) {
            ("merged", Value::Object(added)) => {
                let redact = |(pointer, value): (&String, &mut Value)| {
                    redact_added(pointer, value, self.settings)
                };
                added.iter_mut().map(redact).fold(0, u32::saturating_add)
            }
            (_, payload) => redact_value(payload, self.settings),
        };
        let mut new = report.clone();
        let mut packed = zstd;
        if secrets > 0 {
            self.redacted.secrets = self.redacted.secrets.saturating_add(secrets.into());
            self.changed.insert(report.seq);
            let text = content.to_string();
            new.hash = blake3::hash(text.as_bytes()).as_bytes().to_vec();
            packed = body::pack(&text)?;
        }
        self.new = new.link_at(&self.new, report.seq);
        if self.new != report.link {
            self.connection.execute(
                "UPDATE reports SET hash = ?2, zstd = ?3, link = ?4 WHERE id = ?1",
                params![report.id, new.hash, packed, self.new.as_bytes()],
            )?;
        }
        Ok(())
    }

    fn finish(mut self, head: &append::RunHead) -> Result<RedactedRun, StoreError> {
        self.redacted.records = u64::try_from(self.changed.len()).unwrap_or_default();
        if self.changed.is_empty() {
            return Ok(self.redacted);
        }
        self.connection.execute(
            "UPDATE runs SET head = ?2 WHERE id = ?1",
            params![head.id, self.new.as_bytes()],
        )?;
        // The checkpoint may contain excerpts of the old text. The engine computes it again from
        // the records.
        self.connection.execute("DELETE FROM checkpoints WHERE run = ?1", [head.id])?;
        // The summary may contain the old text too. The next command that shows it computes it again.
        self.connection.execute("DELETE FROM summaries WHERE run = ?1", [head.id])?;
        for body in &self.loose {
            let removed = self.connection.execute(
                "DELETE FROM bodies WHERE id = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM record_bodies WHERE body = ?1)",
                [body],
            )?;
            if removed == 0 && self.is_in_other_runs(*body, head.id)? {
                self.redacted.texts_in_other_runs += 1;
            }
        }
        Ok(self.redacted)
    }

    /// Whether the long text `body` has secrets and a run other than `run` contains it.
    fn is_in_other_runs(&self, body: i64, run: i64) -> Result<bool, StoreError> {
        let is_there: bool = self.connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM record_bodies JOIN records ON records.id = record \
             WHERE body = ?1 AND run <> ?2)",
            [body, run],
            |row| row.get(0),
        )?;
        let (hash, length, zstd): (Vec<u8>, i64, Vec<u8>) = self.connection.query_row(
            "SELECT hash, length, zstd FROM bodies WHERE id = ?1",
            [body],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let text = body::unpack(&hash, length, &zstd).unwrap_or_default();
        Ok(is_there && self.settings.redaction.redact(&text).is_some())
    }
}

fn redact_record(
    row: &Row,
    settings: &StoreSettings,
) -> Result<Option<RedactedRecord>, StoreError> {
    let mut value = row.value()?;
    let is_known = TrajectoryPayload::deserialize(&value).is_ok();
    let mut secrets = redact_value(&mut value, settings);
    let fact = row.fact.as_deref().and_then(|fact| settings.redaction.redact_name(fact));
    // The fact repeats an id of the payload, so its secrets are not counted again.
    if secrets == 0 && fact.is_none() {
        return Ok(None);
    }
    secrets = secrets.max(1);
    if is_known && let Err(error) = TrajectoryPayload::deserialize(&value) {
        return Err(StoreError::Rejected(format!("record {}: {error}", row.seq)));
    }
    let bodies = body::take_out(&mut value)?;
    let fact = fact.map(|fact| fact.text).or_else(|| row.fact.clone());
    Ok(Some(RedactedRecord { payload: value.to_string(), fact, bodies, secrets }))
}

/// Redacts all texts and names of a payload, and returns the number of secrets.
fn redact_value(value: &mut Value, settings: &StoreSettings) -> u32 {
    let mut secrets = 0_u32;
    body::each_text(value, &mut |place, text| {
        // `redact` also shortens texts that are too long for the settings. A text without secrets
        // is not replaced, even if it is too long.
        if let Some(redacted) = redacted_text::redact(text, place.field, settings)
            && redacted.redactions > 0
        {
            secrets = secrets.saturating_add(redacted.redactions);
            *text = redacted.text;
        }
    });
    body::each_name(value, &mut |name| {
        let redacted = settings.redaction.redact_name(name)?;
        secrets = secrets.saturating_add(redacted.count);
        Some(redacted.text)
    });
    secrets
}

/// Redacts a value that a report added to a payload at this pointer. Returns the number of secrets.
fn redact_added(pointer: &str, value: &mut Value, settings: &StoreSettings) -> u32 {
    let parts: Vec<&str> = pointer.split('/').filter(|part| !part.is_empty()).collect();
    // Wraps the value in the fields that its pointer names, because redaction depends on the names
    // of fields.
    let mut payload = parts.iter().rev().fold(value.take(), |inner, name| {
        Value::Object([((*name).to_owned(), inner)].into_iter().collect())
    });
    let secrets = redact_value(&mut payload, settings);
    *value = parts.iter().fold(payload, |outer, _| match outer {
        Value::Object(fields) => {
            fields.into_iter().next().map(|(_, inner)| inner).unwrap_or_default()
        }
        other => other,
    });
    secrets
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("the run cannot be redacted: {what}"))
}
