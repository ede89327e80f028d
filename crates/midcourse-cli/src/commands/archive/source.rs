//! Where `midcourse archive` gets its runs: the store of this machine, or a fleet.

#[cfg(feature = "fleet")]
use std::cell::RefCell;
#[cfg(feature = "fleet")]
use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, Result};
#[cfg(feature = "fleet")]
use midcourse::RunSummary;
use midcourse::{
    ChainEntry, ChainLimit, ChainPart, ChainPosition, RunHeader, RunId, Store, Timestamp,
};
#[cfg(feature = "fleet")]
use midcourse_fleet::{FleetReader, Level, RunReader as _};

/// How much of a run is read at once.
const PIECE: ChainLimit = ChainLimit { entries: 4_096, bytes: 4 << 20 };

/// A store from which runs can be archived.
pub(super) trait RunSource {
    /// The runs that have no record since `moment`, and neither has any other run of their family (a
    /// top-level run and its descendants).
    fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>>;

    /// Why an undamaged run cannot be archived; `None` if it can.
    fn obstacle(&self, run_id: &RunId) -> Option<&'static str>;

    /// The present header of a run.
    fn header(&self, run_id: &RunId) -> Result<RunHeader>;

    /// The entries after a position, checked. None if there are no more.
    fn entries_after(&self, run_id: &RunId, from: &ChainPosition) -> Result<ChainPart>;
}

/// The runs of the user's store.
pub(super) struct StoredRuns(pub(super) Store);

impl RunSource for StoredRuns {
    fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>> {
        Ok(self.0.runs_before(moment)?)
    }

    fn obstacle(&self, _: &RunId) -> Option<&'static str> {
        None
    }

    fn header(&self, run_id: &RunId) -> Result<RunHeader> {
        let header = self.0.run_header(run_id)?;
        header.with_context(|| format!("the run {run_id} was removed meanwhile; try again"))
    }

    fn entries_after(&self, run_id: &RunId, from: &ChainPosition) -> Result<ChainPart> {
        Ok(self.0.chain_after(run_id, from, PIECE)?)
    }
}

/// The runs of a fleet.
#[cfg(feature = "fleet")]
pub(super) struct FleetRuns {
    reader: RefCell<FleetReader>,
    /// Runs that were shipped without their texts.
    metadata: RefCell<HashSet<RunId>>,
}

#[cfg(feature = "fleet")]
impl FleetRuns {
    pub(super) fn new(reader: FleetReader) -> Self {
        Self { reader: RefCell::new(reader), metadata: RefCell::default() }
    }
}

#[cfg(feature = "fleet")]
impl RunSource for FleetRuns {
    fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>> {
        let end = Timestamp::from_unix_ms(u64::MAX >> 1);
        let all = self.reader.borrow_mut().runs_between(Timestamp::default(), end)?;
        let metadata = all.iter().filter(|run| run.level == Level::Metadata);
        *self.metadata.borrow_mut() = metadata.map(|run| run.header.run_id().clone()).collect();
        let summaries: HashMap<RunId, RunSummary> = all
            .into_iter()
            .map(|run| (run.header.run_id().clone(), run.header.summary()))
            .collect();
        // The run at the top of each run's family.
        let root = |run_id: &RunId| {
            let mut root = run_id.clone();
            for _ in 0..MAX_LEVELS {
                let parent = summaries.get(&root).and_then(|run| run.parent_run_id.clone());
                match parent.filter(|parent| summaries.contains_key(parent)) {
                    Some(parent) => root = parent,
                    None => break,
                }
            }
            root
        };
        let recent: HashSet<RunId> = summaries
            .values()
            .filter(|run| run.latest >= moment)
            .map(|run| root(&run.run_id))
            .collect();
        let mut old: Vec<&RunSummary> =
            summaries.values().filter(|run| !recent.contains(&root(&run.run_id))).collect();
        old.sort_by(|a, b| (a.started, &a.run_id).cmp(&(b.started, &b.run_id)));
        Ok(old.into_iter().map(|run| run.run_id.clone()).collect())
    }

    fn obstacle(&self, run_id: &RunId) -> Option<&'static str> {
        let is_metadata = self.metadata.borrow().contains(run_id);
        is_metadata.then_some("it was shipped as metadata, so its hashes cannot be checked")
    }

    fn header(&self, run_id: &RunId) -> Result<RunHeader> {
        let family = self.reader.borrow_mut().family(run_id)?;
        let run = family.into_iter().next();
        let run = run.with_context(|| format!("the run {run_id} was removed meanwhile"))?;
        Ok(run.header)
    }

    fn entries_after(&self, run_id: &RunId, from: &ChainPosition) -> Result<ChainPart> {
        let part = self.reader.borrow_mut().chain_after(run_id, from, PIECE)?;
        // The fleet's server cannot check hashes.
        part.entries.iter().try_fold(*from, |position, entry| position.after(entry))?;
        Ok(part)
    }
}

/// How many levels of parents are followed.
#[cfg(feature = "fleet")]
const MAX_LEVELS: usize = 64;

/// The entries of a run up to the end that a header names, in pieces. What the run gets later is not
/// part of them.
pub(super) struct Pieces<'a> {
    source: &'a dyn RunSource,
    run_id: &'a RunId,
    position: ChainPosition,
    /// How many entries are left.
    left: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(source: &'a dyn RunSource, header: &'a RunHeader) -> Self {
        let (run_id, end) = (header.run_id(), header.end());
        let left = end.records.saturating_add(end.reports);
        Self { source, run_id, position: ChainPosition::start(run_id), left }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Vec<ChainEntry>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let part = self.source.entries_after(self.run_id, &self.position);
        let mut part = match part {
            Ok(part) => part,
            Err(error) => {
                self.left = 0;
                return Some(Err(error));
            }
        };
        part.entries.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = u64::try_from(part.entries.len()).unwrap_or(u64::MAX);
        // Without entries the run is shorter than its header says, which the archive refuses.
        self.left = if count == 0 { 0 } else { self.left.saturating_sub(count) };
        self.position = part.end;
        Some(Ok(part.entries))
    }
}
