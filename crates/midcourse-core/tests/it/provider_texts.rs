//! The exact texts of the built-in providers, and when the agent gets them.

use std::collections::BTreeSet;

use midcourse_core::{
    Budget, ConsultationPromptProvider, DeadlineFeedback, DeadlineObserver, DecisionPoint,
    DiagnosticSignalProvider, DoomLoopDetector, DriftDetector, Engine, ErrorCascadeDetector,
    FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger, GuidanceProvider,
    GuidanceProviderConfig, InjectionPosition, ObserverConfig, ObserverContext, ObserverTrigger,
    ParallelToolReminder, Prompt, PromptTemplate, Session, StallDetector, StaticFeedback,
    Timestamp, ToolInvoked, TrajectoryAnalysisConfig, TrajectoryPayload, TrajectoryRecord,
    parse_notation, run_observers,
};
use serde_json::json;

use crate::replay::replay;

fn template() -> PromptTemplate {
    PromptTemplate::new("agent", "main").unwrap()
}

/// The message of the deadline observer if this many seconds are left until the deadline.
fn deadline_assessment(seconds_left: f64) -> String {
    let start = Timestamp::from_unix_ms(1_000_000);
    let left = std::time::Duration::from_secs_f64(seconds_left);
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), "agent:main");
    session.apply(&TrajectoryRecord::new(
        0,
        start,
        TrajectoryPayload::DeadlineSet { at_unix_ms: Some(start.after(left)) },
    ));
    let call = ToolInvoked::new(&"c1".into(), "bash", &json!({"command": "ls"}), "", false, start);
    session.dispatch(call);
    let trigger = ObserverTrigger::every_n_seconds(30.0).unwrap();
    let observer = ObserverConfig::new(DeadlineObserver::default(), trigger);
    let prompt = Prompt::new(template().with_observer(observer).unwrap());
    let assessments =
        run_observers(prompt.observers(), &ObserverContext::new(&session, &prompt, start));
    assessments.text().unwrap()
}

#[test]
fn the_deadline_observer_reports_the_remaining_time() {
    assert_eq!(
        deadline_assessment(480.0),
        "[Trajectory Assessment - Deadline]\n\nYou have 8 minutes remaining."
    );
    assert_eq!(
        deadline_assessment(90.0),
        "[Trajectory Assessment - Deadline]\n\n\
         You have 90 seconds remaining.\n\n\
         → Prioritize completing critical remaining work.\n\
         → Consider summarizing progress and remaining tasks."
    );
    assert_eq!(
        deadline_assessment(0.0),
        "[Trajectory Assessment - Deadline]\n\n\
         You have reached the time deadline.\n\n\
         → Wrap up immediately."
    );
    assert!(deadline_assessment(1.0).contains("You have 1 second remaining."));
}

/// The feedback of one provider during a run, each as `call N: text`, where N is the number of
/// calls so far.
fn feedback_on(
    provider: impl FeedbackProvider + 'static,
    trigger: FeedbackTrigger,
    config: TrajectoryAnalysisConfig,
    notation: &str,
) -> Vec<String> {
    let template =
        template().with_feedback_provider(FeedbackProviderConfig::new(provider, trigger)).unwrap();
    let mut engine = Engine::new(Prompt::new(template), config);
    let messages = replay(&mut engine, &parse_notation(notation).unwrap());
    messages.iter().map(|message| format!("call {}: {}", message.call, message.text)).collect()
}

fn every_call() -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(1).unwrap()
}

#[test]
fn feedback_about_the_deadline_is_repeated_only_with_a_new_text() {
    let half_minute = FeedbackTrigger::every_n_seconds(30.0).unwrap();
    let messages = feedback_on(
        DeadlineFeedback::new(120.0).unwrap(),
        half_minute,
        TrajectoryAnalysisConfig::default(),
        "deadline 9m\n+20s bash a -> x\n+20s bash b -> x\n+20s bash c -> x",
    );
    assert_eq!(
        messages,
        // No message at the second call: 30 seconds have not passed since the first. No message at
        // the third: it would have the same text as the first.
        ["call 1: [Feedback - Deadline]\n\nYou have 8 minutes remaining."]
    );
}

#[test]
fn a_fixed_text_is_delivered_once_for_each_new_file() {
    let messages = feedback_on(
        StaticFeedback::new("Report", "The report exists. Please check its numbers.").unwrap(),
        FeedbackTrigger::on_file_created("report.md").unwrap(),
        TrajectoryAnalysisConfig::default(),
        "
        bash a -> x
        file notes.md
        bash b -> x
        file out/report.md
        bash c -> x
        bash d -> x
        file out/report.md
        bash e -> x
        file other/report.md
        bash f -> x
        ",
    );
    let text = "[Feedback - Report]\n\nThe report exists. Please check its numbers.";
    // The feedback comes at once when the file is created, with the number of the latest call. The
    // second `file out/report.md` is not a new file.
    assert_eq!(messages, [format!("call 2: {text}"), format!("call 5: {text}")]);
}

