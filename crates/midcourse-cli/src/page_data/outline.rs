//! The outline of a run as columns: one array per property, which is a fraction of the size of one
//! object per step.

use std::collections::HashMap;
use std::hash::Hash;

use midcourse::{
    Cursor, Outline, OutlineChanges, OutlineStep, RunId, StepState, Store, StoreError, Timestamp,
};
use serde::Serialize;

/// The steps of a run, as `/api/runs/{id}/outline` returns them and as events report changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OutlineColumns {
    /// The run, in events only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<RunId>,
    /// The time from which the others count, in Unix milliseconds.
    base: u64,
    kinds: Vec<&'static str>,
    tools: Vec<String>,
    seq: Vec<u64>,
    at: Vec<u64>,
    kind: Vec<usize>,
    tool: Vec<i64>,
    end: Vec<i64>,
    end_seq: Vec<i64>,
    state: Vec<u8>,
    /// Steps that have become parts of others, in events only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<u64>,
    /// The seq of the first step of the next page.
    next: Option<u64>,
    /// The position from which events report changes.
    cursor: String,
}

/// Up to `count` steps of a run, from seq `from` on; `None` if the run is not stored.
pub(crate) fn outline(
    store: &Store,
    run_id: &str,
    from: u64,
    count: usize,
) -> Result<Option<OutlineColumns>, StoreError> {
    let Some(Outline { steps, next, cursor }) = store.outline(run_id, from, count)? else {
        return Ok(None);
    };
    // The same base on all pages, unless the clock was set back during the run.
    let started = store.run(run_id)?.map(|run| run.started);
    Ok(Some(OutlineColumns { next, ..OutlineColumns::of(&steps, started, cursor) }))
}

/// What changed in the outlines of these runs and of their subagents since `cursor`, and the
/// position from which to go on. Call it again until the position does not change any more.
pub(crate) fn changes(
    store: &Store,
    cursor: Cursor,
    run_ids: &[RunId],
    count: usize,
) -> Result<(Vec<OutlineColumns>, Cursor), StoreError> {
    let (changes, cursor) = store.outline_changes(cursor, run_ids, count)?;
    let columns = |OutlineChanges { run_id, steps, gone }| OutlineColumns {
        run_id: Some(run_id),
        gone,
        ..OutlineColumns::of(&steps, None, cursor)
    };
    Ok((changes.into_iter().map(columns).collect(), cursor))
}

/// The number of a state in JSON.
pub(super) const fn state_number(state: StepState) -> u8 {
    match state {
        StepState::Fine => 0,
        StepState::Failed => 1,
        StepState::Refused => 2,
        StepState::Open => 3,
    }
}

impl OutlineColumns {
    fn of(steps: &[OutlineStep], started: Option<Timestamp>, cursor: Cursor) -> Self {
        let times = steps.iter().flat_map(|step| [Some(step.at), step.end.map(|end| end.1)]);
        let base = times.flatten().chain(started).map(Timestamp::unix_ms).min().unwrap_or(0);
        let since = |at: Timestamp| at.unix_ms().saturating_sub(base);
        let (mut kinds, mut tools) = (Names::default(), Names::default());
        let mut columns = Self {
            run_id: None,
            base,
            kinds: Vec::new(),
            tools: Vec::new(),
            seq: steps.iter().map(|step| step.seq).collect(),
            at: steps.iter().map(|step| since(step.at)).collect(),
            kind: steps.iter().map(|step| kinds.index(step.kind.as_str())).collect(),
            tool: Vec::with_capacity(steps.len()),
            end: steps.iter().map(|step| or_minus_one(step.end.map(|(_, at)| since(at)))).collect(),
            end_seq: steps.iter().map(|step| or_minus_one(step.end.map(|(seq, _)| seq))).collect(),
            state: steps.iter().map(|step| state_number(step.state)).collect(),
            gone: Vec::new(),
            next: None,
            cursor: cursor.to_string(),
        };
        for step in steps {
            let index = step.tool.as_deref().map(|tool| tools.index(tool));
            columns.tool.push(or_minus_one(index.and_then(|index| u64::try_from(index).ok())));
        }
        columns.kinds = kinds.names;
        columns.tools = tools.names.into_iter().map(ToOwned::to_owned).collect();
        columns
    }
}

fn or_minus_one(number: Option<u64>) -> i64 {
    number.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1)
}

/// Names in the order of their first use.
#[derive(Default)]
struct Names<T> {
    names: Vec<T>,
    indexes: HashMap<T, usize>,
}

impl<T: Copy + Eq + Hash> Names<T> {
    fn index(&mut self, name: T) -> usize {
        let Self { names, indexes } = self;
        *indexes.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        })
    }
}
