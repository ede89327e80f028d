//! Agents that offer no tools: their model writes actions as text.

use midcourse::TrajectoryPayload;
use serde_json::{Value, json};

use super::super::{Api, Conversation, ObservedEvent};

fn reply(text: &str) -> super::Reply {
    let choice = json!({"message": {"content": text}, "finish_reason": "stop"});
    let body = json!({"choices": [choice]}).to_string();
    Api::ChatCompletions.parse_response(200, body.as_bytes()).unwrap()
}

fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn apply(conversation: &mut Conversation, messages: &[Value]) -> Vec<ObservedEvent> {
    let body = json!({"model": "m", "messages": messages}).to_string();
    let mut request = Api::ChatCompletions.parse_request(&body).unwrap();
    conversation.apply_request(&mut request, true).events
}

fn described(events: &[ObservedEvent]) -> Vec<String> {
    let describe = |event: &ObservedEvent| match &event.payload {
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => format!("{tool_name} {args}"),
        TrajectoryPayload::ToolEnded { result, .. } => format!("= {}", result.comparable_text()),
        other => other.kind().to_owned(),
    };
    events.iter().map(describe).collect()
}

/// Answers of models and results, as mini-swe-agent, smolagents and gptme write them.
const ACTIONS: [(&str, &str, &str); 4] = [
    (
        "THOUGHT: I look.\n\n```bash\ncat a.txt\n```",
        "<returncode>1</returncode>\n<output>\ncat: a.txt: No such file\n</output>",
        r#"text:bash {"command":"cat a.txt"}"#,
    ),
    (
        "Thought: I compute.\n<code>\nprint(1)\n</code>",
        "Observation:\nExecution logs:\n1\n",
        r#"text:code {"code":"print(1)"}"#,
    ),
    ("```shell\nls\n```", "Ran command: `ls`\n\nNo output", r#"text:shell {"command":"ls"}"#),
    (
        "<execute_bash>ls -a</execute_bash>",
        "[Execution result: exit code 0]",
        r#"text:execute_bash {"command":"ls -a"}"#,
    ),
];

#[test]
fn a_block_and_the_message_after_it_are_a_call_and_its_result() {
    for (said, answer, expected) in ACTIONS {
        let mut conversation = Conversation::default();
        let mut messages = vec![message("user", "the task")];
        assert_eq!(described(&apply(&mut conversation, &messages)), ["message_appended"]);
        // The same action with the same result is another call each time.
        for _ in 0..3 {
            conversation.apply_reply(reply(said));
            messages.extend([message("assistant", said), message("user", answer)]);
            let events = apply(&mut conversation, &messages);
            let result = format!("= {answer}");
            assert_eq!(described(&events), [expected.to_owned(), result], "{said}");
            assert!(events.iter().all(|event| event.is_new_to_model));
            assert_eq!(described(&apply(&mut conversation, &messages)), [""; 0], "sent again");
        }
        // Another process finds the same calls in the history.
        let ids = |events: &[ObservedEvent]| -> Vec<String> {
            let id = |event: &ObservedEvent| match &event.payload {
                TrajectoryPayload::ToolEnded { tool_call_id, .. } => Some(tool_call_id.to_string()),
                _ => None,
            };
            events.iter().filter_map(id).collect()
        };
        let again = ids(&apply(&mut Conversation::default(), &messages));
        assert_eq!(again.len(), 3);
        assert!(again.iter().all(|id| conversation.has_call(id)), "{again:?}");
    }
}

#[test]
fn a_form_that_comes_twice_is_that_of_results() {
    let mut conversation = Conversation::default();
    let said = "```python\nf()\n```";
    let mut messages = vec![message("user", "the task")];
    apply(&mut conversation, &messages);
    let answer = |number: u32| format!("The block did not apply: line {number} differs");
    let mut calls = Vec::new();
    for number in 0..3 {
        conversation.apply_reply(reply(said));
        messages.extend([message("assistant", said), message("user", &answer(number))]);
        let events = described(&apply(&mut conversation, &messages));
        calls.push(events.iter().filter(|event| event.starts_with("= ")).count());
    }
    // The first message of this form is recorded as a message; the second shows what both are.
    assert_eq!(calls, [0, 2, 1]);
}

/// As aider does: it confirms the edit, writes a reply in the model's name, and sends the output of
/// the tests.
#[test]
fn a_result_may_follow_an_exchange_that_the_client_wrote_itself() {
    let mut conversation = Conversation::default();
    let mut messages = vec![message("user", "the task")];
    apply(&mut conversation, &messages);
    let failure = "I ran this command:\n\nmake test\n\nAnd got this output:\n\nmake: Error 2";
    for number in 0..3 {
        let said = format!("```\n<<<<<<< SEARCH\n=======\n{number}\n>>>>>>> REPLACE\n```");
        conversation.apply_reply(reply(&said));
        messages.extend([
            message("assistant", &said),
            message("user", "I updated the files."),
            message("assistant", "Ok."),
            message("user", "I have added these files to the chat: notes.txt"),
            message("assistant", "Ok, any changes I propose will be to those files."),
            message("user", failure),
        ]);
        let reminder = message("system", "Use SEARCH/REPLACE blocks.");
        let with_reminder: Vec<_> = messages.iter().cloned().chain([reminder]).collect();
        let events = described(&apply(&mut conversation, &with_reminder));
        let results: Vec<_> = events.iter().filter(|event| event.starts_with("= ")).collect();
        assert_eq!(results, [&format!("= {failure}")], "{events:?}");
    }
}

#[test]
fn text_between_people_and_models_with_tools_is_only_text() {
    let block = "Use this:\n```bash\nls\n```";
    let started = |body: &Value| {
        let body = body.to_string();
        let mut request = Api::ChatCompletions.parse_request(&body).unwrap();
        let events = Conversation::default().apply_request(&mut request, true).events;
        events.iter().filter(|it| it.payload.kind() == "tool_started").count()
    };
    let chat = json!([
        message("user", "how?"),
        message("assistant", block),
        message("user", "Thanks, and on Windows?")
    ]);
    assert_eq!(started(&json!({"messages": chat})), 0);
    let result = json!([
        message("user", "how?"),
        message("assistant", block),
        message("user", "Output: a b c")
    ]);
    assert_eq!(started(&json!({"messages": result})), 1);
    let tools = json!([{"type": "function", "function": {"name": "sh"}}]);
    assert_eq!(started(&json!({"messages": result, "tools": tools})), 0);
    let no_block = json!([
        message("user", "how?"),
        message("assistant", "No."),
        message("user", "Output: a b c")
    ]);
    assert_eq!(started(&json!({"messages": no_block})), 0);
}
