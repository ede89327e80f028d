//! The `summaries` table: what each run is about and how it went.
//!
//! The row of a run is kept up to date with every record. A run from a store of an older release has
//! no row, and what the engine found may be from an older engine; [`Store::recount`] computes both
//! again from the records.

use midcourse_core::{
    Engine, MicroUsd, RunId, Timestamp, TrajectoryPattern, TrajectoryPayload, Usage,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Deserialize as _;

use super::append::{RunHead, run_head};
use super::call_failure::classify;
use super::error::StoreError;
use super::runs::{self, RunSummary};
use super::summary::{ANSWER_KINDS, Facts, Findings, Trouble, answer_of};
use super::{Store, read};

/// How many records are read from the database at a time.
const PAGE: usize = 256;

/// Inserts the row of a new run.
pub(super) fn begin(connection: &Connection, run: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO summaries (run, responded, is_estimate, shadow_deliveries, cleared, ignored) \
             VALUES (?1, 0, 0, 0, 0, 0)",
        )?
        .execute([run])?;
    Ok(())
}

/// Updates the row of a run after a record was added to the run.
pub(super) fn add(
    connection: &Connection,
    run: &RunHead,
    payload: &TrajectoryPayload,
) -> Result<(), StoreError> {
    if !Facts::concern(payload) {
        return Ok(());
    }
    let Some(mut facts) = load(connection, run.id)? else { return Ok(()) };
    let before = facts.clone();
    let mut failed = None;
    facts.add(payload, || {
        latest_answer(connection, run.id).unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    });
    match failed {
        // A damaged record does not keep the end of the run from being stored.
        None | Some(StoreError::Damaged(_)) => {}
        Some(error) => return Err(error),
    }
    if facts != before {
        save(connection, run.id, &facts)?;
    }
    Ok(())
}

/// Whether the latest record of the run is an answer of the model, see [`answer_of`].
fn latest_answer(connection: &Connection, run: i64) -> Result<Option<bool>, StoreError> {
    let seq: Option<i64> = connection
        .prepare_cached(&format!(
            "SELECT seq FROM records WHERE run = ?1 AND kind IN ({ANSWER_KINDS}) \
             ORDER BY seq DESC LIMIT 1"
        ))?
        .query_row([run], |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(None) };
    let Some(row) = read::row(connection, run, seq)? else { return Ok(None) };
    Ok(TrajectoryPayload::deserialize(row.value()?).ok().as_ref().and_then(answer_of))
}

/// The columns of the facts, in the order in which [`facts`] reads them.
pub(super) const FACT_COLUMNS: &str = "task, folder, command, host_version, model, exit_code, \
    answered, responded, input_tokens, output_tokens, cache_write_tokens, cache_read_tokens, \
    is_estimate, cost, shadow_deliveries, cleared, ignored";

/// Reads the [`FACT_COLUMNS`], of which the first is the column `from`.
pub(super) fn facts(row: &Row<'_>, from: usize) -> rusqlite::Result<Facts> {
    let column = |offset: usize| from.saturating_add(offset);
    let count = |offset: usize| -> rusqlite::Result<u64> {
        let count: Option<i64> = row.get(column(offset))?;
        Ok(u64::try_from(count.unwrap_or_default()).unwrap_or_default())
    };
    let tokens = |offset: usize| -> rusqlite::Result<i64> {
        Ok(row.get::<_, Option<i64>>(column(offset))?.unwrap_or_default())
    };
    let has_tokens = row.get::<_, Option<i64>>(column(8))?.is_some();
    let usage = Usage {
        input_tokens: tokens(8)?,
        output_tokens: tokens(9)?,
        cache_creation_input_tokens: tokens(10)?,
        cache_read_input_tokens: tokens(11)?,
        is_estimate: count(12)? > 0,
    };
    let cost: Option<i64> = row.get(column(13))?;
    Ok(Facts {
        task: row.get(column(0))?,
        folder: row.get(column(1))?,
        command: row.get(column(2))?,
        host_version: row.get(column(3))?,
        model: row.get(column(4))?,
        exit_code: row.get(column(5))?,
        answered: row.get(column(6))?,
        responded: count(7)? > 0,
        tokens: has_tokens.then_some(usage),
        cost: cost.and_then(|cost| u64::try_from(cost).ok()).map(MicroUsd::from_micro),
        shadow_deliveries: count(14)?,
        cleared: count(15)?,
        ignored: count(16)?,
    })
}

