//! A run with its child runs: one trace, in which each child run is nested in the call that started
//! it.

use std::collections::HashMap;

use anyhow::Result;
use midcourse::{RunSummary, Store};

use super::RunSource;
use crate::formats::otel::{RunSpans, Subagent, trace_id};

/// The most ancestors of a run that are looked for.
const MAX_ANCESTORS: usize = 64;

/// Knows the trace, and for each run the span in which it is nested.
pub(super) struct Tree {
    pub(super) trace_id: [u8; 16],
    /// Spans in which runs are nested, by run id.
    parents: HashMap<String, [u8; 8]>,
    subagents: HashMap<String, Vec<Subagent>>,
}

impl Tree {
    /// `runs` is a run and then its child runs, each after its parent. If the first of them is a
    /// child run itself, its ancestors are read to find its trace and its place in it.
    pub(super) fn new(source: &mut RunSource<'_>, runs: &[RunSummary]) -> Result<Self> {
        let mut ancestors: Vec<RunSummary> = Vec::new();
        let mut next = runs.first().and_then(|run| run.parent_run_id.clone());
        while let Some(run_id) = next.take()
            && ancestors.len() < MAX_ANCESTORS
            && let Some(run) = source.store.run(run_id.as_str())?
        {
            next = run.parent_run_id.clone();
            ancestors.push(run);
        }
        ancestors.reverse();
        let mut subagents: HashMap<String, Vec<Subagent>> = HashMap::new();
        for run in ancestors.iter().chain(runs) {
            let children = children(source.store, run)?;
            subagents.insert(run.run_id.as_str().to_owned(), children);
        }
        let root = ancestors.first().or(runs.first());
        let trace_id = trace_id(root.map_or("", |run| run.run_id.as_str()));
        let mut tree = Self { trace_id, parents: HashMap::new(), subagents };
        for run in &ancestors {
            let mut spans = tree.run_spans(run);
            source.for_each_record(run, |record, _| {
                spans.add(record.to_json());
                Ok(())
            })?;
            tree.finish_run(&spans, run);
        }
        Ok(tree)
    }

    /// Makes the spans of this run.
    pub(super) fn run_spans(&mut self, run: &RunSummary) -> RunSpans {
        let run_id = run.run_id.as_str();
        let subagents = self.subagents.get(run_id).cloned().unwrap_or_default();
        RunSpans::new(run_id, self.trace_id, self.parents.get(run_id).copied(), subagents)
    }

    /// Remembers where the child runs of this run are nested. All its records were taken in.
    pub(super) fn finish_run(&mut self, spans: &RunSpans, run: &RunSummary) {
        for subagent in self.subagents.get(run.run_id.as_str()).into_iter().flatten() {
            self.parents.insert(subagent.run_id.clone(), spans.parent_of(&subagent.run_id));
        }
    }
}

fn children(store: &Store, run: &RunSummary) -> Result<Vec<Subagent>> {
    let children = store.children(run.run_id.as_str())?.into_iter();
    let subagent = |child: RunSummary| Subagent {
        run_id: child.run_id.as_str().to_owned(),
        started_ms: child.started.unix_ms(),
        task: child.task,
    };
    Ok(children.map(subagent).collect())
}