#[test]
fn the_detectors_of_the_observers_seed_report_stalls_failures_and_drift() {
    let stall = feedback_on(
        StallDetector,
        every_call(),
        TrajectoryAnalysisConfig::shipped(),
        "4x bash ls -> a.txt and b.txt and c.txt",
    );
    assert_eq!(
        stall,
        ["call 3: [Feedback - StallDetector]\n\n\
          You have made 2 tool calls without visible progress.\n\n\
          • Repetition: the same call 3 times, with the same result\n\n\
          → Consider a different approach to the current step."]
    );
    let cascade = feedback_on(
        ErrorCascadeDetector::default(),
        every_call(),
        TrajectoryAnalysisConfig::default(),
        "bash a !! error: one\nread b !! error: two\nbash c !! Permission denied",
    );
    assert_eq!(
        cascade,
        ["call 3: [Feedback - ErrorCascadeDetector]\n\n\
          The last 3 tool calls failed.\n\n\
          • Errors: the latest is a permission error\n\n\
          → Read the latest error in full before the next attempt."]
    );
    let far: String = (0..18)
        .map(|n| {
            format!("read {}/f{n} -> text {n} of this file\n", if n < 10 { "src" } else { "doc" })
        })
        .collect();
    let drift = feedback_on(
        DriftDetector,
        every_call(),
        TrajectoryAnalysisConfig { watch_drift: true, ..TrajectoryAnalysisConfig::shipped() },
        &far,
    );
    assert_eq!(
        drift,
        ["call 18: [Feedback - DriftDetector]\n\n\
          Your last 8 calls on files were in directories that this run did not start in.\n\n\
          → Check whether these files belong to the original request."]
    );
}

#[test]
fn a_budget_is_reported_at_50_80_95_and_100_percent() {
    let goals = Budget::default().with_calls(20).unwrap();
    let calls: String =
        (0..22).map(|n| format!("read f{n}.rs -> the text of file {n}, long\n")).collect();
    let messages = replay(&mut Engine::shipped(goals), &parse_notation(&calls).unwrap());
    let summary = |message: &crate::replay::Message| {
        format!("{}: {}", message.call, message.text.lines().nth(2).unwrap_or_default())
    };
    assert_eq!(
        messages.iter().map(summary).collect::<Vec<_>>(),
        [
            "10: You have used 10 of 20 tool calls.",
            "16: You have used 16 of 20 tool calls.",
            "19: You have used 19 of 20 tool calls.",
            "20: You have used the budget of 20 tool calls.",
        ]
    );
}

/// The guidance of one provider during a run, each as `call N: text`, where N is the number of
/// calls so far.
fn guidance_on(provider: impl GuidanceProvider + 'static, notation: &str) -> Vec<String> {
    let template =
        template().with_guidance_provider(GuidanceProviderConfig::new(provider)).unwrap();
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
    let messages = replay(&mut engine, &parse_notation(notation).unwrap());
    messages.iter().map(|message| format!("call {}: {}", message.call, message.text)).collect()
}

#[test]
fn three_consecutive_errors_bring_the_diagnostic_signal() {
    let three = "bash a !! error: one\nbash b !! error: two\nbash c !! error: three";
    assert_eq!(
        guidance_on(
            DiagnosticSignalProvider::new(3).unwrap().with_log_tool_name("view_logs"),
            three
        ),
        [
            "call 3: Found 3 new console errors. Use the view_logs tool to examine before continuing."
        ]
    );
    // This provider is not configured with a tool. Its text names a tool for reading errors only if
    // the agent has used that tool in the run.
    assert_eq!(
        guidance_on(DiagnosticSignalProvider::default(), three),
        ["call 3: Found 3 new console errors. Examine them before continuing."]
    );
    assert_eq!(
        guidance_on(
            DiagnosticSignalProvider::default(),
            &format!("view_logs -> all quiet\n{three}")
        ),
        [
            "call 4: Found 3 new console errors. Use the view_logs tool to examine before continuing."
        ]
    );
}

#[test]
fn three_rounds_of_a_cycle_bring_the_doom_loop_message() {
    let text = "Detected repeated unsuccessful pattern. Consider a different approach or consult \
                the planning tool to reassess strategy.";
    let cycle = "3x {\nread a -> the text of file a\nread b -> the text of file b\n}";
    assert_eq!(guidance_on(DoomLoopDetector::default(), cycle), [format!("call 6: {text}")]);
    // By default a cycle has at least two calls. The same call six times is a cycle of two equal
    // calls that occurs three times.
    let single = "6x read a -> the text of file a";
    assert_eq!(guidance_on(DoomLoopDetector::default(), single), [format!("call 6: {text}")]);
}

