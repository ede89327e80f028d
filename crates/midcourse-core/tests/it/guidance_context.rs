//! What a guidance context shows to classifiers and providers.

use midcourse_core::{
    DecisionPoint, GuidanceContext, Prompt, PromptTemplate, Session, TrajectoryAnalysisConfig,
    parse_notation,
};

#[test]
fn a_guidance_context_shows_the_session_the_prompt_and_the_current_turn() {
    let template = PromptTemplate::new("agent", "main").unwrap();
    let prompt = Prompt::new(template.with_section("task", "Build it.").unwrap());
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
    let records = parse_notation(
        "
        bash make !! error: missing separator
        assistant: I try again.
        bash make install ..
        ",
    );
    for record in records.unwrap() {
        session.apply(&record);
    }
    let now = session.trajectory().latest_at();
    let point = DecisionPoint::PreToolExecution;
    let context = GuidanceContext::new(&session, &prompt, point, now);
    assert!(std::ptr::eq(context.session(), &session));
    assert_eq!((context.prompt().name(), context.decision_point()), ("agent:main", point));
    assert_eq!(context.now(), now);
    assert_eq!((context.turn_count(), context.tool_call_count()), (2, 1));
    assert_eq!(context.trajectory().consecutive_errors(), 1);
    let pending: Vec<_> = context.pending_tool_calls().map(|call| call.tool).collect();
    assert_eq!(pending, ["bash"]);
    assert_eq!(context.last_response(), Some("I try again."));
    assert_eq!(context.rendered_prompt(), None);

    let rendered = prompt.render(&[]).unwrap();
    let context = context.with_rendered_prompt(&rendered).with_last_response("The whole text.");
    assert_eq!(context.rendered_prompt().unwrap().text(), "Build it.");
    assert_eq!(context.last_response(), Some("The whole text."));
}
