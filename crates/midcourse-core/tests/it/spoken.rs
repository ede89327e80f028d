//! What is said, to the byte.

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

/// What one observer says with this many seconds left.
fn observed(seconds_left: f64) -> String {
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
fn the_time_that_is_left() {
    assert_eq!(
        observed(480.0),
        "[Trajectory Assessment - Deadline]\n\nYou have 8 minutes remaining."
    );
    assert_eq!(
        observed(90.0),
        "[Trajectory Assessment - Deadline]\n\n\
         You have 90 seconds remaining.\n\n\
         → Prioritize completing critical remaining work.\n\
         → Consider summarizing progress and remaining tasks."
    );
    assert_eq!(
        observed(0.0),
        "[Trajectory Assessment - Deadline]\n\n\
         You have reached the time deadline.\n\n\
         → Wrap up immediately."
    );
    assert!(observed(1.0).contains("You have 1 second remaining."));
}

/// What a feedback provider says about a trajectory, call by call.
fn fed_back(
    provider: impl FeedbackProvider + 'static,
    trigger: FeedbackTrigger,
    config: TrajectoryAnalysisConfig,
    notation: &str,
) -> Vec<String> {
    let template =
        template().with_feedback_provider(FeedbackProviderConfig::new(provider, trigger)).unwrap();
    let mut engine = Engine::new(Prompt::new(template), config);
    let said = replay(&mut engine, &parse_notation(notation).unwrap());
    said.iter().map(|said| format!("call {}: {}", said.call, said.text)).collect()
}

fn every_call() -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(1).unwrap()
}

#[test]
fn feedback_has_its_own_heading() {
    let half_minute = FeedbackTrigger::every_n_seconds(30.0).unwrap();
    let said = fed_back(
        DeadlineFeedback::new(120.0).unwrap(),
        half_minute,
        TrajectoryAnalysisConfig::default(),
        "deadline 9m\n+20s bash a -> x\n+20s bash b -> x\n+20s bash c -> x",
    );
    assert_eq!(
        said,
        [
            "call 1: [Feedback - Deadline]\n\nYou have 8 minutes remaining.",
            // Thirty seconds have not passed at the second call, and at the third the words
            // would be the same as before: eight minutes.
        ]
    );
}

