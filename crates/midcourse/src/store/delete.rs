//! Deletes runs at the user's request, and their text from the files of the store.
//!
//! SQLite leaves remains of deleted rows in unused parts of pages. So afterwards the database is
//! rebuilt, the write-ahead log truncated and the search index deleted, as after
//! [`redact_run`](Store::redact_run).

use midcourse_core::RunId;

use super::Store;
use super::error::StoreError;
use super::prune::{Tree, remove};
use super::wal::damaged_log;

/// What was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The number of runs, with child runs.
    pub runs: u64,
    /// The number of their records.
    pub records: u64,
    /// Whether the text is gone from the write-ahead log. If another process is reading the store,
    /// the text stays in the log until a later checkpoint.
    pub is_log_empty: bool,
}

impl Store {
    /// Deletes a run and all its child runs, at any depth. Long texts that no other run contains are
    /// deleted with them.
    pub fn delete_run(&mut self, run_id: &RunId) -> Result<Deleted, StoreError> {
        self.delete(|tree| tree.with_descendants(run_id.as_str()))
    }

    /// Deletes all runs, and a damaged write-ahead log that was kept for `repair`.
    pub fn delete_all_runs(&mut self) -> Result<Deleted, StoreError> {
        let deleted = self.delete(Tree::all)?;
        let log = damaged_log(&self.data_dir.store_file().with_extension("db-wal"));
        match std::fs::remove_file(log) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(deleted),
        }
    }

    fn delete(&mut self, choose: impl FnOnce(&Tree) -> Vec<i64>) -> Result<Deleted, StoreError> {
        // Makes SQLite overwrite the text with zeros.
        self.connection.execute_batch("PRAGMA secure_delete=ON")?;
        let mut deleted = self.write(|connection| {
            let count = || -> Result<u64, StoreError> {
                let count = "SELECT count(*) FROM records";
                Ok(connection.query_row(count, [], |row| super::read::unsigned(row, 0))?)
            };
            let before = count()?;
            let runs = choose(&Tree::read(connection)?);
            runs.iter().try_for_each(|run| remove(connection, *run))?;
            Ok(Deleted {
                runs: u64::try_from(runs.len()).unwrap_or(u64::MAX),
                records: before.saturating_sub(count()?),
                is_log_empty: false,
            })
        })?;
        // Do this even if nothing was deleted: an earlier call may have been interrupted here.
        self.shrink()?;
        self.delete_search_index()?;
        deleted.is_log_empty = self.log.is_empty();
        Ok(deleted)
    }
}
