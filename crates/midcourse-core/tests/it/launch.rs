//! A run that is continued by another `midcourse run`, which these tests call a new launch. Budgets
//! count from the new launch, and messages that were only recorded before it (shadow mode) are
//! forgotten.

use midcourse_core::{
    Budget, DeliveryPolicy, Engine, FeedbackProviderConfig, FeedbackTrigger, Mode, Prompt,
    PromptTemplate, StaticFeedback, Timestamp, ToolResult, TrajectoryAnalysisConfig,
    TrajectoryPayload, TrajectoryRecord, Usage, parse_notation,
};

use crate::replay::{Message, replay};

/// Parses the notation. A line `prompt launch` becomes the record with which a new launch begins.
fn records(notation: &str) -> Vec<TrajectoryRecord> {
    let mut records = parse_notation(notation).unwrap();
    for record in &mut records {
        if let TrajectoryPayload::ConfigApplied { prompt_name, .. } = &mut record.payload {
            prompt_name.take_if(|name| name == "launch");
        }
    }
    records
}

/// Each message as `N: sentence`: the number of calls before the message, and its first sentence.
fn sentences(messages: &[Message]) -> Vec<String> {
    let sentence = |text: &str| text.lines().find(|line| line.ends_with('.')).map(str::to_owned);
    messages
        .iter()
        .map(|message| format!("{}: {}", message.call, sentence(&message.text).unwrap()))
        .collect()
}

#[test]
fn a_budget_of_calls_counts_from_the_latest_launch() {
    let budget = Budget::default().with_calls(4).unwrap();
    let messages = replay(
        &mut Engine::shipped(budget),
        &records(
            "
            prompt launch
            read a.rs -> the first text, which is long
            read b.rs -> the second text, which is long
            read c.rs -> the third text, which is long
            prompt launch
            read d.rs -> the fourth text, which is long
            read e.rs -> the fifth text, which is long
            prompt other
            read f.rs -> the sixth text, which is long
            read g.rs -> the seventh text, which is long
            ",
        ),
    );
    assert_eq!(
        sentences(&messages),
        [
            "2: You have used 2 of 4 tool calls.",
            "5: You have used 2 of 4 tool calls.",
            "7: You have used the budget of 4 tool calls.",
        ]
    );
}

/// Feeds `payload` and then the end of a call to the engine. Returns the summary of each message
/// that the engine then has: the third line, which follows the heading and an empty line.
fn messages_after(engine: &mut Engine, seq: u64, payload: TrajectoryPayload) -> Vec<String> {
    let at = Timestamp::from_unix_ms(seq);
    engine.step(&TrajectoryRecord::new(seq, at, payload), None);
    let ended = TrajectoryPayload::ToolEnded {
        tool_call_id: format!("c{seq}").into(),
        tool_name: "read".into(),
        result: ToolResult::text(format!("text number {seq}, which is long")),
        is_error: false,
    };
    let messages = replay(engine, &[TrajectoryRecord::new(seq + 1, at, ended)]);
    messages
        .iter()
        .map(|message| message.text.lines().nth(2).unwrap_or_default().to_owned())
        .collect()
}

fn launch(engine: &mut Engine) {
    let record = &records("prompt launch")[0];
    engine.step(record, None);
}

#[test]
fn budgets_of_tokens_and_cost_count_from_the_latest_launch() {
    let budget = Budget::default().with_tokens(1_000).unwrap().with_cost_usd(2.0).unwrap();
    let mut engine = Engine::shipped(budget);
    let tokens = |input_tokens: i64| TrajectoryPayload::UsageReported {
        usage: Usage { input_tokens, ..Usage::default() },
    };
    let cost = |dollars: f64| TrajectoryPayload::CostReported {
        total_micro_usd: dollars.try_into().unwrap(),
    };
    let first = messages_after(&mut engine, 0, tokens(900));
    assert_eq!(first, ["You have used 900 of 1000 tokens."]);
    assert_eq!(messages_after(&mut engine, 2, cost(1.8)), ["You have used 1.80 of 2.00 dollars."]);
    launch(&mut engine);
    assert!(messages_after(&mut engine, 4, tokens(400)).is_empty());
    let second = messages_after(&mut engine, 6, tokens(500));
    assert_eq!(second, ["You have used 900 of 1000 tokens."]);
    assert!(messages_after(&mut engine, 8, cost(2.7)).is_empty());
    assert_eq!(
        messages_after(&mut engine, 10, cost(3.9)),
        ["You have used the budget of 2.00 dollars."]
    );
}

