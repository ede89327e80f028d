//! Properties of the engine that hold for every run, checked on random runs.

use std::collections::{BTreeMap, BTreeSet};

use midcourse_core::{
    Budget, ConsultationPromptProvider, DecisionPoint, DiagnosticSignalProvider, DoomLoopDetector,
    DriftDetector, Engine, ErrorCascadeDetector, Feedback, FeedbackProviderConfig, FeedbackTrigger,
    GuidanceDelivered, GuidanceProviderConfig, MAX_FEEDBACK_CHARS, Mode, ParallelToolReminder,
    Prompt, PromptTemplate, RunOutcome, StallDetector, StaticFeedback, Timestamp, ToolInvoked,
    TrajectoryAnalysisConfig, TrajectoryPattern, TrajectoryPayload, TrajectoryRecord, WindowSize,
};
use proptest::prelude::*;

use crate::model::{Counts, INJECTED_TEXT, RandomEvent, count, random_run, records, tool_name};
use crate::replay::{Message, replay, step, with_free_seqs};

/// An engine with every built-in provider, so that several providers have a message about the same
/// loop or error.
fn all_providers() -> Engine {
    let trigger = |n| FeedbackTrigger::every_n_calls(n).unwrap();
    let template = midcourse_core::shipped_template(Budget::default().with_calls(30).unwrap())
        .with_feedback_provider(FeedbackProviderConfig::new(StallDetector, trigger(1)))
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(
            ErrorCascadeDetector::default(),
            trigger(2),
        ))
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(DriftDetector, trigger(1)))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(DoomLoopDetector::default()))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(DiagnosticSignalProvider::default()))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(ConsultationPromptProvider::default()))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(ParallelToolReminder::default()))
        .unwrap();
    let config =
        TrajectoryAnalysisConfig { watch_drift: true, ..TrajectoryAnalysisConfig::shipped() };
    Engine::new(Prompt::new(template), config)
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Live), Just(Mode::Shadow)]
}

fn is_configuration(record: &TrajectoryRecord) -> bool {
    matches!(record.payload, TrajectoryPayload::ConfigApplied { prompt_name: None, .. })
}

