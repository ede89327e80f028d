//! What a run is about and how it went, in the run's row: kept up to date with every record, and the
//! same when it is computed again from the records.

use midcourse::{
    AgentMessage, AssistantContent, Budget, DataDir, Engine, Event, Findings, MicroUsd,
    OutcomeVerdict, RunOutcome, RunSummary, StopReason, Store, SummaryState, SyncedEngine,
    TrajectoryPayload, Trouble, Usage,
};
use proptest::prelude::*;

use crate::events::{
    TempStore, at, findings, hook, root, test_settings, tool_ended, tool_started, user_message,
};

fn event(payload: TrajectoryPayload) -> Event {
    Event::new(root("r"), hook(), at(0), payload)
}

fn response(stop_reason: StopReason, usage: Option<Usage>) -> AgentMessage {
    AgentMessage::Assistant {
        content: AssistantContent::text("ok"),
        stop_reason,
        error_message: None,
        timestamp: None,
        usage,
    }
}

fn usage(input: i64, output: i64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
}

fn exit_code(code: i32) -> TrajectoryPayload {
    TrajectoryPayload::RunDescribed {
        folder: None,
        command: None,
        host_version: None,
        model: None,
        exit_code: Some(code),
    }
}

fn ended(outcome: RunOutcome) -> TrajectoryPayload {
    TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }
}

fn summary(store: &Store) -> RunSummary {
    store.run("r").unwrap().unwrap()
}

#[test]
fn the_row_of_a_run_says_what_it_is_about() {
    let place = TempStore::new();
    let mut store = place.open();
    let described = TrajectoryPayload::RunDescribed {
        folder: Some("/project".to_owned()),
        command: Some("claude -p 'fix it'".to_owned()),
        host_version: Some("2.1.0".to_owned()),
        model: Some("model-1".to_owned()),
        exit_code: None,
    };
    let counted = response(StopReason::ToolUse, Some(usage(10, 2)));
    let events = [
        event(described),
        user_message("r", "Fix\nthe tests"),
        user_message("r", "and then the docs"),
        event(TrajectoryPayload::MessageAppended { message: counted.clone() }),
        // The end of the turn repeats the response; its tokens count once.
        event(TrajectoryPayload::TurnEnded {
            assistant: counted.clone(),
            tool_results: Vec::new(),
        }),
        event(TrajectoryPayload::TurnEnded { assistant: counted, tool_results: Vec::new() }),
        event(TrajectoryPayload::UsageReported { usage: usage(5, 1) }),
        event(TrajectoryPayload::CostReported { total_micro_usd: MicroUsd::from_micro(7) }),
        event(TrajectoryPayload::Outcome {
            delivery_seq: 1,
            verdict: OutcomeVerdict::Cleared,
            after_calls: 2,
        }),
        event(TrajectoryPayload::MessageAppended { message: response(StopReason::EndTurn, None) }),
        event(ended(RunOutcome::Unknown)),
    ];
    for event in events {
        store.append(event).unwrap();
    }
    let run = summary(&store);
    assert_eq!(run.task.as_deref(), Some("Fix the tests"));
    assert_eq!(run.folder.as_deref(), Some("/project"));
    assert_eq!(run.command.as_deref(), Some("claude -p 'fix it'"));
    assert_eq!(run.host_version.as_deref(), Some("2.1.0"));
    assert_eq!(run.model.as_deref(), Some("model-1"));
    assert_eq!(run.tokens, Some(usage(25, 5)));
    assert_eq!(run.cost, Some(MicroUsd::from_micro(7)));
    assert_eq!((run.cleared, run.ignored), (1, 0));
    assert_eq!(run.outcome.as_deref(), Some("completed"), "the model had answered");
    assert_eq!(run.reported_outcome.as_deref(), Some("unknown"));
}

#[test]
fn the_outcome_follows_from_the_host_the_exit_code_or_the_last_response() {
    let word = |word: &str| RunOutcome::from(word.to_owned());
    let message = |reason| TrajectoryPayload::MessageAppended { message: response(reason, None) };
    let cases = [
        (vec![message(StopReason::EndTurn)], word("other words"), None, "completed"),
        (vec![message(StopReason::Error)], word("unknown"), None, "failed"),
        (vec![message(StopReason::ToolUse)], word("unknown"), None, "unknown"),
        (vec![], word("prompt_input_exit"), None, "prompt_input_exit"),
        (vec![message(StopReason::EndTurn)], word("unknown"), Some(1), "failed"),
        (vec![message(StopReason::ToolUse)], word("unknown"), Some(0), "completed"),
        (vec![], word("unknown"), Some(130), "aborted"),
        (vec![], word("unknown"), Some(137), "failed"),
        (vec![], word("limit_reached"), Some(0), "limit_reached"),
    ];
    for (payloads, reported, code, expected) in cases {
        let place = TempStore::new();
        let mut store = place.open();
        for payload in payloads {
            store.append(event(payload)).unwrap();
        }
        store.append(event(ended(reported))).unwrap();
        if let Some(code) = code {
            store.append(event(exit_code(code))).unwrap();
        }
        assert_eq!(summary(&store).outcome.as_deref(), Some(expected));
        store.append(event(TrajectoryPayload::Resumed)).unwrap();
        assert_eq!((summary(&store).outcome, summary(&store).exit_code), (None, None));
    }
}

