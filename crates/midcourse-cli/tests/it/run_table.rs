//! The table of runs: filtered, sorted and cut into pages as a table in memory would be.

use std::cmp::Reverse;

use midcourse::{
    Event, RunIdentity, RunOrder, RunSummary, RunTableQuery, Store, ToolResult, TrajectoryPayload,
    Usage,
};
use proptest::prelude::*;
use serde_json::json;

use crate::events::{TempStore, at, hook, root};

/// A run to store: when it starts, whether it is a subagent of the run before it, its calls (true:
/// failed), tokens and whether it has ended.
#[derive(Debug, Clone)]
struct Planned {
    start: u64,
    is_child: bool,
    calls: Vec<bool>,
    tokens: Option<i64>,
    has_end: bool,
}

fn planned() -> impl Strategy<Value = Planned> {
    let calls = prop::collection::vec(any::<bool>(), 0..4);
    let tokens = prop::option::of(0_i64..4);
    (0_u64..20, any::<bool>(), calls, tokens, any::<bool>()).prop_map(
        |(start, is_child, calls, tokens, has_end)| Planned {
            start,
            is_child,
            calls,
            tokens,
            has_end,
        },
    )
}

fn identity(number: usize, is_child: bool) -> RunIdentity {
    let id = format!("r{number}");
    match is_child && number > 0 {
        true => RunIdentity::child_of(&root(&format!("r{}", number - 1)), id),
        false => root(&id),
    }
}

fn fill(store: &mut Store, runs: &[Planned]) {
    for (number, run) in runs.iter().enumerate() {
        let mut seconds = run.start;
        let mut append = |payload: TrajectoryPayload| {
            let run_id = identity(number, run.is_child);
            store.append(Event::new(run_id, hook(), at(seconds), payload)).unwrap();
            seconds += 1;
        };
        append(TrajectoryPayload::RunDescribed {
            folder: Some(format!("/Project-{}", number % 3)),
            command: None,
            host_version: None,
            model: None,
            exit_code: None,
        });
        for (call, is_error) in run.calls.iter().enumerate() {
            append(TrajectoryPayload::ToolEnded {
                tool_call_id: format!("c{call}").as_str().into(),
                tool_name: "bash".into(),
                result: ToolResult::text("text"),
                is_error: *is_error,
            });
        }
        // The last call has no result.
        append(TrajectoryPayload::ToolStarted {
            tool_call_id: "open".into(),
            tool_name: "bash".into(),
            args: json!({}),
        });
        if let Some(tokens) = run.tokens {
            let usage = Usage { input_tokens: tokens, ..Usage::default() };
            append(TrajectoryPayload::UsageReported { usage });
        }
        if run.has_end {
            append(TrajectoryPayload::RunEnded {
                outcome: midcourse::RunOutcome::Unknown,
                new_messages: Vec::new(),
            });
        }
    }
}

/// What the runs are sorted by; `None` comes last.
fn key(run: &RunSummary, order: RunOrder) -> Option<i64> {
    let number = |value: u64| i64::try_from(value).unwrap();
    Some(match order {
        RunOrder::Started => number(run.started.unix_ms()),
        RunOrder::Latest => number(run.latest.unix_ms()),
        RunOrder::Duration => number(run.latest.unix_ms() - run.started.unix_ms()),
        RunOrder::Calls => number(run.calls),
        RunOrder::Errors => number(run.errors),
        RunOrder::Messages => number(run.deliveries + run.shadow_deliveries),
        RunOrder::Tokens => run.tokens.as_ref()?.input_tokens,
        RunOrder::Cost => return run.cost.map(|cost| i64::try_from(cost.get()).unwrap()),
    })
}

