//! How the proxy finds out to which run a model request belongs: agents that run at the same time,
//! subagents, and clients that shorten or edit the history of a conversation.

use midcourse::TrajectoryPayload;
use serde_json::json;

use super::server::{Server, completion};
use super::{Chat, Proxy, kinds};

fn count(run: &[midcourse::TrajectoryRecord], kind: &str) -> usize {
    kinds(run).iter().filter(|known| **known == kind).count()
}

#[test]
fn concurrent_agents_are_separate_runs() {
    let server =
        Server::of_json(|number| completion(None, Some((&format!("call-{number}"), "ls"))));
    let proxy = Proxy::start(&server, "");
    // Both agents have the same task and the same messages; only the ids of their tool calls
    // differ.
    let mut agents = [Chat::new("the same task"), Chat::new("the same task")];
    for turn in 0..4 {
        for (index, agent) in agents.iter_mut().enumerate() {
            if turn > 0 {
                let id = format!("call-{}", (turn - 1) * 2 + index);
                agent.call(&id, "ls", "the same result");
            }
            assert!(proxy.chat(&agent.body()).is_whole);
        }
    }
    let runs = proxy.runs();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!((count(run, "tool_ended"), count(run, "tool_started")), (3, 4));
        assert_eq!(count(run, "provider_request_prepared"), 4);
    }
}

#[test]
fn a_conversation_without_tool_calls_is_one_run() {
    let server = Server::of_json(|number| completion(Some(&format!("reply {number}")), None));
    let proxy = Proxy::start(&server, "");
    let mut messages = vec![json!({"role": "user", "content": "hello"})];
    for turn in 0..3 {
        assert!(proxy.chat(&json!({"model": "m", "messages": messages})).is_whole);
        messages.push(json!({"role": "assistant", "content": format!("reply {turn}")}));
        messages.push(json!({"role": "user", "content": "continue"}));
    }
    // Another conversation that starts with the same message.
    let other = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    assert!(proxy.chat(&other).is_whole);
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "message_appended")).collect();
    assert_eq!(sizes, [6, 2], "three user messages and three replies; one and one");
}