#[test]
fn the_first_trouble_that_the_engine_finds_is_kept() {
    let place = TempStore::new();
    let mut store = place.open();
    let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
    let mut found = Findings::default();
    let mut calls = 0;
    for call in 0..12 {
        for event in [
            tool_started("r", &call.to_string()),
            tool_ended("r", &call.to_string(), "make: *** no rule to make target. Stop."),
        ] {
            let ends = matches!(event.payload, TrajectoryPayload::ToolEnded { .. });
            let (_, step) = store.step(event, &mut engine).unwrap();
            calls += u64::from(ends);
            found.add(&step.patterns, calls);
        }
    }
    let run = summary(&store);
    assert_eq!((run.state, &run.findings), (SummaryState::Current, &found));
    let Some(Trouble { calls, .. }) = found.trouble else { panic!("{run:?}") };
    assert!((3..12).contains(&calls) && found.patterns.contains_key("doom_loop"), "{found:?}");
    // A call that no engine has seen makes the findings incomplete.
    store.append(tool_ended("r", "x", "fine")).unwrap();
    assert_eq!(summary(&store).state, SummaryState::NotAnalysed);
    assert_eq!(store.outdated_runs(false, 9).unwrap(), []);
    assert_eq!(store.outdated_runs(true, 9).unwrap(), [summary(&store)]);
    assert!(!store.recount(&"r".into(), 3, &found).unwrap(), "the run has more records");
    let records = summary(&store).records;
    assert!(store.recount(&"r".into(), records, &found).unwrap());
    assert_eq!(summary(&store).state, SummaryState::Current);
}

#[test]
fn a_store_of_schema_1_is_upgraded_and_its_runs_are_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path());
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/store-schema-1");
    for file in ["store.db", "record-count", "losses"] {
        std::fs::copy(format!("{old}/{file}"), folder.path().join(file)).unwrap();
    }
    let mut store = Store::open(&data_dir, test_settings()).unwrap();
    assert_eq!(store.schema_version().unwrap(), 3);
    assert_eq!(findings(&store), [""; 0]);
    let run = store.run("night-1").unwrap().unwrap();
    assert_eq!((run.state, run.task, run.calls), (SummaryState::Missing, None, 6));
    store.append(user_message("night-2", "go on")).unwrap();
    let outdated = |store: &Store| store.outdated_runs(false, 9).unwrap().len();
    assert_eq!(outdated(&store), 2);
    for run in store.runs(2).unwrap() {
        assert_eq!(run.state, SummaryState::Missing, "a row that is not whole is worse than none");
        assert!(store.recount(&run.run_id, run.records, &Findings::default()).unwrap());
    }
    assert_eq!(outdated(&store), 0);
    let run = store.run("night-1").unwrap().unwrap();
    assert_eq!(run.task.as_deref(), Some("make the tests pass"));
    let tokens = Usage { cache_read_input_tokens: 50, ..usage(100, 20) };
    assert_eq!((run.tokens, run.outcome.as_deref()), (Some(tokens), Some("completed")));
    assert_eq!(store.run("night-2").unwrap().unwrap().task.as_deref(), Some("go on"));
    drop(store);
    let again = Store::open_read_only(&data_dir).unwrap().unwrap();
    assert_eq!(findings(&again), [""; 0]);
}

#[test]
fn list_computes_the_summaries_of_an_older_store() {
    let folder = tempfile::tempdir().unwrap();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/store-schema-1");
    for file in ["store.db", "record-count", "losses"] {
        std::fs::copy(format!("{old}/{file}"), folder.path().join(file)).unwrap();
    }
    let mut list = std::process::Command::new(env!("CARGO_BIN_EXE_midcourse"));
    let output = list.args(["list", "--json"]).env("MIDCOURSE_HOME", folder.path()).output();
    let lines = String::from_utf8(output.unwrap().stdout).unwrap();
    let run = lines.lines().find(|line| line.contains("night-1")).unwrap();
    let run: serde_json::Value = serde_json::from_str(run).unwrap();
    assert_eq!(run["task"], "make the tests pass");
    assert_eq!(run["patterns"]["doom_loop"], 1, "{run}");
    assert_eq!(run["trouble"]["calls"], 3, "{run}");
}

