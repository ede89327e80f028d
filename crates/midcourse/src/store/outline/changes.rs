//! Changes of outlines: which steps later records added or changed, so that a viewer can follow a
//! run that is going on without reading its outline again.

use std::collections::{HashMap, HashSet};

use midcourse_core::RunId;
use rusqlite::OptionalExtension as _;

use super::{COLUMNS, End, OutlineStep, PayloadWire, Steps};
use crate::store::append::run_head;
use crate::store::error::StoreError;
use crate::store::tail::Cursor;
use crate::store::{Store, read};

/// The steps of one run that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineChanges {
    /// The run.
    pub run_id: RunId,
    /// Steps that are new, or that replace the step with the same seq.
    pub steps: Vec<OutlineStep>,
    /// Seqs of steps that are no steps of their own any more, because a later record has become the
    /// step to which they belong: the start of a call that was stored after its end, for example.
    pub gone: Vec<u64>,
}

/// How many levels of parents are followed. The store prevents cycles; this is a second barrier.
const MAX_LEVELS: usize = 64;

/// How far back a message that repeats a result may lie if the result is stored after it.
const MAX_RECORDS_BETWEEN: i64 = 1_000;

impl Store {
    /// The steps that records after a position added or changed, and the position from which to go
    /// on. It covers these runs and all their child runs, also those that are stored later. About
    /// `count` records are read; call it again until the position does not change any more.
    pub fn outline_changes(
        &self,
        cursor: Cursor,
        run_ids: &[RunId],
        count: usize,
    ) -> Result<(Vec<OutlineChanges>, Cursor), StoreError> {
        let (seqs, after) = self.new_seqs(cursor, run_ids, count)?;
        let mut changes = Vec::new();
        for (run, seqs) in seqs {
            let Some(key) = read::run_key(&self.connection, run)? else { continue };
            let (steps, gone) = self.changes_of(run, seqs)?;
            if !steps.is_empty() || !gone.is_empty() {
                changes.push(OutlineChanges { run_id: key.run_id, steps, gone });
            }
        }
        Ok((changes, after))
    }

    /// The seqs of new records by run, in the order in which the runs got them.
    #[expect(clippy::type_complexity, reason = "a list of runs, each with its seqs")]
    fn new_seqs(
        &self,
        cursor: Cursor,
        run_ids: &[RunId],
        count: usize,
    ) -> Result<(Vec<(i64, Vec<i64>)>, Cursor), StoreError> {
        let wanted: HashSet<&str> = run_ids.iter().map(RunId::as_str).collect();
        let mut known: HashMap<i64, bool> = HashMap::new();
        let mut seqs: Vec<(i64, Vec<i64>)> = Vec::new();
        let mut after = cursor;
        let mut find = self
            .connection
            .prepare_cached("SELECT id, run, seq FROM records WHERE id > ?1 ORDER BY id")?;
        let mut rows = find.query([cursor.id()])?;
        let mut left = count;
        while let Some(row) = rows.next()? {
            if left == 0 {
                break;
            }
            let (id, run, seq): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            after = Cursor::at(id);
            let is_wanted = match known.get(&run) {
                Some(is_wanted) => *is_wanted,
                None => *known.entry(run).or_insert(self.is_in(run, &wanted)?),
            };
            if !is_wanted {
                continue;
            }
            left -= 1;
            match seqs.iter_mut().find(|(known, _)| *known == run) {
                Some((_, seqs)) => seqs.push(seq),
                None => seqs.push((run, vec![seq])),
            }
        }
        Ok((seqs, after))
    }

    /// Whether a run or one of its parents is in the set.
    fn is_in(&self, run: i64, wanted: &HashSet<&str>) -> Result<bool, StoreError> {
        let mut key = read::run_key(&self.connection, run)?;
        for _ in 0..MAX_LEVELS {
            let Some(run) = key else { return Ok(false) };
            if wanted.contains(run.run_id.as_str()) {
                return Ok(true);
            }
            let Some(parent) = run.parent_run_id else { return Ok(false) };
            key = match run_head(&self.connection, parent.as_str())? {
                Some(head) => read::run_key(&self.connection, head.id)?,
                // The parent is not stored, but its id may be in the set.
                None => return Ok(wanted.contains(parent.as_str())),
            };
        }
        Ok(false)
    }

    /// The steps of a run that its new records at these seqs changed, and the seqs of those that
    /// are gone.
    fn changes_of(
        &self,
        run: i64,
        new: Vec<i64>,
    ) -> Result<(Vec<OutlineStep>, Vec<u64>), StoreError> {
        let mut changed: HashSet<i64> = HashSet::new();
        let mut gone: Vec<i64> = Vec::new();
        let mut ended: HashSet<String> = HashSet::new();
        let steps = Steps::new(&self.connection, run);
        let place = |end: Option<End>| end.and_then(|end| i64::try_from(end.seq).ok());
        let mut find = self
            .connection
            .prepare_cached("SELECT kind, fact FROM records WHERE run = ?1 AND seq = ?2")?;
        for seq in &new {
            let row: Option<(String, Option<String>)> =
                find.query_row([run, *seq], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((kind, fact)) = row else { continue };
            changed.insert(*seq);
            match (kind.as_str(), fact) {
                ("tool_started", Some(fact)) => {
                    gone.extend(place(steps.find_end(&fact)?).filter(|end| end < seq));
                }
                ("tool_ended" | "denied", Some(fact)) => {
                    changed.extend(place(steps.find(&fact, "tool_started")?));
                    ended.insert(fact);
                }
                _ => {}
            }
        }
        if let (false, Some(first)) = (ended.is_empty(), new.iter().min()) {
            gone.extend(self.repeated_results(run, *first, &ended)?);
        }
        let mut changed: Vec<i64> = changed.into_iter().collect();
        changed.sort_unstable();
        gone.sort_unstable();
        gone.dedup();
        let mut steps = Steps::new(&self.connection, run);
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM records AS r WHERE r.run = ?1 AND r.seq = ?2"
        ))?;
        for seq in changed {
            let mut rows = find.query([run, seq])?;
            let Some(row) = rows.next()? else { continue };
            if let Some((step, fact)) = steps.step_of(row)? {
                steps.push(step, fact);
            }
        }
        let steps = steps.finish()?;
        let gone = gone.into_iter().filter_map(|seq| u64::try_from(seq).ok()).collect();
        Ok((steps, gone))
    }

    /// The seqs of messages before `first` that repeat the result of a call that has just ended.
    fn repeated_results(
        &self,
        run: i64,
        first: i64,
        ended: &HashSet<String>,
    ) -> Result<Vec<i64>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM records AS r WHERE r.run = ?1 AND r.seq BETWEEN ?2 AND ?3 \
             AND r.kind = 'message_appended'"
        ))?;
        let from = first.saturating_sub(MAX_RECORDS_BETWEEN);
        let mut rows = find.query([run, from, first.saturating_sub(1)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(message) = PayloadWire::of(row).message else { continue };
            let is_result = message.role.as_deref() == Some("tool_result");
            if is_result && message.tool_call_id.is_some_and(|call| ended.contains(&*call)) {
                found.push(row.get(0)?);
            }
        }
        Ok(found)
    }
}
