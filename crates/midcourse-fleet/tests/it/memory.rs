//! Runs in memory: what a [`RunReader`] must return, written as plainly as possible.

use std::collections::BTreeSet;

use midcourse::{
    ChainEntry, ChainLimit, ChainPart, ChainPosition, ListedRun, RunCursor, RunFilter, RunHeader,
    RunId, RunOrder, RunSummary, RunTableQuery, TableRun, Timestamp,
};
use midcourse_fleet::{FleetError, IdPart, Level, ReadRun, RunReader};

pub(crate) struct Memory {
    pub(crate) runs: Vec<(RunHeader, Vec<ChainEntry>)>,
}

impl Memory {
    fn headers(&self) -> impl Iterator<Item = &RunHeader> {
        self.runs.iter().map(|(header, _)| header)
    }

    fn find(&self, run_id: &RunId) -> Option<&RunHeader> {
        self.headers().find(|header| header.run_id() == run_id)
    }

    fn newest_first(&self) -> Vec<&RunHeader> {
        let mut runs: Vec<&RunHeader> = self.headers().collect();
        runs.sort_by_key(|header| std::cmp::Reverse(header.summary().started));
        runs
    }

    fn children(&self, run_id: &RunId) -> Vec<&RunHeader> {
        let mut runs: Vec<&RunHeader> = self
            .headers()
            .filter(|header| header.summary().parent_run_id.as_ref() == Some(run_id))
            .collect();
        runs.sort_by_key(|header| header.summary().started);
        runs
    }

    fn add(&self, filter: &RunFilter, header: &RunHeader, level: usize, to: &mut Vec<ListedRun>) {
        to.push(ListedRun { run: header.summary(), open_calls: header.open_calls, level });
        for child in self.children(header.run_id()) {
            if passes(filter, &child.summary()) {
                self.add(filter, child, level + 1, to);
            }
        }
    }

    fn top(&self, filter: &RunFilter) -> Vec<&RunHeader> {
        let is_top = |header: &&RunHeader| {
            let run = header.summary();
            let parent = run.parent_run_id.as_ref().and_then(|parent| self.find(parent));
            passes(filter, &run) && !parent.is_some_and(|it| passes(filter, &it.summary()))
        };
        self.newest_first().into_iter().filter(is_top).collect()
    }
}

fn messages(run: &RunSummary) -> u64 {
    run.deliveries + run.shadow_deliveries
}

fn passes(filter: &RunFilter, run: &RunSummary) -> bool {
    let RunFilter { host, folder, since, failed, said } = filter;
    let is_in = |folder: &String| {
        run.folder.as_ref().is_some_and(|it| it == folder || it.starts_with(&format!("{folder}/")))
    };
    host.as_ref().is_none_or(|host| run.host == *host)
        && folder.as_ref().is_none_or(is_in)
        && since.is_none_or(|since| run.latest >= since)
        && (!failed || matches!(run.outcome.as_deref(), Some("failed" | "aborted")))
        && (!said || messages(run) > 0)
}

fn key(order: RunOrder, run: &RunSummary) -> Option<u64> {
    let tokens = || {
        let it = run.tokens?;
        let sum = it.input_tokens
            + it.output_tokens
            + it.cache_creation_input_tokens
            + it.cache_read_input_tokens;
        Some(sum.unsigned_abs())
    };
    match order {
        RunOrder::Started => Some(run.started.unix_ms()),
        RunOrder::Latest => Some(run.latest.unix_ms()),
        RunOrder::Duration => Some(run.latest.unix_ms() - run.started.unix_ms()),
        RunOrder::Calls => Some(run.calls),
        RunOrder::Errors => Some(run.errors),
        RunOrder::Messages => Some(messages(run)),
        RunOrder::Tokens => tokens(),
        RunOrder::Cost => run.cost.map(|cost| cost.get()),
    }
}

impl RunReader for Memory {
    fn list_runs(
        &mut self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor), FleetError> {
        let (started, _) = after.place();
        let is_after = |header: &&RunHeader| {
            i64::try_from(header.summary().started.unix_ms()).unwrap() < started
        };
        let page: Vec<&RunHeader> =
            self.top(filter).into_iter().filter(is_after).take(count).collect();
        let mut listed = Vec::new();
        page.iter().for_each(|header| self.add(filter, header, 0, &mut listed));
        let cursor = page.last().map_or(after, |header| {
            RunCursor::after(i64::try_from(header.summary().started.unix_ms()).unwrap(), 0)
        });
        Ok((listed, cursor))
    }