const ORDERS: [RunOrder; 8] = [
    RunOrder::Started,
    RunOrder::Latest,
    RunOrder::Duration,
    RunOrder::Calls,
    RunOrder::Errors,
    RunOrder::Messages,
    RunOrder::Tokens,
    RunOrder::Cost,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_parts_of_the_sorted_and_filtered_table(
        runs in prop::collection::vec(planned(), 0..8),
        order in prop::sample::select(&ORDERS[..]),
        is_ascending in any::<bool>(),
        text in prop::sample::select(&["", "project-1", "R2", "nothing"][..]),
        running_since in prop::option::of(0_u64..25),
        page in 1_usize..4,
    ) {
        let place = TempStore::new();
        let mut store = place.open();
        fill(&mut store, &runs);
        let running_since = running_since.map(at);
        let query = RunTableQuery {
            text: Some(text.to_owned()).filter(|text| !text.is_empty()),
            running_since,
            order,
            is_ascending,
            count: page,
            ..RunTableQuery::default()
        };
        let mut expected: Vec<RunSummary> = store
            .runs(usize::MAX)
            .unwrap()
            .into_iter()
            .filter(|run| run.parent_run_id.is_none())
            .filter(|run| running_since.is_none_or(|since| run.ended.is_none() && run.latest >= since))
            .filter(|run| {
                let text = text.to_lowercase();
                run.run_id.as_str().to_lowercase().contains(&text)
                    || run.folder.as_deref().unwrap_or_default().to_lowercase().contains(&text)
            })
            .collect();
        let number = |run: &RunSummary| run.run_id.as_str().trim_start_matches('r').parse::<usize>().unwrap();
        expected.sort_by_key(|run| {
            let (key, started) = (key(run, order), run.started.unix_ms());
            let ascending = (key.is_none(), key, started, number(run));
            let descending = (key.is_none(), Reverse((key, started, number(run))));
            match is_ascending {
                true => (Some(ascending), None),
                false => (None, Some(descending)),
            }
        });
        let mut found = Vec::new();
        for offset in (0..=expected.len()).step_by(page) {
            let query = RunTableQuery { offset: offset as u64, ..query.clone() };
            let (rows, total) = store.run_table(&query).unwrap();
            prop_assert_eq!(total, expected.len() as u64);
            found.extend(rows);
        }
        let ids = |runs: &[RunSummary]| -> Vec<String> {
            runs.iter().map(|run| run.run_id.to_string()).collect()
        };
        let rows: Vec<RunSummary> = found.iter().map(|row| row.run.clone()).collect();
        prop_assert_eq!(ids(&rows), ids(&expected));
        for row in &found {
            prop_assert_eq!(row.open_calls, 1);
            let children = store.children(row.run.run_id.as_str()).unwrap().len();
            prop_assert_eq!(row.subagents, children as u64);
            let alone = store.table_run(row.run.run_id.as_str()).unwrap();
            prop_assert_eq!(alone.as_ref(), Some(row));
        }
    }

    #[test]
    fn changed_runs_are_those_with_later_records(
        before in prop::collection::vec(planned(), 1..5),
        changed in prop::collection::btree_set(0_usize..4, 0..4),
    ) {
        let place = TempStore::new();
        let mut store = place.open();
        fill(&mut store, &before);
        let cursor = store.cursor(None, 0).unwrap();
        prop_assert_eq!(store.runs_after(cursor, 9).unwrap(), (Vec::new(), cursor));
        // A cursor that went through a URL is the same.
        let cursor = cursor.to_string().parse().unwrap();
        let changed: Vec<usize> = changed.into_iter().filter(|it| *it < before.len()).collect();
        for number in &changed {
            let payload = TrajectoryPayload::TurnStarted;
            let run = identity(*number, before[*number].is_child);
            store.append(Event::new(run, hook(), at(99), payload)).unwrap();
        }
        let (found, after) = store.runs_after(cursor, 9).unwrap();
        let newest_first: Vec<String> = changed.iter().rev().map(|it| format!("r{it}")).collect();
        prop_assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), newest_first);
        prop_assert_eq!(store.runs_after(after, 9).unwrap(), (Vec::new(), after));
    }
}