fn load(connection: &Connection, run: i64) -> Result<Option<Facts>, StoreError> {
    let found = connection
        .prepare_cached(&format!("SELECT {FACT_COLUMNS} FROM summaries WHERE run = ?1"))?
        .query_row([run], |row| facts(row, 0));
    Ok(found.optional()?)
}

fn save(connection: &Connection, run: i64, facts: &Facts) -> Result<(), StoreError> {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let tokens = facts.tokens;
    connection
        .prepare_cached(
            "UPDATE summaries SET task = ?2, folder = ?3, command = ?4, host_version = ?5, \
             model = ?6, exit_code = ?7, answered = ?8, responded = ?9, input_tokens = ?10, \
             output_tokens = ?11, cache_write_tokens = ?12, cache_read_tokens = ?13, \
             is_estimate = ?14, cost = ?15, shadow_deliveries = ?16, cleared = ?17, \
             ignored = ?18 WHERE run = ?1",
        )?
        .execute(params![
            run,
            facts.task,
            facts.folder,
            facts.command,
            facts.host_version,
            facts.model,
            facts.exit_code,
            facts.answered,
            facts.responded,
            tokens.map(|usage| usage.input_tokens),
            tokens.map(|usage| usage.output_tokens),
            tokens.map(|usage| usage.cache_creation_input_tokens),
            tokens.map(|usage| usage.cache_read_input_tokens),
            tokens.is_some_and(|usage| usage.is_estimate),
            facts.cost.map(|cost| signed(cost.get())),
            signed(facts.shadow_deliveries),
            signed(facts.cleared),
            signed(facts.ignored),
        ])?;
    Ok(())
}

/// The columns of what the engine found, in the order in which [`findings`] reads them.
pub(super) const FINDING_COLUMNS: &str = "trouble_seq, trouble_at, trouble_calls, patterns";

/// Reads the [`FINDING_COLUMNS`], of which the first is the column `from`.
pub(super) fn findings(row: &Row<'_>, from: usize) -> rusqlite::Result<Findings> {
    let number = |offset: usize| -> rusqlite::Result<Option<u64>> {
        let number: Option<i64> = row.get(from.saturating_add(offset))?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    };
    let trouble = match (number(0)?, number(1)?, number(2)?) {
        (Some(seq), Some(at), Some(calls)) => {
            Some(Trouble { seq, at: Timestamp::from_unix_ms(at), calls })
        }
        _ => None,
    };
    let patterns: Option<String> = row.get(from.saturating_add(3))?;
    let patterns = patterns.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Findings { trouble, patterns })
}

/// Inserts the row of a run that has none. `engine` is the version of the engine that made the
/// findings.
pub(super) fn replace(
    connection: &Connection,
    run: i64,
    facts: &Facts,
    found: &Findings,
    engine: Option<u32>,
) -> Result<(), StoreError> {
    begin(connection, run)?;
    save(connection, run, facts)?;
    save_findings(connection, run, found)?;
    connection
        .prepare_cached("UPDATE summaries SET engine = ?2 WHERE run = ?1")?
        .execute(params![run, engine])?;
    Ok(())
}

/// Notes that an engine of this release analyses the run from its first record on.
pub(super) fn set_engine(connection: &Connection, run: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE summaries SET engine = ?2 WHERE run = ?1")?
        .execute(params![run, Engine::VERSION])?;
    Ok(())
}

/// Notes that the engine has not analysed all records of the run, so that what it found may be
/// incomplete.
pub(super) fn clear_engine(connection: &Connection, run: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE summaries SET engine = NULL WHERE run = ?1 AND engine IS NOT NULL")?
        .execute([run])?;
    Ok(())
}

/// Adds patterns that the engine found at the latest records of a run.
pub(super) fn add_patterns(
    connection: &Connection,
    run: i64,
    patterns: &[TrajectoryPattern],
) -> Result<(), StoreError> {
    if patterns.is_empty() {
        return Ok(());
    }
    let stored = connection
        .prepare_cached(&format!(
            "SELECT {FINDING_COLUMNS}, calls FROM summaries JOIN runs ON runs.id = run \
             WHERE run = ?1"
        ))?
        .query_row([run], |row| Ok((findings(row, 0)?, read::unsigned(row, 4)?)))
        .optional()?;
    let Some((mut found, calls)) = stored else { return Ok(()) };
    found.add(patterns, calls);
    save_findings(connection, run, &found)
}