    fn listed_run_count(&mut self, filter: &RunFilter) -> Result<u64, FleetError> {
        Ok(self.top(filter).len() as u64)
    }

    fn run_table(&mut self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64), FleetError> {
        let text = query.text.as_ref().map(|text| text.to_ascii_lowercase());
        let contains = |run: &RunSummary, text: &str| {
            let id = Some(run.run_id.as_str());
            let texts = [id, run.task.as_deref(), run.folder.as_deref(), run.model.as_deref()];
            texts.into_iter().flatten().any(|it| it.to_ascii_lowercase().contains(text))
        };
        let mut runs: Vec<&RunHeader> = self
            .headers()
            .filter(|header| {
                let run = header.summary();
                run.parent_run_id.as_ref().is_none_or(|parent| self.find(parent).is_none())
                    && passes(&query.filter, &run)
                    && query.running_since.is_none_or(|it| run.ended.is_none() && run.latest >= it)
                    && text.as_ref().is_none_or(|text| contains(&run, text))
            })
            .collect();
        let total = runs.len() as u64;
        runs.sort_by(|a, b| {
            let (a, b) = (a.summary(), b.summary());
            let (x, y) = (key(query.order, &a), key(query.order, &b));
            let ordering = match (x, y) {
                (None, Some(_)) => return std::cmp::Ordering::Greater,
                (Some(_), None) => return std::cmp::Ordering::Less,
                _ => x.cmp(&y).then(a.started.cmp(&b.started)),
            };
            if query.is_ascending { ordering } else { ordering.reverse() }
        });
        let offset = usize::try_from(query.offset).unwrap();
        let rows = runs.into_iter().skip(offset).take(query.count);
        let row = |run: &RunHeader| run.table_run(self.children(run.run_id()).len() as u64);
        Ok((rows.map(row).collect(), total))
    }

    fn hosts(&mut self) -> Result<Vec<String>, FleetError> {
        let hosts: BTreeSet<String> = self.headers().map(|header| header.summary().host).collect();
        Ok(hosts.into_iter().collect())
    }

    fn find_runs(
        &mut self,
        id: &str,
        part: IdPart,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        let fits = |run_id: &&RunId| match part {
            IdPart::Whole => run_id.as_str() == id,
            IdPart::Start => run_id.as_str().starts_with(id),
            IdPart::End => !id.is_empty() && run_id.as_str().ends_with(id),
        };
        let runs = self.newest_first().into_iter().map(RunHeader::run_id);
        Ok(runs.filter(fits).take(count).cloned().collect())
    }

    fn family(&mut self, run_id: &RunId) -> Result<Vec<ReadRun>, FleetError> {
        let mut listed = Vec::new();
        if let Some(header) = self.find(run_id) {
            self.add(&RunFilter::default(), header, 0, &mut listed);
        }
        let read = |listed: ListedRun| {
            let header = self.find(&listed.run.run_id).unwrap().clone();
            ReadRun { header, level: Level::Full }
        };
        Ok(listed.into_iter().map(read).collect())
    }

    fn runs_between(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<ReadRun>, FleetError> {
        let runs = self.newest_first().into_iter().filter(|header| {
            let run = header.summary();
            run.latest >= since && run.started < until
        });
        Ok(runs.map(|header| ReadRun { header: header.clone(), level: Level::Full }).collect())
    }

    fn chain_after(
        &mut self,
        run_id: &RunId,
        from: &ChainPosition,
        limit: ChainLimit,
    ) -> Result<ChainPart, FleetError> {
        let found = self.runs.iter().find(|(header, _)| header.run_id() == run_id);
        let (header, all) = found.ok_or_else(|| FleetError::Run("no such run".to_owned()))?;
        let skip = usize::try_from(from.records + from.reports).unwrap();
        let entries: Vec<ChainEntry> = all.iter().skip(skip).take(limit.entries).cloned().collect();
        let end = entries.iter().fold(*from, |at, entry| at.after(entry).unwrap());
        Ok(ChainPart { header: header.clone(), entries, end })
    }

    fn runs_with_words(
        &mut self,
        _: &str,
        filter: &RunFilter,
        after: Option<&RunId>,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        let all = self.newest_first().into_iter().filter(|it| passes(filter, &it.summary()));
        let ids: Vec<RunId> = all.map(|it| it.run_id().clone()).collect();
        let from = after.map_or(0, |after| {
            ids.iter().position(|run_id| run_id == after).map_or(ids.len(), |at| at + 1)
        });
        Ok(ids.into_iter().skip(from).take(count).collect())
    }
}