/// Replays a run that is in shadow mode until its first launch record, and live after it. Returns
/// the messages of the two parts.
fn first_in_shadow(engine: impl Fn() -> Engine, notation: &str) -> (Vec<Message>, Vec<Message>) {
    let records = records(notation);
    let is_launch = |record: &TrajectoryRecord| record.payload.kind() == "config_applied";
    let (before, after) = records.split_at(records.iter().position(is_launch).unwrap());
    let mut shadow = engine().with_mode(Mode::Shadow);
    let in_shadow = replay(&mut shadow, before);
    let mut live = engine();
    live.restore(&shadow.checkpoint().unwrap()).unwrap();
    (in_shadow, replay(&mut live, after))
}

const LOOP: &str = "
    deadline 2h
    5x bash make !! error: missing separator
    user: go on
    prompt launch
    3x bash make !! error: missing separator
";

#[test]
fn shadow_deliveries_are_repeated_after_the_next_launch() {
    let shipped = || Engine::shipped(Budget::default());
    let (in_shadow, messages) = first_in_shadow(shipped, LOOP);
    let causes = |messages: &[Message]| -> Vec<(String, u8)> {
        let causes = messages.iter().filter_map(|message| message.why.clone());
        causes.map(|(cause, rung)| (cause.split(':').next().unwrap().to_owned(), rung)).collect()
    };
    // Both parts begin with the first message about each cause: the messages in shadow mode did not
    // reach the agent, so they do not count after the launch.
    let first = [("deadline".to_owned(), 1), ("repeated_error".to_owned(), 1)];
    assert_eq!(causes(&in_shadow), first);
    assert_eq!(causes(&messages), first);
}

#[test]
fn live_deliveries_are_not_repeated_after_the_next_launch() {
    let messages = replay(&mut Engine::shipped(Budget::default()), &records(LOOP));
    let deadlines = messages.iter().filter(|message| message.provider == "Deadline").count();
    assert_eq!(deadlines, 1, "{messages:?}");
    let rungs: Vec<u8> = messages
        .iter()
        .filter_map(|message| {
            message.why.as_ref().filter(|(cause, _)| cause.starts_with("repeated"))
        })
        .map(|(_, rung)| *rung)
        .collect();
    assert_eq!(rungs, [1, 2]);
}

#[test]
fn shadow_deliveries_use_up_no_limit_of_the_next_launch() {
    let engine = || {
        let report = StaticFeedback::new("Report", "The report exists.").unwrap();
        let trigger = FeedbackTrigger::on_file_created("report.md").unwrap();
        let often = StaticFeedback::new("Often", "Three calls.").unwrap();
        let three = FeedbackTrigger::every_n_calls(3).unwrap();
        let template = PromptTemplate::new("a", "b")
            .unwrap()
            .with_delivery(DeliveryPolicy { max_deliveries: Some(2), ..DeliveryPolicy::default() })
            .with_feedback_provider(FeedbackProviderConfig::new(report, trigger))
            .unwrap()
            .with_feedback_provider(FeedbackProviderConfig::new(often, three))
            .unwrap();
        Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default())
    };
    let (in_shadow, messages) = first_in_shadow(
        engine,
        "
        3x bash a -> x
        file report.md
        bash b -> x
        prompt launch
        user: go on
        bash c -> x
        bash d -> x
        5x bash e -> x
        ",
    );
    let providers = |messages: &[Message]| -> Vec<(u64, String)> {
        messages.iter().map(|message| (message.call, message.provider.clone())).collect()
    };
    assert_eq!(providers(&in_shadow), [(3, "Often".to_owned()), (4, "Report".to_owned())]);
    assert_eq!(providers(&messages), [(5, "Report".to_owned()), (6, "Often".to_owned())]);
}