fn save_findings(connection: &Connection, run: i64, found: &Findings) -> Result<(), StoreError> {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let patterns = serde_json::to_string(&found.patterns)
        .map_err(|error| StoreError::Rejected(error.to_string()))?;
    connection
        .prepare_cached(
            "UPDATE summaries SET trouble_seq = ?2, trouble_at = ?3, trouble_calls = ?4, \
             patterns = ?5 WHERE run = ?1",
        )?
        .execute(params![
            run,
            found.trouble.map(|trouble| signed(trouble.seq)),
            found.trouble.map(|trouble| signed(trouble.at.unix_ms())),
            found.trouble.map(|trouble| signed(trouble.calls)),
            patterns,
        ])?;
    Ok(())
}

impl Store {
    /// Up to `count` runs whose summary is missing or has findings of another engine, newest first;
    /// with `with_unanalysed` also those that no engine has analysed.
    pub fn outdated_runs(
        &self,
        with_unanalysed: bool,
        count: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        // Most stores have no outdated run. This query finds that out without reading every run.
        let has_any: bool = self
            .connection
            .prepare_cached(
                "SELECT (SELECT count(*) FROM runs) > (SELECT count(*) FROM summaries) \
                 OR EXISTS (SELECT 1 FROM summaries WHERE engine < ?1) \
                 OR EXISTS (SELECT 1 FROM summaries WHERE engine > ?1) \
                 OR (?2 AND EXISTS (SELECT 1 FROM summaries WHERE engine IS NULL))",
            )?
            .query_row(params![Engine::VERSION, with_unanalysed], |row| row.get(0))?;
        if !has_any {
            return Ok(Vec::new());
        }
        let condition = "summaries.run IS NULL OR engine <> ?1 OR (?2 AND engine IS NULL)";
        runs::select_where(
            &self.connection,
            &format!("{condition} ORDER BY started DESC LIMIT ?3"),
            params![Engine::VERSION, with_unanalysed, i64::try_from(count).unwrap_or(i64::MAX)],
        )
    }

    /// Computes the summary of a run again from its records, with what an engine of this release
    /// found in its first `records` records. Also decides again which calls failed. Returns `false`,
    /// and changes nothing, if the run has another number of records.
    pub fn recount(
        &mut self,
        run_id: &RunId,
        records: u64,
        found: &Findings,
    ) -> Result<bool, StoreError> {
        let Some(head) = run_head(&self.connection, run_id.as_str())? else { return Ok(false) };
        if u64::try_from(head.next_seq) != Ok(records) {
            return Ok(false);
        }
        // Reading takes long, so it happens before the transaction.
        let (facts, failed) = read_run(&self.connection, &head)?;
        self.write(|connection| {
            if run_head(connection, run_id.as_str())? != Some(head) {
                return Ok(false);
            }
            connection.execute("DELETE FROM summaries WHERE run = ?1", [head.id])?;
            begin(connection, head.id)?;
            save(connection, head.id, &facts)?;
            save_findings(connection, head.id, found)?;
            set_engine(connection, head.id)?;
            for (record, failed) in &failed {
                connection
                    .prepare_cached("UPDATE records SET failed = ?2 WHERE id = ?1")?
                    .execute(params![record, failed])?;
            }
            connection.execute(
                "UPDATE runs SET errors = (SELECT count(*) FROM records WHERE run = ?1 AND failed) \
                 WHERE id = ?1 AND ?2",
                params![head.id, !failed.is_empty()],
            )?;
            Ok(true)
        })
    }
}

/// The ids of records whose call is judged differently now: whether it failed.
type Rejudged = Vec<(i64, Option<bool>)>;

/// The facts of a run, and the calls that are judged differently now.
fn read_run(connection: &Connection, head: &RunHead) -> Result<(Facts, Rejudged), StoreError> {
    let (mut facts, mut failed, mut answer) = (Facts::default(), Vec::new(), None);
    let mut from = 0;
    loop {
        let page = read::rows(connection, head.id, from, PAGE)?;
        let Some(last) = page.last() else { return Ok((facts, failed)) };
        from = i64::try_from(last.seq).unwrap_or(i64::MAX).saturating_add(1);
        for row in page {
            // A damaged record says nothing; `verify` reports it.
            let Ok(value) = row.value() else { continue };
            let Ok(payload) = TrajectoryPayload::deserialize(value) else { continue };
            let is_failed = classify(connection, head.id, &payload)?;
            if is_failed != row.failed {
                failed.push((row.id, is_failed));
            }
            facts.add(&payload, || answer);
            if ANSWER_KINDS.contains(&format!("'{}'", payload.kind())) {
                answer = answer_of(&payload);
            }
        }
    }
}
