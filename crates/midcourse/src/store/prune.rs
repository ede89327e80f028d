//! Removing old runs together with their child runs.

use std::cmp::Reverse;
use std::collections::HashMap;

use midcourse_core::{RunId, Timestamp};
use rusqlite::Connection;

use super::Store;
use super::error::StoreError;

/// A run in the tree of runs and child runs.
struct Node {
    id: i64,
    run_id: String,
    parent: Option<String>,
    latest: i64,
}

/// All runs, with the time of the latest record of each run or of a descendant.
pub(super) struct Tree {
    nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
    /// For each node, the latest record in it and below it.
    latest_below: Vec<i64>,
}

impl Tree {
    /// Reads all runs at once: looking up the children of each run would take a search through all
    /// runs, because no index has them.
    pub(super) fn read(connection: &Connection) -> Result<Self, StoreError> {
        let mut find = connection.prepare("SELECT id, run_id, parent_run_id, latest FROM runs")?;
        let nodes = find.query_map([], |row| {
            let (id, run_id) = (row.get(0)?, row.get(1)?);
            Ok(Node { id, run_id, parent: row.get(2)?, latest: row.get(3)? })
        })?;
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        let names = nodes.iter().enumerate().map(|(at, node)| (node.run_id.clone(), at));
        let mut tree =
            Self { by_name: names.collect(), latest_below: vec![i64::MIN; nodes.len()], nodes };
        for node in &tree.nodes {
            for above in tree.ancestors(&node.run_id) {
                if let Some(latest) = tree.latest_below.get_mut(above) {
                    *latest = node.latest.max(*latest);
                }
            }
        }
        Ok(tree)
    }

    /// A run, its parent, the parent of its parent and so on, as far as they are stored.
    fn ancestors(&self, run_id: &str) -> Vec<usize> {
        let mut above = Vec::new();
        let mut next = self.by_name.get(run_id).copied();
        while let Some(at) = next.filter(|at| !above.contains(at)) {
            above.push(at);
            let parent = self.nodes.get(at).and_then(|node| node.parent.as_deref());
            next = parent.and_then(|parent| self.by_name.get(parent)).copied();
        }
        above
    }

    /// The row ids of a run and of all its descendants, child runs before their parents.
    pub(super) fn with_descendants(&self, run_id: &str) -> Vec<i64> {
        let Some(root) = self.by_name.get(run_id) else { return Vec::new() };
        let mut found: Vec<(Reverse<usize>, i64)> = Vec::new();
        for node in &self.nodes {
            let above = self.ancestors(&node.run_id);
            if let Some(depth) = above.iter().position(|at| at == root) {
                found.push((Reverse(depth), node.id));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// The row ids of all runs.
    pub(super) fn all(&self) -> Vec<i64> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    fn latest_below(&self, at: usize) -> i64 {
        self.latest_below.get(at).copied().unwrap_or(i64::MAX)
    }
}

impl Store {
    /// The runs that can be removed because they are old. A top-level run and all its descendants
    /// are returned together, if none of them has a record since `moment`. Child runs come before
    /// their parents, so a parent is never removed while its child is still stored.
    pub fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let moment = i64::try_from(moment.unix_ms()).unwrap_or(i64::MAX);
        let tree = Tree::read(&self.connection)?;
        let mut old = Vec::new();
        for node in &tree.nodes {
            let above = tree.ancestors(&node.run_id);
            if above.last().is_some_and(|root| tree.latest_below(*root) < moment) {
                old.push((Reverse(above.len()), node.latest, &node.run_id));
            }
        }
        old.sort_unstable();
        Ok(old.into_iter().map(|(_, _, run_id)| RunId::from(run_id.as_str())).collect())
    }

    /// For each top-level run, the time of the latest record in the run and its descendants; oldest
    /// first.
    pub fn ages(&self) -> Result<Vec<Timestamp>, StoreError> {
        let tree = Tree::read(&self.connection)?;
        let is_root = |node: &&Node| tree.ancestors(&node.run_id).len() == 1;
        let roots = tree.nodes.iter().filter(is_root);
        let at = |node: &Node| tree.by_name.get(&node.run_id).map(|at| tree.latest_below(*at));
        let times = roots.filter_map(at).filter_map(|at| u64::try_from(at).ok());
        let mut times: Vec<Timestamp> = times.map(Timestamp::from_unix_ms).collect();
        times.sort_unstable();
        Ok(times)
    }

    /// How many bytes of the database file are in use. Free pages, which removed runs leave behind,
    /// do not count: SQLite uses them again.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        let pragma = |name: &str| -> Result<u64, StoreError> {
            let value: i64 =
                self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?;
            Ok(u64::try_from(value).unwrap_or_default())
        };
        let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
        Ok(pages.saturating_mul(pragma("page_size")?))
    }

    /// Removes runs in one transaction. Long texts that no other run contains are removed with them.
    /// A run stays if it or a descendant has a record since `moment`. Returns the runs that were
    /// removed.
    pub fn remove_runs(
        &mut self,
        runs: &[RunId],
        moment: Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        let moment = i64::try_from(moment.unix_ms()).unwrap_or(i64::MAX);
        // Overwrites removed text with zeros. Only here, because hooks remove no text, and it would
        // make them write more.
        self.connection.execute_batch("PRAGMA secure_delete=ON")?;
        self.write(|connection| {
            let tree = Tree::read(connection)?;
            let mut removed = Vec::new();
            for run in runs {
                let Some(at) = tree.by_name.get(run.as_str()) else { continue };
                if let Some(node) = tree.nodes.get(*at)
                    && tree.latest_below(*at) < moment
                {
                    remove(connection, node.id)?;
                    removed.push(run.clone());
                }
            }
            Ok(removed)
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

pub(super) fn remove(connection: &Connection, run: i64) -> Result<(), StoreError> {
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
        "DELETE FROM summaries WHERE run = ?1",
        "DELETE FROM labels WHERE run = ?1",
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
