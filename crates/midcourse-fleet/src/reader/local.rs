//! A store on this machine as a [`RunReader`].

use midcourse::{
    ChainLimit, ChainPart, ChainPosition, ListedRun, RunCursor, RunFilter, RunId, RunTableQuery,
    Store, TableRun, Timestamp,
};

use super::{IdPart, ReadRun, RunReader};
use crate::error::FleetError;
use crate::ship::Level;

impl RunReader for Store {
    fn list_runs(
        &mut self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor), FleetError> {
        Ok(Self::list_runs(self, filter, after, count)?)
    }

    fn listed_run_count(&mut self, filter: &RunFilter) -> Result<u64, FleetError> {
        Ok(Self::listed_run_count(self, filter)?)
    }

    fn run_table(&mut self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64), FleetError> {
        Ok(Self::run_table(self, query)?)
    }

    fn hosts(&mut self) -> Result<Vec<String>, FleetError> {
        Ok(Self::hosts(self)?)
    }

    fn find_runs(
        &mut self,
        id: &str,
        part: IdPart,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        Ok(match part {
            IdPart::Whole => self.run(id)?.map(|run| run.run_id).into_iter().take(count).collect(),
            IdPart::Start => self.runs_like(id, count)?,
            IdPart::End => self.runs_ending_in(id, count)?,
        })
    }

    fn family(&mut self, run_id: &RunId) -> Result<Vec<ReadRun>, FleetError> {
        let mut family = Vec::new();
        let mut waiting = vec![run_id.clone()];
        while let Some(run_id) = waiting.pop() {
            let Some(header) = self.run_header(&run_id)? else { continue };
            family.push(ReadRun { header, level: Level::Full });
            let children = self.children(run_id.as_str())?.into_iter().rev();
            waiting.extend(children.map(|child| child.run_id));
        }
        Ok(family)
    }

    fn runs_between(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<ReadRun>, FleetError> {
        let mut found = Vec::new();
        for run in self.runs(usize::MAX)? {
            if run.latest >= since
                && run.started < until
                && let Some(header) = self.run_header(&run.run_id)?
            {
                found.push(ReadRun { header, level: Level::Full });
            }
        }
        Ok(found)
    }

    fn chain_after(
        &mut self,
        run_id: &RunId,
        from: &ChainPosition,
        limit: ChainLimit,
    ) -> Result<ChainPart, FleetError> {
        Ok(Self::chain_after(self, run_id, from, limit)?)
    }

    /// All runs that pass the filter: the words are searched in the copies.
    fn runs_with_words(
        &mut self,
        _: &str,
        filter: &RunFilter,
        after: Option<&RunId>,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        let (listed, _) = Self::list_runs(self, filter, RunCursor::START, usize::MAX)?;
        let mut ids = listed.into_iter().map(|listed| listed.run.run_id);
        if let Some(after) = after {
            ids.find(|run_id| run_id == after);
        }
        Ok(ids.take(count).collect())
    }
}
