//! Which runs `midcourse archive` writes: old ones that are not damaged and not archived yet.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use midcourse::{ChainPosition, Link, RunHeader, RunId, Timestamp};

use super::open;
use super::source::{Pieces, RunSource};

/// The runs in an archive, each with the last link of its hash chain.
pub(super) type ArchivedEnds = HashSet<(RunId, Link)>;

/// What to archive.
#[derive(Default)]
pub(super) struct Selection {
    /// The runs, in the order of their starts.
    pub(super) runs: Vec<RunId>,
    /// How many old runs are in the archive already and have not changed.
    pub(super) already_archived: u64,
    /// Runs that cannot be archived, with the reason.
    pub(super) damaged: Vec<(RunId, String)>,
}

/// An old run.
struct Candidate {
    run_id: RunId,
    started: Timestamp,
    parent: Option<RunId>,
}

/// Selects the runs that have no record since `moment`. If a run is damaged, neither it nor the other
/// runs of its family are selected.
///
/// Each run is read once here and again when it is written: an archive with an error in the middle of
/// a run could not be completed.
pub(super) fn select(
    source: &dyn RunSource,
    moment: Timestamp,
    archived: &ArchivedEnds,
) -> Result<Selection> {
    let mut selection = Selection::default();
    let mut candidates = Vec::new();
    let mut parents: HashMap<RunId, RunId> = HashMap::new();
    let mut damaged: HashMap<RunId, String> = HashMap::new();
    let old = source.runs_before(moment)?;
    let bar = open::progress(u64::try_from(old.len()).unwrap_or_default(), "checking");
    for run_id in old {
        bar.inc(1);
        let header = source.header(&run_id)?;
        let summary = header.summary();
        if let Some(parent) = &summary.parent_run_id {
            parents.insert(run_id.clone(), parent.clone());
        }
        if archived.contains(&(run_id.clone(), header.link)) {
            selection.already_archived = selection.already_archived.saturating_add(1);
            continue;
        }
        let obstacle = source.obstacle(&run_id).map(str::to_owned);
        if let Some(problem) = obstacle.or_else(|| problem(source, &header)) {
            damaged.insert(run_id.clone(), problem);
        }
        let (started, parent) = (summary.started, summary.parent_run_id);
        candidates.push(Candidate { run_id, started, parent });
    }
    bar.finish_and_clear();
    let damaged_families: HashSet<RunId> = damaged.keys().map(|id| family(&parents, id)).collect();
    candidates.sort_by_key(|candidate| candidate.started);
    for Candidate { run_id, parent, .. } in candidates {
        if let Some(problem) = damaged.remove(&run_id) {
            selection.damaged.push((run_id, problem));
        } else if damaged_families.contains(&family(&parents, &run_id)) {
            let relative =
                if parent.is_some() { "its parent or another run" } else { "a child run" };
            let why = format!("{relative} of its family cannot be archived");
            selection.damaged.push((run_id, why));
        } else {
            selection.runs.push(run_id);
        }
    }
    Ok(selection)
}

/// The top-level run of a run's family.
fn family(parents: &HashMap<RunId, RunId>, run_id: &RunId) -> RunId {
    let mut top = run_id;
    // A damaged store may have runs that are their own ancestors.
    for _ in 0..parents.len() {
        match parents.get(top) {
            Some(parent) => top = parent,
            None => break,
        }
    }
    top.clone()
}

/// Why a run cannot be archived.
fn problem(source: &dyn RunSource, header: &RunHeader) -> Option<String> {
    let mut end = ChainPosition::start(header.run_id());
    for piece in Pieces::new(source, header) {
        let entries = match piece {
            Ok(entries) => entries,
            Err(error) => return Some(format!("{error:#}")),
        };
        for entry in &entries {
            match end.after(entry) {
                Ok(next) => end = next,
                Err(broken) => return Some(broken.to_string()),
            }
        }
    }
    (end != header.end()).then(|| "it has fewer entries than its row says".to_owned())
}
