//! Several prompts in one run: counts, history and triggers are kept per prompt, and the engine
//! switches to the prompt that a record names.

use midcourse_core::{
    DecisionPoint, Delivery, Engine, Feedback, FeedbackContext, FeedbackProviderConfig,
    FeedbackTrigger, Prompt, PromptTemplate, Session, StaticFeedback, Timestamp, ToolInvoked,
    TrajectoryAnalysisConfig, TrajectoryRecord, parse_notation,
};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

/// A prompt whose only provider delivers the same text after every second call.
fn prompt(key: &str, provider: &str) -> Prompt {
    let fixed = StaticFeedback::new(provider, "Text.").unwrap();
    let trigger = FeedbackTrigger::every_n_calls(2).unwrap();
    let template = PromptTemplate::new("agent", key).unwrap();
    let config = FeedbackProviderConfig::new(fixed, trigger);
    Prompt::new(template.with_feedback_provider(config).unwrap())
}

fn call(session: &mut Session, n: u64) {
    let id = format!("c{n}").into();
    session.dispatch(ToolInvoked::new(&id, "bash", &json!({"n": n}), "ok", false, NOW));
}

#[test]
fn counts_and_history_are_those_of_the_prompt_in_the_context() {
    let (first, second) = (prompt("first", "A"), prompt("second", "B"));
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), first.name());
    (0..3).for_each(|n| call(&mut session, n));
    session.dispatch(Feedback::new("A", "On the first prompt."));
    session.set_prompt(second.name());
    (3..5).for_each(|n| call(&mut session, n));
    assert_eq!(session.prompt_name(), "agent:second");

    let on_first = FeedbackContext::new(&session, &first, NOW);
    assert_eq!((on_first.tool_call_count(), on_first.recent_tool_calls(9).len()), (3, 3));
    assert_eq!(on_first.last_feedback().unwrap().summary(), "On the first prompt.");
    assert_eq!(on_first.tool_calls_since_last_feedback(), 0);
    let on_second = FeedbackContext::new(&session, &second, NOW);
    assert_eq!((on_second.tool_call_count(), on_second.recent_tool_calls(9).len()), (2, 2));
    assert_eq!(on_second.last_feedback(), None);
    assert_eq!(on_second.tool_calls_since_last_feedback(), 2);
}

#[test]
fn feedback_that_was_collected_for_another_prompt_counts_for_that_prompt() {
    let (first, second) = (prompt("first", "A"), prompt("second", "A"));
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), first.name());
    (0..2).for_each(|n| call(&mut session, n));
    session.set_prompt(second.name());
    let collected = midcourse_core::collect_feedback(&FeedbackContext::new(&session, &first, NOW));
    assert_eq!(collected.messages[0].prompt_name(), "agent:first");
    collected.dispatch_to(&mut session);
    assert_eq!(session.slice::<Feedback>().total(), 0);
    assert_eq!(session.slice_of_prompt::<Feedback>(first.name()).total(), 1);
}

#[test]
fn the_latest_feedback_of_a_prompt_is_kept_however_much_another_prompt_gets() {
    let (first, second) = (prompt("first", "A"), prompt("second", "B"));
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), first.name());
    session.dispatch(Feedback::new("A", "On the first prompt."));
    session.set_prompt(second.name());
    for n in 0..20 {
        session.dispatch(Feedback::new("B", format!("Number {n}.")));
    }
    let on_first = FeedbackContext::new(&session, &first, NOW);
    assert_eq!(on_first.last_feedback().unwrap().summary(), "On the first prompt.");
    assert!(session.slice::<Feedback>().all().count() <= 4);
    assert_eq!(session.slice::<Feedback>().latest().unwrap().summary(), "Number 19.");
}

/// Feeds the records to the engine. Returns, for each delivery, the number of calls before it and
/// the name of the provider.
fn deliveries(engine: &mut Engine, records: &[TrajectoryRecord]) -> Vec<(u64, String)> {
    let mut deliveries = Vec::new();
    for record in records {
        let step = engine.step(record, Some(DecisionPoint::PostToolResult));
        let call = engine.trajectory().tool_call_count();
        let provider = |delivery: &Delivery| (call, delivery.provider().to_owned());
        deliveries.extend(step.deliveries.iter().map(provider));
    }
    deliveries
}

fn engine() -> Engine {
    Engine::new(prompt("first", "A"), TrajectoryAnalysisConfig::default())
}

const SWITCHES: &str = "
    3x bash a -> x
    prompt agent:second
    2x bash a -> x
    prompt agent:first
    bash a -> x
";

fn expected(second: &str) -> Vec<(u64, String)> {
    [(2, "A"), (5, second), (6, "A")].map(|(call, name)| (call, name.to_owned())).to_vec()
}

#[test]
fn an_engine_switches_to_the_prompt_that_a_record_names() {
    let records = parse_notation(SWITCHES).unwrap();
    let mut both = engine().with_prompt(prompt("second", "B"));
    assert_eq!(deliveries(&mut both, &records), expected("B"));
    assert_eq!(both.prompt().name(), "agent:first");
    // This engine has no prompt `agent:second`. It keeps the provider A of `agent:first`, but the
    // trigger counts the calls of each prompt name separately.
    assert_eq!(deliveries(&mut engine(), &records), expected("A"));
}

#[test]
fn an_engine_is_on_the_prompt_of_the_checkpoint_that_it_restores() {
    let records = parse_notation(SWITCHES).unwrap();
    let engine = || engine().with_prompt(prompt("second", "B"));
    let mut delivered = Vec::new();
    let mut current = engine();
    for record in &records {
        let checkpoint = current.checkpoint().unwrap();
        current = engine();
        current.restore(&checkpoint).unwrap();
        delivered.extend(deliveries(&mut current, std::slice::from_ref(record)));
    }
    assert_eq!(delivered, expected("B"));
}

#[test]
fn the_prompt_of_an_engine_can_be_set() {
    let mut engine = engine();
    let records = parse_notation("3x bash a -> x").unwrap();
    assert_eq!(deliveries(&mut engine, &records), [(2, "A".to_owned())]);
    engine.set_prompt(prompt("second", "B"));
    assert_eq!(
        (engine.prompt().name(), engine.session().prompt_name()),
        ("agent:second", "agent:second")
    );
    let more = parse_notation("5x bash a -> x").unwrap();
    let after = more.into_iter().filter(|record| record.seq > records.last().unwrap().seq);
    assert_eq!(deliveries(&mut engine, &after.collect::<Vec<_>>()), [(5, "B".to_owned())]);
}