fn payloads() -> impl Strategy<Value = TrajectoryPayload> {
    let stop =
        prop_oneof![Just(StopReason::EndTurn), Just(StopReason::ToolUse), Just(StopReason::Error)];
    let responses = (stop, proptest::option::of((0..9_i64, 0..9_i64)))
        .prop_map(|(stop, tokens)| response(stop, tokens.map(|(i, o)| usage(i, o))))
        .boxed();
    let text = proptest::option::of("[a-c]{0,2}");
    let failed = any::<bool>();
    prop_oneof![
        responses.clone().prop_map(|message| TrajectoryPayload::MessageAppended { message }),
        responses.prop_map(|assistant| TrajectoryPayload::TurnEnded {
            assistant,
            tool_results: Vec::new()
        }),
        "( |<x>a</x>|b ){0,3}".prop_map(|text| TrajectoryPayload::MessageAppended {
            message: AgentMessage::user(text)
        }),
        (text.clone(), text.clone(), text.clone(), text, proptest::option::of(0..3_i32)).prop_map(
            |(folder, command, host_version, model, exit_code)| {
                TrajectoryPayload::RunDescribed { folder, command, host_version, model, exit_code }
            }
        ),
        (0..9_u64).prop_map(|cost| TrajectoryPayload::CostReported {
            total_micro_usd: MicroUsd::from_micro(cost)
        }),
        prop_oneof![
            Just(OutcomeVerdict::Cleared),
            Just(OutcomeVerdict::Ignored),
            Just(OutcomeVerdict::RunEnded)
        ]
        .prop_map(|verdict| TrajectoryPayload::Outcome {
            delivery_seq: 0,
            verdict,
            after_calls: 1
        }),
        failed.prop_map(|is_error| match tool_ended("r", "", "x").payload {
            TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, .. } => {
                TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error }
            }
            other => other,
        }),
        Just(ended(RunOutcome::Unknown)),
        Just(TrajectoryPayload::Resumed),
        Just(TrajectoryPayload::TurnStarted),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_row_is_the_same_when_it_is_computed_again(
        payloads in proptest::collection::vec(payloads(), 1..30),
    ) {
        let place = TempStore::new();
        let mut store = place.open();
        for payload in payloads {
            store.append(event(payload)).unwrap();
        }
        let kept = summary(&store);
        prop_assert!(store.recount(&"r".into(), kept.records, &kept.findings).unwrap());
        let computed = RunSummary { state: kept.state, ..summary(&store) };
        prop_assert_eq!(computed, kept);
        prop_assert_eq!(findings(&store), Vec::<String>::new());
    }
}

#[test]
fn events_that_are_stored_together_are_analysed_as_if_they_came_one_by_one() {
    let found = |together: bool| {
        let place = TempStore::new();
        for call in 0..9_i32 {
            let id = call.to_string();
            let denied = TrajectoryPayload::Denied {
                tool_call_id: id.as_str().into(),
                tool_name: "bash".into(),
                reason: Some(format!("rule {call} forbids this")),
            };
            // Equal turns are duplicates only if they are neighbours.
            let turn = event(TrajectoryPayload::TurnStarted).deduped();
            let turn = turn.with_fact(format!("after:{id}"));
            let usage = event(TrajectoryPayload::UsageReported { usage: usage(1, 1) });
            let usage = usage.with_fact(format!("usage:{call}"));
            // Some starts were reported before, and the usage of the turn before too.
            if call % 2 == 0 {
                place.open().append(tool_started("r", &id)).unwrap();
            }
            let before = event(TrajectoryPayload::UsageReported { usage: self::usage(1, 1) })
                .with_fact(format!("usage:{}", call - 1));
            let events = vec![before, usage, tool_started("r", &id), event(denied), turn];
            let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
            let mut intake = midcourse::Intake::new(&place.data_dir(), &test_settings());
            let results = match together {
                true => intake.ingest_all(events, &mut engine),
                false => events.into_iter().map(|it| intake.ingest(it, &mut engine)).collect(),
            };
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
        let run = summary(&place.open());
        (run.findings, run.deliveries, run.records)
    };
    let one_by_one = found(false);
    assert!(!one_by_one.0.patterns.is_empty());
    assert_eq!(found(true), one_by_one);
}
