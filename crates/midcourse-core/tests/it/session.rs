//! Sessions (the engine's state of a run) in special cases: calls are dispatched without records,
//! the host does not report turns, or a checkpoint is restored by an engine with other detectors.

use midcourse_core::{
    Budget, CallId, Cause, Confidence, DecisionPoint, Detection, Engine, Feedback, FeedbackContext,
    FeedbackProviderConfig, FeedbackTrigger, OutcomeVerdict, PatternDetail, PatternDetector,
    Prompt, PromptTemplate, SafeName, Session, StallDetector, Timestamp, ToolInvoked, ToolResult,
    TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern, TrajectoryPayload,
    TrajectoryRecord, collect_feedback, parse_notation,
};
use serde_json::json;

use crate::replay::{shipped, with_free_seqs};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_767_225_600_000 + seconds * 1_000)
}

#[test]
fn feedback_on_dispatched_calls_climbs_the_ladder() {
    let trigger = FeedbackTrigger::every_n_calls(1).unwrap();
    let provider = FeedbackProviderConfig::new(StallDetector, trigger);
    let template = PromptTemplate::new("a", "b").unwrap();
    let prompt = Prompt::new(template.with_feedback_provider(provider).unwrap());
    let mut session = Session::new(TrajectoryAnalysisConfig::shipped(), prompt.name());
    let mut delivered = Vec::new();
    for n in 1..=7 {
        let id = CallId::from(format!("c{n}"));
        let args = json!({"command": "make"});
        session.dispatch(ToolInvoked::new(&id, "bash", &args, "error: x", true, at(n)));
        // Report the same call a second time: it still counts once.
        session.dispatch(ToolInvoked::new(&id, "bash", &args, "error: x", true, at(n)));
        let context = FeedbackContext::new(&session, &prompt, at(n));
        for feedback in collect_feedback(&context).messages {
            delivered.push((
                n,
                feedback.why().unwrap().rung.0,
                feedback.why().unwrap().evidence.len(),
            ));
            session.dispatch(feedback);
        }
    }
    assert_eq!(delivered, [(3, 1, 3), (6, 2, 3)]);
    assert_eq!(session.slice::<ToolInvoked>().total(), 7);
    assert_eq!(session.slice::<Feedback>().total(), 2);
    assert_eq!(session.slice::<ToolInvoked>().latest().unwrap().call_index(), 7);
}

#[test]
fn parallel_calls_are_one_turn_if_the_host_marks_no_turns() {
    let mut engine = Engine::shipped(Budget::default());
    let mut seq = 0;
    let mut step = |engine: &mut Engine, payload| {
        engine.step(&TrajectoryRecord::new(seq, at(seq), payload), None);
        seq += 1;
    };
    let started = |id: &str| TrajectoryPayload::ToolStarted {
        tool_call_id: id.into(),
        tool_name: "bash".into(),
        args: json!({"command": "ls"}),
    };
    let ended = |id: &str| TrajectoryPayload::ToolEnded {
        tool_call_id: id.into(),
        tool_name: "bash".into(),
        result: ToolResult::text("a.txt and b.txt and c.txt"),
        is_error: false,
    };
    for id in ["a", "b", "c", "d"] {
        step(&mut engine, started(id));
    }
    for id in ["a", "b", "c", "d"] {
        step(&mut engine, ended(id));
    }
    assert_eq!(engine.trajectory().turn_count(), 1);
    assert!(engine.trajectory().patterns().is_empty());
    // Calls that run at the same time count as one turn. The end of `lost` is never reported, but
    // the calls after it still count as turns of their own.
    for id in ["lost", "e"] {
        step(&mut engine, started(id));
    }
    step(&mut engine, ended("e"));
    for id in ["f", "g"] {
        step(&mut engine, started(id));
        step(&mut engine, ended(id));
    }
    assert_eq!(engine.trajectory().turn_count(), 4);
    assert_eq!(engine.trajectory().pending_tool_calls().count(), 1);
}

/// A detector with the given name that reports a pattern at every call.
struct Always(&'static str);

impl PatternDetector for Always {
    fn name(&self) -> &str {
        self.0
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        if trajectory.call_just_ended().is_none() {
            return Detection::Unchanged;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Custom { name: SafeName::of(self.0), subject: None },
            Confidence::HALF,
            Cause::only(self.0),
            1,
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

#[test]
fn restoring_without_a_detector_removes_its_pattern() {
    let mut both = Engine::shipped(Budget::default())
        .with_detector(Always("first"))
        .with_detector(Always("second"));
    let records = parse_notation("bash a -> b\nbash c -> d").unwrap();
    let (before, after) = records.split_at(3);
    before.iter().for_each(|record| drop(both.step(record, None)));
    let names = |engine: &Engine| -> Vec<String> {
        let patterns = engine.trajectory().patterns().iter();
        patterns.map(|pattern| pattern.pattern_type().as_str().to_owned()).collect()
    };
    assert_eq!(names(&both), ["first", "second"]);
    let saved = both.checkpoint().unwrap();
    let mut one = Engine::shipped(Budget::default()).with_detector(Always("second"));
    one.restore(&saved).unwrap();
    assert!(names(&one).is_empty());
    after.iter().for_each(|record| drop(one.step(record, None)));
    assert_eq!(names(&one), ["second"]);
}

#[test]
fn a_message_of_the_user_ends_all_patterns() {
    let mut engine = Engine::shipped(Budget::default());
    let looping = "4x bash make !! error: missing separator";
    for record in parse_notation(&format!("{looping}\nuser: try the other Makefile")).unwrap() {
        engine.step(&record, None);
        let trajectory = engine.trajectory();
        let is_loop = trajectory.tool_call_count() >= 3 && !trajectory.user_just_spoke();
        assert_eq!(!trajectory.patterns().is_empty(), is_loop);
    }
}

#[test]
fn an_outage_gives_one_message_about_the_outage() {
    let messages = shipped("5x bash curl x !! HTTP status 503: service unavailable");
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(messages.starts_with("call 3: 3 calls could not reach a service"), "{messages}");
}

#[test]
fn messages_about_a_monologue_are_paced_by_responses() {
    let messages = shipped("8x assistant: Let me try again.");
    let texts: Vec<&str> = messages.lines().map(|line| line.split_at(8).1).collect();
    assert_eq!(
        texts,
        [
            "Your last 3 responses said nearly the same. Say it once, and then act: make a tool call or \
             give your final answer.",
            "Your last 6 responses said nearly the same. If something keeps you from acting, say what it \
             is; if not, make one tool call now.",
        ]
    );
}

#[test]
fn an_outcome_says_whether_the_problem_went_away() {
    let verdicts = |notation: &str| {
        let mut engine = Engine::shipped(Budget::default());
        let mut verdicts = Vec::new();
        for record in parse_notation(notation).unwrap() {
            let step = engine.step(&with_free_seqs(&record), Some(DecisionPoint::PreToolSelection));
            verdicts.extend(step.outcomes.iter().map(|outcome| outcome.verdict));
        }
        verdicts
    };
    let looping = "3x bash ls -> a.txt and b.txt and c.txt\n";
    let other = "read b.rs -> another text that is quite long";
    assert_eq!(verdicts(&format!("{looping}{other}")), [OutcomeVerdict::Cleared]);
    assert_eq!(verdicts(&format!("{looping}{looping}{looping}")), [OutcomeVerdict::Ignored,]);
    assert_eq!(verdicts(&format!("{looping}end completed")), [OutcomeVerdict::RunEnded]);
}