#[test]
fn five_consecutive_failures_bring_the_consultation_prompt() {
    let five: String = (0..5).map(|n| format!("bash a{n} !! error: number {n}\n")).collect();
    let provider =
        ConsultationPromptProvider::new(5).unwrap().with_consultation_tool("request_review");
    assert_eq!(
        guidance_on(provider, &five),
        ["call 5: Multiple attempts unsuccessful. Consider using request_review to get fresh \
          perspective from specialized agent."]
    );
}

#[test]
fn three_turns_with_a_single_read_bring_the_parallel_reminder() {
    let reads = "read a -> text a\nread b -> text b\nread c -> text c\nread d -> text d";
    let text = "Multiple independent operations detected. Consider executing tools in parallel for \
                efficiency.";
    assert_eq!(guidance_on(ParallelToolReminder::default(), reads), [format!("call 3: {text}")]);
    let together = "read a -> text a\n& read b -> text b\nread c -> text c\n& read d -> text d";
    assert!(guidance_on(ParallelToolReminder::default(), together).is_empty());
}

#[test]
fn all_providers_share_one_ladder_per_cause() {
    let template = template()
        .with_feedback_provider(FeedbackProviderConfig::new(
            ErrorCascadeDetector::default(),
            every_call(),
        ))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(DiagnosticSignalProvider::default()))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(ConsultationPromptProvider::default()))
        .unwrap();
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
    let records = parse_notation("12x bash make !! error: missing separator").unwrap();
    let messages = replay(&mut engine, &records);
    let (causes, rungs): (BTreeSet<String>, Vec<(u64, u8)>) = messages
        .iter()
        .map(|message| (message.call, message.why.clone().unwrap()))
        .map(|(call, (cause, rung))| (cause, (call, rung)))
        .unzip();
    assert_eq!(rungs, [(3, 1), (6, 2), (12, 3)]);
    assert_eq!(causes.len(), 1);
}

#[test]
fn each_decision_point_has_a_name_and_an_injection_position() {
    let positions = DecisionPoint::ALL.map(DecisionPoint::injection_position);
    assert_eq!(
        positions,
        [
            InjectionPosition::RenderContext,
            InjectionPosition::EndOfMessages,
            InjectionPosition::BeforeToolExecution,
            InjectionPosition::EndOfToolResult,
            InjectionPosition::BeforeResponse,
        ]
    );
    let names = DecisionPoint::ALL.map(DecisionPoint::as_str);
    assert_eq!(
        names,
        [
            "pre_render",
            "pre_tool_selection",
            "pre_tool_execution",
            "post_tool_result",
            "pre_response"
        ]
    );
}

#[test]
fn guidance_is_formatted_under_one_heading() {
    let injection = |text: &str| midcourse_core::GuidanceInjection::new("k", text).unwrap();
    let (one, two) = (injection("First."), injection("Second."));
    assert_eq!(midcourse_core::format_guidance([&one, &two]), "[Guidance]\n\nFirst.\n\nSecond.");
    assert_eq!(midcourse_core::format_guidance([]), "");
}

#[test]
fn a_doom_loop_detector_can_need_fewer_repetitions_than_the_analysis() {
    let text = "Detected repeated unsuccessful pattern. Consider a different approach or consult \
                the planning tool to reassess strategy.";
    let cycle = "3x {\nread a -> the text of file a\nread b -> the text of file b\n}";
    let twice = DoomLoopDetector::new(0.85, 5, 2).unwrap();
    assert_eq!(TrajectoryAnalysisConfig::default().cycle_threshold.get(), 3);
    assert_eq!(guidance_on(twice, cycle), [format!("call 4: {text}")]);
    let single = DoomLoopDetector::default().with_shortest_cycle(1).unwrap();
    assert_eq!(guidance_on(single, "3x read a -> the text of file a"), [format!("call 3: {text}")]);
}

#[test]
fn a_later_message_does_not_refer_to_one_that_another_provider_delivered() {
    let diagnostic = GuidanceProviderConfig::new(DiagnosticSignalProvider::new(3).unwrap());
    let doom_loop = DoomLoopDetector::default().with_window_size(5).unwrap();
    let template = template()
        .with_guidance_provider(diagnostic.with_max_per_turn(1).unwrap())
        .unwrap()
        .with_guidance_provider(
            GuidanceProviderConfig::new(doom_loop).with_min_confidence(0.7).unwrap(),
        )
        .unwrap();
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
    let records = parse_notation("10x bash make !! error: missing separator").unwrap();
    let messages = replay(&mut engine, &records);
    let texts: Vec<_> = messages.iter().map(|message| (message.call, &*message.text)).collect();
    assert_eq!(
        texts,
        [
            (3, "Found 3 new console errors. Examine them before continuing."),
            (
                6,
                "You keep making the same calls with the same results. List what you tried, what \
                 each attempt showed, and what you have not checked yet."
            ),
        ]
    );
}
