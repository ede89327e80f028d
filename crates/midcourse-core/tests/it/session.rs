//! Sessions: fed by calls instead of records, by hosts that mark no turns, and with detectors that
//! come and go.

use midcourse_core::{
    Budget, CallId, Cause, Confidence, DecisionPoint, Detection, Engine, Feedback, FeedbackContext,
    FeedbackPolicy, FeedbackProviderConfig, FeedbackTrigger, OutcomeVerdict, PatternDetail,
    PatternDetector, Prompt, PromptTemplate, SafeName, Session, StallDetector, Timestamp,
    ToolInvoked, ToolResult, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern,
    TrajectoryPayload, TrajectoryRecord, collect_feedback, parse_notation,
};
use serde_json::json;

use crate::replay::{shipped, with_free_seqs};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_767_225_600_000 + seconds * 1_000)
}

#[test]
fn a_session_fed_by_calls_climbs_its_ladder_too() {
    let trigger = FeedbackTrigger::every_n_calls(1).unwrap();
    let providers = [FeedbackProviderConfig::new(StallDetector, trigger)];
    let prompt = Prompt::new(PromptTemplate::new("a", "b").unwrap());
    let mut session = Session::new(TrajectoryAnalysisConfig::shipped(), prompt.name());
    let mut told = Vec::new();
    for n in 1..=7 {
        let id = CallId::from(format!("c{n}"));
        let args = json!({"command": "make"});
        session.dispatch(ToolInvoked::new(&id, "bash", &args, "error: x", true, at(n)));
        // The same call reported twice is one call.
        session.dispatch(ToolInvoked::new(&id, "bash", &args, "error: x", true, at(n)));
        let context = FeedbackContext::new(&session, &prompt, at(n));
        for feedback in collect_feedback(&providers, &context, FeedbackPolicy::FirstMatch).said {
            told.push((n, feedback.why().unwrap().rung.0, feedback.why().unwrap().evidence.len()));
            session.dispatch(feedback);
        }
    }
    assert_eq!(told, [(3, 1, 3), (6, 2, 3)]);
    assert_eq!(session.slice::<ToolInvoked>().total(), 7);
    assert_eq!(session.slice::<Feedback>().total(), 2);
    assert_eq!(session.slice::<ToolInvoked>().latest().unwrap().call_index(), 7);
}

#[test]
fn calls_that_run_at_once_are_one_round_where_the_host_marks_none() {
    let mut engine = Engine::shipped(Budget::default());
    let mut seq = 0;
    let mut take = |engine: &mut Engine, payload| {
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
        take(&mut engine, started(id));
    }
    for id in ["a", "b", "c", "d"] {
        take(&mut engine, ended(id));
    }
    assert_eq!(engine.trajectory().turn_count(), 1);
    assert!(engine.trajectory().patterns().is_empty());
    // One that never ends does not glue the rest of the run together.
    for id in ["lost", "e"] {
        take(&mut engine, started(id));
    }
    take(&mut engine, ended("e"));
    for id in ["f", "g"] {
        take(&mut engine, started(id));
        take(&mut engine, ended(id));
    }
    assert_eq!(engine.trajectory().turn_count(), 4);
    assert_eq!(engine.trajectory().pending_tool_calls().count(), 1);
}

/// Believes in itself at every call.
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
fn a_detector_that_is_gone_after_a_checkpoint_leaves_no_pattern_behind() {
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
fn a_word_of_the_person_ends_what_was_believed() {
    let mut engine = Engine::shipped(Budget::default());
    let circle = "4x bash make !! error: missing separator";
    for record in parse_notation(&format!("{circle}\nuser: try the other Makefile")).unwrap() {
        engine.step(&record, None);
        let trajectory = engine.trajectory();
        let is_loop = trajectory.tool_call_count() >= 3 && !trajectory.user_just_spoke();
        assert_eq!(!trajectory.patterns().is_empty(), is_loop);
    }
}

#[test]
fn an_outage_is_told_as_an_outage_and_as_nothing_else() {
    let said = shipped("5x bash curl x !! HTTP status 503: service unavailable");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("call 3: 3 calls hit a service"), "{said}");
}

#[test]
fn a_monologue_is_paced_by_answers() {
    let said = shipped("8x assistant: Let me try again.");
    let words: Vec<&str> = said.lines().map(|line| line.split_at(8).1).collect();
    assert_eq!(
        words,
        [
            "Your last 3 responses said the same thing. Take one concrete action, or give a final \
             response with what you know.",
            "You said the same again. If something blocks the next step, name it; that is a useful \
             final response.",
        ]
    );
}

#[test]
fn the_outcome_of_a_word_is_what_follows() {
    let verdicts = |notation: &str| {
        let mut engine = Engine::shipped(Budget::default());
        let mut verdicts = Vec::new();
        for record in parse_notation(notation).unwrap() {
            let step = engine.step(&with_free_seqs(&record), Some(DecisionPoint::PreToolSelection));
            verdicts.extend(step.outcomes.iter().map(|outcome| outcome.verdict));
        }
        verdicts
    };
    let circle = "3x bash ls -> a.txt and b.txt and c.txt\n";
    let other = "read b.rs -> another text that is quite long";
    assert_eq!(verdicts(&format!("{circle}{other}")), [OutcomeVerdict::Cleared]);
    assert_eq!(verdicts(&format!("{circle}{circle}{circle}")), [OutcomeVerdict::Ignored,]);
    assert_eq!(verdicts(&format!("{circle}end completed")), [OutcomeVerdict::RunEnded]);
}
