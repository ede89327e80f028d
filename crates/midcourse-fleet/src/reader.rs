//! Reading runs, wherever they are: a store on this machine, or a project of a fleet.
//!
//! [`RunReader`] has what differs between the two: lists over many runs, and the hash chain of one. All
//! that is shown of a single run is read from a [`LocalCopy`](crate::LocalCopy) of it, by the same code
//! as on the machine where it was recorded.

mod fleet;
mod local;
mod rows;

use midcourse::{
    ChainLimit, ChainPart, ChainPosition, ListedRun, RunCursor, RunFilter, RunHeader, RunId,
    RunTableQuery, TableRun, Timestamp,
};

use crate::error::FleetError;
use crate::ship::Level;

pub use fleet::FleetReader;

/// Which part of its id names a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdPart {
    /// The whole id.
    Whole,
    /// The beginning of the id.
    Start,
    /// The end of the id.
    End,
}

/// A run with the level at which it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRun {
    /// The run.
    pub header: RunHeader,
    /// `Level::Metadata` if its texts were not shipped.
    pub level: Level,
}

/// Reads runs. The methods have the semantics of those of [`midcourse::Store`]; one test compares all
/// implementations.
pub trait RunReader {
    /// A page of the list of runs, newest first, with child runs under their parents.
    fn list_runs(
        &mut self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor), FleetError>;

    /// The number of runs at level 0 of the list.
    fn listed_run_count(&mut self, filter: &RunFilter) -> Result<u64, FleetError>;

    /// Rows of the table of runs, and how many match in all.
    fn run_table(&mut self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64), FleetError>;

    /// The names of all hosts with a run.
    fn hosts(&mut self) -> Result<Vec<String>, FleetError>;

    /// Up to `count` runs whose id is, begins or ends with a text, the newest first.
    fn find_runs(&mut self, id: &str, part: IdPart, count: usize)
    -> Result<Vec<RunId>, FleetError>;

    /// A run and all its child runs, at any depth, each after its parent. Empty if the run is not
    /// stored.
    fn family(&mut self, run_id: &RunId) -> Result<Vec<ReadRun>, FleetError>;

    /// All runs with a record at `since` or later that started before `until`.
    fn runs_between(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<ReadRun>, FleetError>;

    /// The entries after a position of a run's hash chain, up to the end that the header in the result
    /// has.
    fn chain_after(
        &mut self,
        run_id: &RunId,
        from: &ChainPosition,
        limit: ChainLimit,
    ) -> Result<ChainPart, FleetError>;

    /// Several runs, each with the first part of its hash chain; those that are not stored are left out.
    fn chains(
        &mut self,
        runs: &[RunId],
        limit: ChainLimit,
    ) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
        let mut chains = Vec::with_capacity(runs.len());
        for run_id in runs {
            let Some(run) = self.family(run_id)?.into_iter().next() else { continue };
            let part = self.chain_after(run_id, &ChainPosition::start(run_id), limit)?;
            chains.push((run, part));
        }
        Ok(chains)
    }

    /// Up to `count` runs that may contain all of these words, the newest first. `after` is the last run
    /// of the page before. A page with fewer than `count` runs is the last one.
    fn runs_with_words(
        &mut self,
        words: &str,
        filter: &RunFilter,
        after: Option<&RunId>,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError>;
}