#[test]
fn a_conversation_that_opens_with_a_delegated_task_is_a_child_run() {
    let task = "Find the slowest test in the suite.";
    let server = Server::of_json(move |number| match number {
        0 => {
            let arguments = json!({"prompt": "Find the slowest test in the suite."}).to_string();
            let function = json!({"name": "agent", "arguments": arguments});
            let call = json!({"id": "delegate", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        }
        _ => completion(Some("done"), None),
    });
    let proxy = Proxy::start(&server, "");
    proxy.chat(&Chat::new("Make the test suite fast.").body());
    proxy.chat(&Chat::new(task).body());
    proxy.chat(&Chat::new("Something else entirely.").body());
    let runs = proxy.runs();
    let ids: Vec<_> = runs.iter().map(|run| run[0].run_id.clone()).collect();
    let parents: Vec<_> = runs.iter().map(|run| run[0].parent_run_id.clone()).collect();
    let main = parents.iter().position(Option::is_none).unwrap();
    let children: Vec<_> = parents.iter().flatten().collect();
    assert_eq!(children, [&ids[main].clone().unwrap()], "{parents:?}");
    assert!(ids.iter().flatten().any(|id| id.as_str().ends_with(".delegate")));
}

#[test]
fn claude_code_names_its_session_and_subagents() {
    let server =
        Server::of_json(|_| json!({"type": "message", "content": [], "stop_reason": "end_turn"}));
    let proxy = Proxy::start(&server, "");
    let body = |text: &str, tools: bool| {
        let tools = if tools { json!([{"name": "Bash"}]) } else { json!([]) };
        json!({"model": "m", "messages": [{"role": "user", "content": text}], "tools": tools})
            .to_string()
    };
    let send = |headers: &str, body: &str| {
        let reply =
            proxy.send("POST", "/anthropic/v1/messages?beta=true", headers, body.as_bytes());
        assert!(reply.is_whole);
    };
    let session = "host: x\r\nx-claude-code-session-id: s-1\r\n";
    send(session, &body("suggest a title", false));
    send(session, &body("the task", true));
    send(&format!("{session}x-claude-code-agent-id: a-7\r\n"), &body("a part of it", true));
    send("host: x\r\nx-claude-code-session-id: ../../etc\r\n", &body("an odd one", true));
    let runs = proxy.runs();
    let mut names: Vec<_> = runs
        .iter()
        .map(|run| (run[0].run_id.clone().unwrap().to_string(), run[0].parent_run_id.clone()))
        .collect();
    names.sort();
    assert_eq!(names.len(), 3);
    assert_eq!(names[1], ("s-1".to_owned(), None));
    assert_eq!(names[2], ("s-1.a-7".to_owned(), Some("s-1".into())));
    assert!(!names[0].0.contains('/'), "{names:?}");
    let main = runs.iter().find(|run| run[0].run_id == Some("s-1".into())).unwrap();
    assert_eq!(count(main, "provider_request_prepared"), 2);
    let user_messages = main.iter().filter(|record| {
        matches!(&record.payload, TrajectoryPayload::MessageAppended { message }
            if matches!(message, midcourse::AgentMessage::User { .. }))
    });
    assert_eq!(user_messages.count(), 1, "a side request adds no user message");
}

#[test]
fn a_compacted_history_is_the_same_run() {
    let server =
        Server::of_json(|number| completion(None, Some((&format!("c{}", number + 1), "ls"))));
    let proxy = Proxy::start(&server, "");
    let mut chat = Chat::new("the task");
    for number in 0..6 {
        if number > 0 {
            chat.call(&format!("c{number}"), "ls", &format!("result {number}"));
        }
        proxy.chat(&chat.body());
    }
    // The client shortened its history: only the two latest calls are left.
    let mut short = Chat(vec![json!({"role": "user", "content": "A summary of the work so far."})]);
    short.call("c5", "ls", "result 5");
    short.call("c6", "ls", "result 6");
    proxy.chat(&short.body());
    // Then the user edited the summary.
    short.0[0]["content"] = json!("A summary of the work so far, corrected.");
    short.call("c7", "ls", "result 7");
    proxy.chat(&short.body());
    let runs = proxy.runs();
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!(count(run, "context_compacted"), 1);
    assert_eq!((count(run, "tool_ended"), count(run, "run_started")), (7, 1));
}

#[test]
fn agents_with_the_same_call_ids_are_separate_runs() {
    for tasks in [["one task", "another task"], ["the same task", "the same task"]] {
        let server = Server::of_json(|_| completion(None, Some(("call_0", "ls"))));
        let proxy = Proxy::start(&server, "");
        let mut agents = tasks.map(Chat::new);
        for turn in 0..4 {
            for (index, agent) in agents.iter_mut().enumerate() {
                if turn > 0 {
                    agent.call("call_0", "ls", &format!("result {turn} of agent {index}"));
                }
                assert!(proxy.chat(&agent.body()).is_whole);
            }
        }
        let runs = proxy.runs();
        assert_eq!(runs.len(), 2, "{tasks:?}");
        for run in &runs {
            assert_eq!((count(run, "tool_ended"), count(run, "tool_started")), (3, 4));
            let text = serde_json::to_string(run).unwrap();
            let agents = [0, 1].map(|index| text.contains(&format!("of agent {index}")));
            assert_ne!(agents[0], agents[1], "{tasks:?}");
        }
    }
}

#[test]
fn a_task_that_only_mentions_a_call_is_not_a_child_run() {
    let server = Server::of_json(|_| {
        completion(None, Some(("call-000000001", "cat /repo/src/parser/main.rs")))
    });
    let proxy = Proxy::start(&server, "");
    proxy.chat(&Chat::new("Make the test suite fast.").body());
    let task = "Explain what happens if somebody runs cat /repo/src/parser/main.rs in the wrong folder, \
                and how one would notice it in time.";
    proxy.chat(&Chat::new(task).body());
    assert!(proxy.runs().iter().all(|run| run[0].parent_run_id.is_none()));
}