#[test]
fn a_fixed_text_when_a_file_appears() {
    let said = fed_back(
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
    // Right behind the latest call, once for each file.
    assert_eq!(said, [format!("call 2: {text}"), format!("call 5: {text}")]);
}

#[test]
fn another_prompt_has_a_cadence_and_counts_of_its_own() {
    let said = fed_back(
        StaticFeedback::new("Two", "Two calls.").unwrap(),
        FeedbackTrigger::every_n_calls(2).unwrap(),
        TrajectoryAnalysisConfig::default(),
        "3x bash a -> x\nprompt second\n2x bash a -> x\nprompt agent:main\nbash a -> x",
    );
    let calls: Vec<_> = said.iter().map(|said| said.split(':').next().unwrap()).collect();
    // Two on the first prompt, two on the second, and the first one's next after its fourth.
    assert_eq!(calls, ["call 2", "call 5", "call 6"]);
}

#[test]
fn the_detectors_that_give_feedback() {
    let stall = fed_back(
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
    let cascade = fed_back(
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
    let drift = fed_back(
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
fn a_budget_is_told_at_its_steps() {
    let goals = Budget::default().with_calls(20).unwrap();
    let calls: String =
        (0..22).map(|n| format!("read f{n}.rs -> the text of file {n}, long\n")).collect();
    let said = replay(&mut Engine::shipped(goals), &parse_notation(&calls).unwrap());
    let summary = |said: &crate::replay::Said| {
        format!("{}: {}", said.call, said.text.lines().nth(2).unwrap_or_default())
    };
    assert_eq!(
        said.iter().map(summary).collect::<Vec<_>>(),
        [
            "10: You have used 10 of 20 tool calls.",
            "16: You have used 16 of 20 tool calls.",
            "19: You have used 19 of 20 tool calls.",
            "20: You have used the budget of 20 tool calls.",
        ]
    );
}

/// What a guidance provider says about a trajectory.
fn guided(provider: impl GuidanceProvider + 'static, notation: &str) -> Vec<String> {
    let template =
        template().with_guidance_provider(GuidanceProviderConfig::new(provider)).unwrap();
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
    let said = replay(&mut engine, &parse_notation(notation).unwrap());
    said.iter().map(|said| format!("call {}: {}", said.call, said.text)).collect()
}

#[test]
fn errors_in_a_row() {
    let three = "bash a !! error: one\nbash b !! error: two\nbash c !! error: three";
    assert_eq!(
        guided(DiagnosticSignalProvider::new(3).unwrap().with_log_tool_name("view_logs"), three),
        [
            "call 3: Found 3 new console errors. Use the view_logs tool to examine before continuing."
        ]
    );
    // A tool that nobody configured and nobody has is not named.
    assert_eq!(
        guided(DiagnosticSignalProvider::default(), three),
        ["call 3: Found 3 new console errors. Examine them before continuing."]
    );
    assert_eq!(
        guided(DiagnosticSignalProvider::default(), &format!("view_logs -> all quiet\n{three}")),
        [
            "call 4: Found 3 new console errors. Use the view_logs tool to examine before continuing."
        ]
    );
}

#[test]
fn a_circle() {
    let text = "Detected repeated unsuccessful pattern. Consider a different approach or consult \
                the planning tool to reassess strategy.";
    let circle = "3x {\nread a -> the text of file a\nread b -> the text of file b\n}";
    assert_eq!(guided(DoomLoopDetector::default(), circle), [format!("call 6: {text}")]);
    // By default a cycle has two calls or more; one call six times is such a cycle.
    let single = "6x read a -> the text of file a";
    assert_eq!(guided(DoomLoopDetector::default(), single), [format!("call 6: {text}")]);
}

#[test]
fn a_fresh_perspective() {
    let five: String = (0..5).map(|n| format!("bash a{n} !! error: number {n}\n")).collect();
    let provider =
        ConsultationPromptProvider::new(5).unwrap().with_consultation_tool("request_review");
    assert_eq!(
        guided(provider, &five),
        ["call 5: Multiple attempts unsuccessful. Consider using request_review to get fresh \
          perspective from specialized agent."]
    );
}

#[test]
fn one_look_at_a_time() {
    let looks = "read a -> text a\nread b -> text b\nread c -> text c\nread d -> text d";
    let text = "Multiple independent operations detected. Consider executing tools in parallel for \
                efficiency.";
    assert_eq!(guided(ParallelToolReminder::default(), looks), [format!("call 3: {text}")]);
    let together = "read a -> text a\n& read b -> text b\nread c -> text c\n& read d -> text d";
    assert!(guided(ParallelToolReminder::default(), together).is_empty());
}

#[test]
fn whoever_notices_it_a_cause_has_one_ladder() {
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
    let said = replay(&mut engine, &records);
    let rungs: Vec<_> = said.iter().map(|said| (said.call, said.why.clone().unwrap().1)).collect();
    assert_eq!(rungs, [(3, 1), (6, 2), (12, 3)]);
    assert_eq!(
        said.iter()
            .map(|said| said.why.clone().unwrap().0)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        1
    );
}

#[test]
fn where_guidance_goes() {
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
fn guidance_in_words() {
    let piece = |text: &str| midcourse_core::GuidanceInjection::new("k", text).unwrap();
    let (one, two) = (piece("First."), piece("Second."));
    assert_eq!(midcourse_core::format_guidance([&one, &two]), "[Guidance]\n\nFirst.\n\nSecond.");
    assert_eq!(midcourse_core::format_guidance([]), "");
}