/// Each time a cause has been absent for this many calls, its rung (the number of its latest
/// message) decreases by one. The ledger has the same constant.
const CALLS_PER_STEP_DOWN: u64 = 20;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_prefix_of_a_run_gets_the_same_messages(run in random_run(40), part in any::<prop::sample::Index>()) {
        let records = records(&run);
        let whole = replay(&mut all_providers(), &records);
        let prefix = replay(&mut all_providers(), &records[..part.index(records.len() + 1)]);
        prop_assert_eq!(&whole[..prefix.len()], &prefix[..]);
    }

    #[test]
    fn a_checkpoint_anywhere_changes_nothing(
        run in random_run(30),
        every in 1..7_usize,
        mode in modes(),
    ) {
        let records = records(&run);
        let all_providers = || all_providers().with_mode(mode);
        let (mut straight, mut resumed) = (all_providers(), all_providers());
        for (index, record) in records.iter().enumerate() {
            // Continue with a new engine that is restored from a checkpoint. Hooks do this at every
            // event, because each hook is a new process.
            if index % every == 0 {
                let saved = resumed.checkpoint().unwrap();
                resumed = all_providers();
                resumed.restore(&saved).unwrap();
            }
            prop_assert_eq!(step(&mut straight, record), step(&mut resumed, record));
        }
        prop_assert_eq!(straight.checkpoint().unwrap(), resumed.checkpoint().unwrap());
    }

    #[test]
    fn a_checkpoint_equals_the_fold_of_the_stored_records(run in random_run(30), mode in modes()) {
        // Process the run event by event, and store the engine's own records (about its messages
        // and what followed them) among the others.
        let (mut live, mut stored) = (all_providers().with_mode(mode), Vec::new());
        for mut record in records(&run) {
            record.seq = stored.len() as u64;
            let step = live.step(&record, Some(DecisionPoint::PostToolResult));
            stored.push(record);
            stored.extend(step.records);
        }
        // Compute the session again, from the stored records after converting them to JSON and
        // back.
        let mut folded = all_providers();
        for record in &stored {
            let json = serde_json::to_string(record).unwrap();
            let read: TrajectoryRecord = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(record, &read);
            folded.fold(&read);
        }
        prop_assert_eq!(live.checkpoint().unwrap(), folded.checkpoint().unwrap());
    }

    #[test]
    fn shadow_mode_selects_the_same_messages_as_live_mode(run in random_run(30)) {
        let mut records = records(&run);
        records.retain(|record| !is_configuration(record));
        let shadow = replay(&mut all_providers().with_mode(Mode::Shadow), &records);
        prop_assert_eq!(replay(&mut all_providers(), &records), shadow);
    }

    #[test]
    fn shadow_deliveries_change_nothing_after_the_next_configuration(
        run in random_run(30),
        next in random_run(30),
    ) {
        // `shadow` makes messages in `before`, and `silent` makes none. If `before` ended with a
        // call, `silent` could still deliver feedback about it in `after`, but `live`, which
        // continues from the checkpoint of `shadow`, could not, because a call gets at most one
        // feedback. The `Resume` prevents this difference: after it, no engine delivers feedback
        // about an earlier call.
        let run = [run, vec![(1, RandomEvent::Resume)]].concat();
        let whole = records(&[run.clone(), vec![(1, RandomEvent::Configuration)], next].concat());
        let (before, after) = whole.split_at(records(&run).len());
        let mut shadow = all_providers().with_mode(Mode::Shadow);
        replay(&mut shadow, before);
        let mut silent = all_providers();
        before.iter().for_each(|record| drop(silent.step(&with_free_seqs(record), None)));
        let mut live = all_providers();
        live.restore(&shadow.checkpoint().unwrap()).unwrap();
        prop_assert_eq!(replay(&mut silent, after), replay(&mut live, after));
    }

    #[test]
    fn no_message_is_too_long_or_contains_injected_text(run in random_run(40)) {
        for message in replay(&mut all_providers(), &records(&run)) {
            prop_assert!(message.text.chars().count() <= MAX_FEEDBACK_CHARS);
            if !message.text.starts_with('[') {
                prop_assert!((1..=500).contains(&message.text.chars().count()));
            }
            // A message may contain names of tools and files from the run, but only with their
            // spaces removed, so it cannot contain the injected text, which has spaces.
            prop_assert!(!message.text.contains(INJECTED_TEXT), "{}", message.text);
        }
    }

    #[test]
    fn a_text_about_a_cause_is_not_delivered_again_before_the_cause_is_forgotten(
        run in random_run(60),
    ) {
        let mut delivered: BTreeMap<(String, String), u64> = BTreeMap::new();
        for message in replay(&mut all_providers(), &records(&run)) {
            if let Some((cause, _)) = message.why {
                let key = (cause.clone(), message.text.clone());
                let before = delivered.insert(key, message.call);
                let is_forgotten = before.is_none_or(|call| message.call >= call + CALLS_PER_STEP_DOWN);
                prop_assert!(is_forgotten, "{cause}: {}", message.text);
            }
        }
    }

    #[test]
    fn the_rung_of_a_cause_goes_up_and_comes_down_only_while_the_cause_is_gone(
        run in random_run(60),
    ) {
        let mut rungs: BTreeMap<String, (u8, u64)> = BTreeMap::new();
        for message in replay(&mut all_providers(), &records(&run)) {
            let Some((cause, rung)) = message.why else { continue };
            let (before, call) = rungs.insert(cause.clone(), (rung, message.call)).unwrap_or((0, 0));
            let steps_down = (message.call - call) / CALLS_PER_STEP_DOWN;
            let least = u64::from(before).saturating_sub(steps_down) + 1;
            prop_assert!(u64::from(rung) >= least, "{cause} went from {before} to {rung}");
        }
    }

    #[test]
    fn there_is_no_message_about_calls_before_the_third(run in random_run(10)) {
        for message in replay(&mut all_providers(), &records(&run)) {
            let cause = message.why.as_ref().map_or("", |(cause, _)| cause);
            let about_calls = !["deadline", "budget", "monologue", "tool_avoidance"]
                .iter()
                .any(|kind| cause.starts_with(kind));
            prop_assert!(message.call >= 3 || !about_calls, "{message:?}");
        }
    }

    #[test]
    fn counts_equal_those_of_a_model_that_keeps_everything(
        run in random_run(60),
        window in 1..60_usize,
    ) {
        let records = records(&run);
        let config = TrajectoryAnalysisConfig {
            window: WindowSize::try_from(window).unwrap(),
            ..TrajectoryAnalysisConfig::shipped()
        };
        let template = PromptTemplate::new("a", "b").unwrap();
        let mut engine = Engine::new(Prompt::new(template), config);
        let mut patterns = 0;
        for (index, record) in records.iter().enumerate() {
            patterns += engine.step(record, None).patterns.len() as u64;
            let expected = count(&records[..=index], "a:b");
            let (trajectory, session) = (engine.trajectory(), engine.session());
            let counted = Counts {
                calls: trajectory.tool_call_count(),
                errors: trajectory.error_count(),
                denied: trajectory.denied_count(),
                consecutive_errors: trajectory.consecutive_errors(),
                turns: trajectory.turn_count(),
                compactions: trajectory.compaction_count(),
                missing: trajectory.missing_records(),
                by_tool: trajectory.tool_frequency().iter()
                    .map(|(name, count)| (name.to_owned(), count)).collect(),
                by_prompt: ["a:b", "prompt-0", "prompt-1", "prompt-2"].into_iter()
                    .map(|name| (name.to_owned(), session.slice_of_prompt::<ToolInvoked>(name).total()))
                    .filter(|(_, count)| *count > 0)
                    .collect(),
            };
            prop_assert_eq!(counted, expected);
            prop_assert!(trajectory.calls().len() <= window);
        }
        let seen: u64 = ["a:b", "prompt-0", "prompt-1", "prompt-2"].into_iter()
            .map(|name| engine.session().slice_of_prompt::<TrajectoryPattern>(name).total())
            .sum();
        prop_assert_eq!(seen, patterns);
    }

    #[test]
    fn the_window_contains_the_latest_calls(run in random_run(60), window in 1..60_usize) {
        let records = records(&run);
        let config = TrajectoryAnalysisConfig {
            window: WindowSize::try_from(window).unwrap(),
            ..TrajectoryAnalysisConfig::default()
        };
        let mut engine = Engine::new(Prompt::new(PromptTemplate::new("a", "b").unwrap()), config);
        let mut names: Vec<String> = Vec::new();
        for record in &records {
            let before = engine.trajectory().tool_call_count();
            engine.step(record, None);
            if engine.trajectory().tool_call_count() > before {
                let (TrajectoryPayload::ToolEnded { tool_name, .. }
                | TrajectoryPayload::Denied { tool_name, .. }) = &record.payload
                else {
                    return Err(TestCaseError::fail("a record that ends no call was counted as one"));
                };
                names.push(tool_name.to_string());
            }
        }
        let kept: Vec<_> =
            engine.trajectory().calls().map(|call| call.tool().to_owned()).collect();
        prop_assert_eq!(&kept[..], &names[names.len().saturating_sub(window)..]);
    }

    #[test]
    fn every_provider_keeps_its_own_cadence(
        run in random_run(60),
        calls in prop::collection::vec(1..6_u32, 1..4),
        seconds in prop::option::of(1..300_u32),
    ) {
        // The test computes itself which provider is due: it keeps the call and the time of each
        // provider's latest delivery, and expects that the first provider that is due delivers.
        let mut template = PromptTemplate::new("a", "b").unwrap();
        for (index, n) in calls.iter().enumerate() {
            let mut trigger = FeedbackTrigger::every_n_calls(*n).unwrap();
            if let (0, Some(seconds)) = (index, seconds) {
                trigger = trigger.or(FeedbackTrigger::every_n_seconds(f64::from(seconds)).unwrap());
            }
            // Messages show the name of the provider without its brackets. The engine must still
            // know which provider a message is from, or the provider would be due too early.
            let fixed = StaticFeedback::new(&format!("[p {index}]"), "words").unwrap();
            template = template.with_feedback_provider(FeedbackProviderConfig::new(fixed, trigger)).unwrap();
        }
        let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
        // The engine counts calls per prompt, but this test does not, so records that switch the
        // prompt are left out.
        let records: Vec<_> = records(&run)
            .into_iter()
            .filter(|r| !matches!(r.payload, TrajectoryPayload::ConfigApplied { .. }))
            .collect();
        let mut latest: BTreeMap<usize, (u64, Timestamp)> = BTreeMap::new();
        let mut awaits_feedback = false;
        for record in &records {
            let before = engine.trajectory().tool_call_count();
            let messages = step(&mut engine, record);
            let count = engine.trajectory().tool_call_count();
            let mut expected = None;
            // A call gets at most one feedback, and none after a new call, turn or message, or
            // after the run was resumed or has ended.
            awaits_feedback = count > before
                || (awaits_feedback
                    && !matches!(
                        record.payload,
                        TrajectoryPayload::ToolStarted { .. }
                            | TrajectoryPayload::TurnStarted
                            | TrajectoryPayload::MessageAppended { .. }
                            | TrajectoryPayload::Resumed
                            | TrajectoryPayload::RunEnded { .. }
                    ));
            if awaits_feedback {
                expected = (0..calls.len()).find(|index| {
                    let last = latest.get(index);
                    let by_calls =
                        count - last.map_or(0, |(call, _)| *call) >= u64::from(calls[*index]);
                    let by_time = *index == 0 && seconds.is_some_and(|seconds| {
                        last.is_none_or(|(_, at)| {
                            record.at().since(*at).as_secs() >= u64::from(seconds)
                        })
                    });
                    by_calls || by_time
                });
                if let Some(index) = expected {
                    awaits_feedback = false;
                    // If the clock was set back, the time of the latest delivery stays as it was.
                    let before = latest.get(&index).map_or(record.at(), |(_, at)| *at);
                    latest.insert(index, (count, record.at().max(before)));
                }
            }
            let names: Vec<String> = messages.iter().map(|message: &Message| message.provider.clone()).collect();
            let expected: Vec<String> = expected.iter().map(|index| format!("p {index}")).collect();
            prop_assert_eq!(names, expected);
        }
    }

    #[test]
    fn two_providers_with_the_same_cadence_both_deliver(n in 2..10_u32, calls in 20..60_u32) {
        let provider = |name| FeedbackProviderConfig::new(
            StaticFeedback::new(name, "words").unwrap(),
            FeedbackTrigger::every_n_calls(n).unwrap(),
        );
        let template = PromptTemplate::new("a", "b").unwrap()
            .with_feedback_provider(provider("first")).unwrap()
            .with_feedback_provider(provider("second")).unwrap();
        let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
        let text = format!("{calls}x bash ls -> a");
        let messages = replay(&mut engine, &midcourse_core::parse_notation(&text).unwrap());
        let count = |name: &str| messages.iter().filter(|message| message.provider == name).count();
        prop_assert_eq!(count("first"), (calls / n) as usize);
        prop_assert_eq!(count("second"), ((calls - 1) / n) as usize);
    }

    #[test]
    fn the_session_of_a_run_is_bounded(run in random_run(80)) {
        let mut engine = all_providers();
        for mut record in records(&run) {
            // Make names, paths and arguments very long.
            match &mut record.payload {
                TrajectoryPayload::ToolStarted { tool_name, .. }
                | TrajectoryPayload::ToolEnded { tool_name, .. }
                | TrajectoryPayload::Denied { tool_name, .. } => {
                    *tool_name = format!("{}{tool_name}", "x".repeat(10_000)).into();
                }
                TrajectoryPayload::FileCreated { path } => path.insert_str(0, &"y".repeat(10_000)),
                TrajectoryPayload::ConfigApplied { prompt_name: Some(name), .. } => {
                    *name = format!("{name}{}", "z".repeat(10_000)).into();
                }
                TrajectoryPayload::RunEnded { outcome, .. } => {
                    *outcome = RunOutcome::Other("w".repeat(10_000));
                }
                _ => {}
            }
            if let TrajectoryPayload::ToolStarted { args, .. } = &mut record.payload {
                args["path"] = format!("{}{}", "long/".repeat(2_000), args["path"]).into();
                args["more"] = "x".repeat(100_000).into();
            }
            step(&mut engine, &record);
            let size = engine.checkpoint().unwrap().as_bytes().len();
            prop_assert!(size <= 32 * 1024, "{size} bytes");
        }
        let slices = engine.session();
        prop_assert!(slices.slice::<Feedback>().all().count() <= 4);
        prop_assert!(slices.slice::<GuidanceDelivered>().all().count() <= 4);
    }

    #[test]
    fn the_records_of_a_step_follow_its_record_and_name_its_deliveries(run in random_run(30)) {
        let (mut engine, mut seq) = (all_providers(), 0);
        for mut record in records(&run) {
            record.seq = seq;
            let step = engine.step(&record, Some(DecisionPoint::PreToolSelection));
            let seqs: Vec<u64> = step.records.iter().map(|record| record.seq).collect();
            let count = step.outcomes.len() + step.deliveries.len();
            prop_assert_eq!(seqs, (seq + 1..=seq + count as u64).collect::<Vec<_>>());
            seq += 1 + count as u64;
        }
    }
}

#[test]
fn random_runs_lead_to_every_kind_of_message() {
    // The properties above would prove nothing if the random runs caused no messages.
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut messages, mut tools) = (BTreeSet::new(), 0, BTreeSet::new());
    for _ in 0..200 {
        let run = random_run(40).new_tree(&mut runner).unwrap().current();
        for one in replay(&mut all_providers(), &records(&run)) {
            messages += 1;
            let cause = one.why.map_or_else(|| "none".to_owned(), |(cause, _)| cause);
            kinds.insert(cause.split(':').next().unwrap().to_owned());
        }
        tools.extend((0..5).map(tool_name));
    }
    assert!(messages > 1_000, "only {messages} messages");
    for kind in [
        "budget",
        "deadline",
        "doom_loop",
        "error_cascade",
        "monologue",
        "outage",
        "progress_stall",
        "repeated_error",
        "sequential_calls",
        "tool_avoidance",
    ] {
        assert!(kinds.contains(kind), "no message about {kind}: {kinds:?}");
    }
}
