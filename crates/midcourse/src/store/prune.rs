//! Removing old runs together with their child runs.

use midcourse_core::{RunId, Timestamp};
use rusqlite::{Connection, params};

use super::Store;
use super::append::run_head;
use super::error::StoreError;

impl Store {
    /// The runs that can be removed because they are old. A top-level run and all its descendants
    /// are returned together, if none of them has a record since `moment`. Child runs come before
    /// their parents, so a parent is never removed while its child is still stored.
    pub fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let mut find = self.connection.prepare(
            "WITH RECURSIVE tree(root, run_id, latest, level) AS (
                 SELECT run_id, run_id, latest, 0 FROM runs AS top WHERE parent_run_id IS NULL
                     OR NOT EXISTS (SELECT 1 FROM runs WHERE run_id = top.parent_run_id)
                 UNION
                 SELECT tree.root, runs.run_id, runs.latest, tree.level + 1
                     FROM tree JOIN runs ON runs.parent_run_id = tree.run_id
             ), old(root) AS (SELECT root FROM tree GROUP BY root HAVING max(latest) < ?1)
             SELECT run_id FROM tree JOIN old USING (root) ORDER BY level DESC, latest",
        )?;
        let moment = i64::try_from(moment.unix_ms()).unwrap_or(i64::MAX);
        let found = find.query_map([moment], |row| row.get::<_, String>(0))?;
        Ok(found.map(|id| id.map(RunId::from)).collect::<Result<_, _>>()?)
    }

    /// Removes a run in one transaction. Long texts that no other run contains are removed with it.
    /// Returns `false` and removes nothing if the run does not exist, or if the run or a descendant
    /// has a record since `moment`.
    pub fn remove_run(&mut self, run_id: &RunId, moment: Timestamp) -> Result<bool, StoreError> {
        let moment = i64::try_from(moment.unix_ms()).unwrap_or(i64::MAX);
        // Overwrites removed text with zeros. Only here, because hooks remove no text, and it would
        // make them write more.
        self.connection.execute_batch("PRAGMA secure_delete=ON")?;
        self.write(|connection| {
            let Some(head) = run_head(connection, run_id.as_str())? else { return Ok(false) };
            let is_busy = connection
                .prepare_cached(
                    "WITH RECURSIVE tree(run_id, latest) AS (
                         SELECT run_id, latest FROM runs WHERE id = ?1 UNION
                         SELECT runs.run_id, runs.latest
                             FROM tree JOIN runs ON runs.parent_run_id = tree.run_id
                     ) SELECT 1 FROM tree WHERE latest >= ?2",
                )?
                .exists(params![head.id, moment])?;
            if is_busy {
                return Ok(false);
            }
            remove(connection, head.id)?;
            Ok(true)
        })
    }

    /// Deletes the search index, which still contains the texts of removed records.
    pub fn delete_search_index(&self) -> Result<(), StoreError> {
        Ok(super::search::remove(&self.data_dir().search_file())?)
    }

    /// Removes the rest of removed runs from the disk: truncates the write-ahead log, which still
    /// contains their texts, and deletes the search index. If another process is reading, the log
    /// is truncated by a later write.
    pub fn finish_removal(&mut self) -> Result<(), StoreError> {
        self.truncate_log();
        self.delete_search_index()
    }

    /// Makes the database file smaller after runs were removed. Meanwhile no other process can
    /// write to the store.
    pub fn shrink(&mut self) -> Result<(), StoreError> {
        self.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?;
        Ok(())
    }
}

fn remove(connection: &Connection, run: i64) -> Result<(), StoreError> {
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS loose (body INTEGER PRIMARY KEY);
         DELETE FROM temp.loose;",
    )?;
    for statement in [
        "INSERT OR IGNORE INTO temp.loose SELECT body FROM record_bodies \
         WHERE record IN (SELECT id FROM records WHERE run = ?1)",
        "DELETE FROM record_bodies WHERE record IN (SELECT id FROM records WHERE run = ?1)",
        "DELETE FROM records WHERE run = ?1",
        "DELETE FROM reports WHERE run = ?1",
        "DELETE FROM checkpoints WHERE run = ?1",
        "DELETE FROM runs WHERE id = ?1",
    ] {
        connection.execute(statement, [run])?;
    }
    connection.execute(
        "DELETE FROM bodies WHERE id IN (SELECT body FROM temp.loose) \
         AND NOT EXISTS (SELECT 1 FROM record_bodies WHERE body = bodies.id)",
        [],
    )?;
    Ok(())
}
