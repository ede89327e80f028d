//! Saves the intact rows of a damaged store into a new store, which replaces the damaged one.
//!
//! [`pages`] and [`rows`] read the rows without SQLite from the pages of the database and of its
//! write-ahead log, including frames after damage in the log. [`choose`] decides by the hash chain
//! of each run which records are kept. These keep their seqs. [`rebuild`] writes a gap marker at
//! every other seq, so that each loss is visible, and recomputes the chain. The chain of an intact
//! run stays the same. The old files are copied to a folder first.

mod choose;
mod pages;
mod rebuild;
mod rows;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use midcourse_core::RunId;

use super::Store;
use super::backup::TemporaryFile;
use super::error::StoreError;
use super::head::{self, RecordCount};
use super::log_frames::LogFrames;
use super::replace::ExclusiveLock;
use super::restore::EXCLUSIVE_TIMEOUT;
use super::verify::Finding;
use super::wal::damaged_log;
use crate::data_dir::DataDir;
use choose::{Chosen, Item};
use pages::Pages;
use rows::Rows;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The number of runs in the store now.
    pub runs: u64,
    /// The number of records in the store now, without gap markers for lost ones.
    pub records: u64,
    /// The runs that lost something or contain unchecked records.
    pub damaged_runs: Vec<RepairedRun>,
    /// How many records at the end of the store are lost, in addition to those of `damaged_runs`.
    /// It is not known which runs they belong to.
    pub lost_at_end: u64,
    /// How many commits after damage in the write-ahead log were read.
    pub commits_behind_damage: usize,
    /// What `verify` still finds.
    pub findings: Vec<Finding>,
}

/// A run that lost records or reports, or that contains unchecked records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedRun {
    /// The id of the run.
    pub run_id: RunId,
    /// The seqs of records that are lost. The records there are gap markers now.
    pub lost: Vec<u64>,
    /// The seqs of records that were kept although their hash could not be checked, because they
    /// follow a lost record.
    pub unchecked: Vec<u64>,
    /// The seqs of records for which a further report was lost.
    pub lost_reports: Vec<u64>,
}

impl Store {
    /// Repairs the store of a data directory. Returns `None`, and changes nothing, if nothing is
    /// damaged. The old files are copied to the new folder `kept` first. Fails if another process
    /// has the store open, or if nothing can be saved. This process must not have the store open
    /// either.
    pub fn repair(data_dir: &DataDir, kept: &Path) -> Result<Option<Repaired>, StoreError> {
        if !needs_repair(data_dir)? {
            return Ok(None);
        }
        let lock = ExclusiveLock::wait(data_dir, EXCLUSIVE_TIMEOUT)?;
        lock.keep(data_dir, kept)?;
        let repaired = Self::repair_locked(data_dir, kept, lock);
        if matches!(repaired, Err(StoreError::NothingToSave)) {
            // Nothing was changed, so the copy is not needed.
            let _ = std::fs::remove_dir_all(kept);
        }
        repaired.map(Some)
    }

    fn repair_locked(
        data_dir: &DataDir,
        kept: &Path,
        lock: ExclusiveLock,
    ) -> Result<Repaired, StoreError> {
        let count = RecordCount::in_file(data_dir).map(RecordCount::number);
        let (rows, commits_behind_damage) = read(kept)?;
        let last_id = u64::try_from(rows.last_id()).unwrap_or_default();
        let max_records = count.unwrap_or(0).max(last_id);
        let ids: BTreeSet<i64> = rows
            .runs
            .keys()
            .chain(rows.records.keys())
            .chain(rows.reports.keys())
            .copied()
            .collect();
        let mut chosen: Vec<(i64, Chosen)> =
            ids.into_iter().map(|id| (id, choose::choose(&rows, id, max_records))).collect();
        // If a run has no row and nothing that can be kept, its records are remains of a removed
        // run.
        chosen.retain(|(_, run)| run.row.is_some() || !run.items.is_empty());
        if chosen.is_empty() {
            return Err(StoreError::NothingToSave);
        }
        let new = TemporaryFile::beside(&data_dir.store_file())?;
        rebuild::rebuild(new.path(), &mut chosen, max_records)?;
        let checked = Self::open_file(new.path())?.check()?;
        let lost_at_end = count.unwrap_or(0).saturating_sub(last_id);
        if lost_at_end > 0 {
            head::note(data_dir, &head::missing_text(lost_at_end))?;
        }
        lock.replace(data_dir, new)?;
        let damaged_runs: Vec<RepairedRun> =
            chosen.iter().map(|(_, run)| run.summary()).filter(RepairedRun::is_damaged).collect();
        let lost: usize = damaged_runs.iter().map(|run| run.lost.len()).sum();
        Ok(Repaired {
            runs: checked.runs,
            records: checked.records.saturating_sub(u64::try_from(lost).unwrap_or_default()),
            damaged_runs,
            lost_at_end,
            commits_behind_damage,
            findings: checked.findings,
        })
    }
}

impl RepairedRun {
    fn is_damaged(&self) -> bool {
        [&self.lost, &self.unchecked, &self.lost_reports].iter().any(|seqs| !seqs.is_empty())
    }
}

impl Chosen {
    fn summary(&self) -> RepairedRun {
        let lost = self.items.iter().filter_map(|item| match item {
            Item::Lost(seq) => Some(*seq),
            _ => None,
        });
        RepairedRun {
            run_id: self.run_id.as_str().into(),
            lost: lost.collect(),
            unchecked: self.unchecked.clone(),
            lost_reports: self.lost_reports.clone(),
        }
    }
}

/// Whether the store has damage that a repair can fix.
fn needs_repair(data_dir: &DataDir) -> Result<bool, StoreError> {
    let store = match Store::open_read_only(data_dir) {
        Ok(Some(store)) => store,
        Ok(None) => return Ok(log_of(data_dir.path()).exists()),
        // A damaged header may look like that of another build.
        Err(StoreError::Damaged(_) | StoreError::EarlierBuild) => return Ok(true),
        Err(error) => return Err(error),
    };
    let is_damaged = || -> Result<bool, StoreError> {
        Ok(damaged_log(&log_of(data_dir.path())).exists()
            || store.behind_damage().is_some()
            || RecordCount::in_database(&store.connection)?.missing(data_dir).is_some()
            || !store.check()?.findings.is_empty())
    };
    match is_damaged() {
        Err(StoreError::Damaged(_)) => Ok(true),
        done => done,
    }
}

/// Reads all rows of the database in a folder and of its logs. Also returns the number of commits
/// that follow damage in the logs.
fn read(folder: &Path) -> Result<(Rows, usize), StoreError> {
    let (database, log) = (folder.join("store.db"), log_of(folder));
    let mut rows = Rows::default();
    let mut commits = 0;
    for (number, log) in [log.clone(), damaged_log(&log)].iter().enumerate() {
        let frames = LogFrames::read(log);
        // First add the rows that SQLite sees. If SQLite has written to the log after the damage,
        // the commits that it ignored may contradict these rows.
        if number == 0 {
            rows.add(&Pages::new(&database, frames.seen_by_sqlite())?);
        }
        if let Some(behind) = frames.behind_damage() {
            commits += behind.commits;
            rows.add(&Pages::new(&database, frames.all_whole())?);
        }
        if frames.has_damage() {
            rows.add(&Pages::new(&database, frames.all())?);
        }
    }
    Ok((rows, commits))
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("store.db-wal")
}
