//! What holds for every run there can be.

use std::collections::{BTreeMap, BTreeSet};

use midcourse_core::{
    Budget, ConsultationPromptProvider, DecisionPoint, DiagnosticSignalProvider, DoomLoopDetector,
    DriftDetector, Engine, ErrorCascadeDetector, Feedback, FeedbackProviderConfig, FeedbackTrigger,
    GuidanceDelivered, GuidanceProviderConfig, MAX_FEEDBACK_CHARS, Mode, ParallelToolReminder,
    Prompt, PromptTemplate, RunOutcome, StallDetector, StaticFeedback, Timestamp, ToolInvoked,
    TrajectoryAnalysisConfig, TrajectoryPattern, TrajectoryPayload, TrajectoryRecord, WindowSize,
};
use proptest::prelude::*;

use crate::model::{Counts, HOSTILE, Happening, count, happenings, records, tool_name};
use crate::replay::{Said, replay, step, with_free_seqs};

/// Everything there is, all at once: many voices about the same causes.
fn everybody() -> Engine {
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

fn is_terms(record: &TrajectoryRecord) -> bool {
    matches!(record.payload, TrajectoryPayload::ConfigApplied { prompt_name: None, .. })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_prefix_is_told_the_same_things(run in happenings(40), part in any::<prop::sample::Index>()) {
        let records = records(&run);
        let whole = replay(&mut everybody(), &records);
        let begun = replay(&mut everybody(), &records[..part.index(records.len() + 1)]);
        prop_assert_eq!(&whole[..begun.len()], &begun[..]);
    }

    #[test]
    fn a_checkpoint_anywhere_changes_nothing(
        run in happenings(30),
        every in 1..7_usize,
        mode in modes(),
    ) {
        let records = records(&run);
        let everybody = || everybody().with_mode(mode);
        let (mut straight, mut resumed) = (everybody(), everybody());
        for (index, record) in records.iter().enumerate() {
            // As hooks do it: each step in a process of its own.
            if index % every == 0 {
                let saved = resumed.checkpoint().unwrap();
                resumed = everybody();
                resumed.restore(&saved).unwrap();
            }
            prop_assert_eq!(step(&mut straight, record), step(&mut resumed, record));
        }
        prop_assert_eq!(straight.checkpoint().unwrap(), resumed.checkpoint().unwrap());
    }

    #[test]
    fn a_checkpoint_is_what_the_records_fold_to(run in happenings(30), mode in modes()) {
        // Live, with the deliveries recorded among the facts.
        let (mut live, mut stored) = (everybody().with_mode(mode), Vec::new());
        for mut record in records(&run) {
            record.seq = stored.len() as u64;
            let step = live.step(&record, Some(DecisionPoint::PostToolResult));
            stored.push(record);
            stored.extend(step.records);
        }
        // Once more from what was stored, by way of its JSON.
        let mut folded = everybody();
        for record in &stored {
            let json = serde_json::to_string(record).unwrap();
            let read: TrajectoryRecord = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(record, &read);
            prop_assert!(folded.step(&read, None).deliveries.is_empty());
        }
        prop_assert_eq!(live.checkpoint().unwrap(), folded.checkpoint().unwrap());
    }

    #[test]
    fn under_the_same_terms_shadow_says_what_live_says(run in happenings(30)) {
        let mut records = records(&run);
        records.retain(|record| !is_terms(record));
        let shadow = replay(&mut everybody().with_mode(Mode::Shadow), &records);
        prop_assert_eq!(replay(&mut everybody(), &records), shadow);
    }

    #[test]
    fn what_a_shadow_said_changes_nothing_under_the_next_terms(
        run in happenings(30),
        next in happenings(30),
    ) {
        // The floor is given up first: behind a shadow's word there is no second one.
        let run = [run, vec![(1, Happening::Resume)]].concat();
        let whole = records(&[run.clone(), vec![(1, Happening::Terms)], next].concat());
        let (before, after) = whole.split_at(records(&run).len());
        let mut shadow = everybody().with_mode(Mode::Shadow);
        replay(&mut shadow, before);
        let mut silent = everybody();
        before.iter().for_each(|record| drop(silent.step(&with_free_seqs(record), None)));
        let mut live = everybody();
        live.restore(&shadow.checkpoint().unwrap()).unwrap();
        prop_assert_eq!(replay(&mut silent, after), replay(&mut live, after));
    }

    #[test]
    fn no_text_exceeds_its_cap_or_carries_an_attackers_words(run in happenings(40)) {
        for said in replay(&mut everybody(), &records(&run)) {
            prop_assert!(said.text.chars().count() <= MAX_FEEDBACK_CHARS);
            if !said.text.starts_with('[') {
                prop_assert!((1..=500).contains(&said.text.chars().count()));
            }
            // The restricted form of a name is the most that gets through, and no sentence fits.
            prop_assert!(!said.text.contains(HOSTILE), "{}", said.text);
        }
    }

    #[test]
    fn one_cause_is_never_told_twice_in_the_same_words(run in happenings(60)) {
        let mut told: BTreeSet<(String, String)> = BTreeSet::new();
        for said in replay(&mut everybody(), &records(&run)) {
            if let Some((cause, _)) = said.why {
                prop_assert!(told.insert((cause.clone(), said.text.clone())), "{cause}: {}", said.text);
            }
        }
    }

    #[test]
    fn a_ladder_only_goes_up(run in happenings(60)) {
        let mut rungs: BTreeMap<String, u8> = BTreeMap::new();
        for said in replay(&mut everybody(), &records(&run)) {
            let Some((cause, rung)) = said.why else { continue };
            let before = rungs.insert(cause.clone(), rung).unwrap_or(0);
            prop_assert!(rung > before, "{cause} went from {before} to {rung}");
        }
    }

    #[test]
    fn nothing_is_said_about_calls_before_the_third(run in happenings(10)) {
        for said in replay(&mut everybody(), &records(&run)) {
            let cause = said.why.as_ref().map_or("", |(cause, _)| cause);
            let about_calls = !["deadline", "budget", "monologue", "tool_avoidance"]
                .iter()
                .any(|kind| cause.starts_with(kind));
            prop_assert!(said.call >= 3 || !about_calls, "{said:?}");
        }
    }

    #[test]
    fn counts_are_those_of_a_model_that_remembers_everything(
        run in happenings(60),
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
    fn the_window_holds_the_latest_calls(run in happenings(60), window in 1..60_usize) {
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
                    return Err(TestCaseError::fail("something else counted as a call"));
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
        run in happenings(60),
        calls in prop::collection::vec(1..6_u32, 1..4),
        seconds in prop::option::of(1..300_u32),
    ) {
        // A model that remembers every word: the first provider in order that is due speaks.
        let mut template = PromptTemplate::new("a", "b").unwrap();
        for (index, n) in calls.iter().enumerate() {
            let mut trigger = FeedbackTrigger::every_n_calls(*n).unwrap();
            if let (0, Some(seconds)) = (index, seconds) {
                trigger = trigger.or(FeedbackTrigger::every_n_seconds(f64::from(seconds)).unwrap());
            }
            // A name that is rendered without its brackets is still one provider.
            let fixed = StaticFeedback::new(&format!("[p {index}]"), "words").unwrap();
            template = template.with_feedback_provider(FeedbackProviderConfig::new(fixed, trigger)).unwrap();
        }
        let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
        // Records that switch the prompt would scope the cadence; here there is one prompt.
        let records: Vec<_> = records(&run)
            .into_iter()
            .filter(|r| !matches!(r.payload, TrajectoryPayload::ConfigApplied { .. }))
            .collect();
        let mut spoke: BTreeMap<usize, (u64, Timestamp)> = BTreeMap::new();
        let mut has_floor = false;
        for record in &records {
            let before = engine.trajectory().tool_call_count();
            let said = step(&mut engine, record);
            let count = engine.trajectory().tool_call_count();
            let mut expected = None;
            // There is one time to speak behind a call, until something new begins.
            has_floor = count > before
                || (has_floor
                    && !matches!(
                        record.payload,
                        TrajectoryPayload::ToolStarted { .. }
                            | TrajectoryPayload::TurnStarted
                            | TrajectoryPayload::MessageAppended { .. }
                            | TrajectoryPayload::Resumed
                            | TrajectoryPayload::RunEnded { .. }
                    ));
            if has_floor {
                expected = (0..calls.len()).find(|index| {
                    let last = spoke.get(index);
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
                    // A clock that stepped back does not make a later word an earlier one.
                    has_floor = false;
                    let before = spoke.get(&index).map_or(record.at(), |(_, at)| *at);
                    spoke.insert(index, (count, record.at().max(before)));
                }
            }
            let names: Vec<String> = said.iter().map(|said: &Said| said.provider.clone()).collect();
            let expected: Vec<String> = expected.iter().map(|index| format!("p {index}")).collect();
            prop_assert_eq!(names, expected);
        }
    }

    #[test]
    fn two_providers_with_the_same_cadence_both_get_to_speak(n in 2..10_u32, calls in 20..60_u32) {
        let provider = |name| FeedbackProviderConfig::new(
            StaticFeedback::new(name, "words").unwrap(),
            FeedbackTrigger::every_n_calls(n).unwrap(),
        );
        let template = PromptTemplate::new("a", "b").unwrap()
            .with_feedback_provider(provider("first")).unwrap()
            .with_feedback_provider(provider("second")).unwrap();
        let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
        let text = format!("{calls}x bash ls -> a");
        let said = replay(&mut engine, &midcourse_core::parse_notation(&text).unwrap());
        let count = |name: &str| said.iter().filter(|said| said.provider == name).count();
        prop_assert_eq!(count("first"), (calls / n) as usize);
        prop_assert_eq!(count("second"), ((calls - 1) / n) as usize);
    }

    #[test]
    fn what_is_kept_of_a_run_is_bounded(run in happenings(80)) {
        let mut engine = everybody();
        for mut record in records(&run) {
            // Everything as long as it can be.
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
    fn the_records_of_a_step_follow_its_record_and_name_its_deliveries(run in happenings(30)) {
        let (mut engine, mut seq) = (everybody(), 0);
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
fn the_random_runs_are_worth_it() {
    // Were the generator to stop making trouble, the properties above would prove nothing.
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut said, mut tools) = (BTreeSet::new(), 0, BTreeSet::new());
    for _ in 0..200 {
        let run = happenings(40).new_tree(&mut runner).unwrap().current();
        for one in replay(&mut everybody(), &records(&run)) {
            said += 1;
            let cause = one.why.map_or_else(|| "none".to_owned(), |(cause, _)| cause);
            kinds.insert(cause.split(':').next().unwrap().to_owned());
        }
        tools.extend((0..5).map(tool_name));
    }
    assert!(said > 1_000, "only {said} words");
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
        assert!(kinds.contains(kind), "{kind} never came up: {kinds:?}");
    }
}
