//! Where `midcourse archive` gets its runs.

use anyhow::{Context as _, Result};
use midcourse::{
    ChainEntry, ChainLimit, ChainPart, ChainPosition, RunHeader, RunId, Store, Timestamp,
};

/// How much of a run is read at once.
const PIECE: ChainLimit = ChainLimit { entries: 4_096, bytes: 4 << 20 };

/// A store from which runs can be archived.
pub(super) trait RunSource {
    /// The runs that have no record since `moment`, and neither has any other run of their family (a
    /// top-level run and its descendants).
    fn runs_before(&self, moment: Timestamp) -> Result<Vec<RunId>>;

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

    fn header(&self, run_id: &RunId) -> Result<RunHeader> {
        let header = self.0.run_header(run_id)?;
        header.with_context(|| format!("the run {run_id} was removed meanwhile; try again"))
    }

    fn entries_after(&self, run_id: &RunId, from: &ChainPosition) -> Result<ChainPart> {
        Ok(self.0.chain_after(run_id, from, PIECE)?)
    }
}

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
