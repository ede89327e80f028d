//! Whose request it is: agents at once, helpers, and histories that change.

use midcourse::TrajectoryPayload;
use serde_json::json;

use super::server::{Server, completion};
use super::{Chat, Proxy, kinds};

fn count(run: &[midcourse::TrajectoryRecord], kind: &str) -> usize {
    kinds(run).iter().filter(|known| **known == kind).count()
}

#[test]
fn agents_at_once_are_runs_of_their_own() {
    let server =
        Server::of_json(|number| completion(None, Some((&format!("call-{number}"), "ls"))));
    let proxy = Proxy::start(&server, "");
    // The same task, and the same words all along: only what the model calls tells them apart.
    let mut agents = [Chat::new("the same task"), Chat::new("the same task")];
    for turn in 0..4 {
        for (place, agent) in agents.iter_mut().enumerate() {
            if turn > 0 {
                let id = format!("call-{}", (turn - 1) * 2 + place);
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
fn a_conversation_without_calls_is_one_run() {
    let server = Server::of_json(|number| completion(Some(&format!("answer {number}")), None));
    let proxy = Proxy::start(&server, "");
    let mut messages = vec![json!({"role": "user", "content": "hello"})];
    for turn in 0..3 {
        assert!(proxy.chat(&json!({"model": "m", "messages": messages})).is_whole);
        messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
        messages.push(json!({"role": "user", "content": "go on"}));
    }
    // Somebody else who begins in the same way.
    let other = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    assert!(proxy.chat(&other).is_whole);
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "message_appended")).collect();
    assert_eq!(sizes, [6, 2], "three words and three answers; one and one");
}

#[test]
fn who_begins_with_a_task_that_was_given_away_is_a_helper() {
    let task = "Look into the corner of the house.";
    let server = Server::of_json(move |number| match number {
        0 => {
            let arguments = json!({"prompt": "Look into the corner of the house."}).to_string();
            let function = json!({"name": "agent", "arguments": arguments});
            let call = json!({"id": "give", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        }
        _ => completion(Some("done"), None),
    });
    let proxy = Proxy::start(&server, "");
    proxy.chat(&Chat::new("Clean the house, all of it.").body());
    proxy.chat(&Chat::new(task).body());
    proxy.chat(&Chat::new("Something else entirely.").body());
    let runs = proxy.runs();
    let ids: Vec<_> = runs.iter().map(|run| run[0].run_id.clone()).collect();
    let parents: Vec<_> = runs.iter().map(|run| run[0].parent_run_id.clone()).collect();
    let main = parents.iter().position(Option::is_none).unwrap();
    let children: Vec<_> = parents.iter().flatten().collect();
    assert_eq!(children, [&ids[main].clone().unwrap()], "{parents:?}");
    assert!(ids.iter().flatten().any(|id| id.as_str().ends_with(".give")));
}

#[test]
fn claude_code_says_who_asks() {
    let server =
        Server::of_json(|_| json!({"type": "message", "content": [], "stop_reason": "end_turn"}));
    let proxy = Proxy::start(&server, "");
    let body = |text: &str, tools: bool| {
        let tools = if tools { json!([{"name": "Bash"}]) } else { json!([]) };
        json!({"model": "m", "messages": [{"role": "user", "content": text}], "tools": tools})
            .to_string()
    };
    let ask = |headers: &str, body: &str| {
        let reply =
            proxy.send("POST", "/anthropic/v1/messages?beta=true", headers, body.as_bytes());
        assert!(reply.is_whole);
    };
    let session = "host: x\r\nx-claude-code-session-id: s-1\r\n";
    ask(session, &body("a title for this", false));
    ask(session, &body("the task", true));
    ask(&format!("{session}x-claude-code-agent-id: a-7\r\n"), &body("a part of it", true));
    ask("host: x\r\nx-claude-code-session-id: ../../etc\r\n", &body("an odd one", true));
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
    let words = main.iter().filter(|record| {
        matches!(&record.payload, TrajectoryPayload::MessageAppended { message }
            if matches!(message, midcourse::AgentMessage::User { .. }))
    });
    assert_eq!(words.count(), 1, "what the client asks for itself is no word of the user's");
}

#[test]
fn a_history_that_is_summed_up_is_the_same_run() {
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
    // All but the latest call is gone.
    let mut short = Chat(vec![json!({"role": "user", "content": "A summary of the work so far."})]);
    short.call("c5", "ls", "result 5");
    short.call("c6", "ls", "result 6");
    proxy.chat(&short.body());
    // The same history again, edited by the user.
    short.0[0]["content"] = json!("A summary of the work so far, corrected.");
    short.call("c7", "ls", "result 7");
    proxy.chat(&short.body());
    let runs = proxy.runs();
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!(count(run, "context_compacted"), 1);
    assert_eq!((count(run, "tool_ended"), count(run, "run_started")), (7, 1));
}

#[test]
fn servers_that_count_anew_are_no_matter() {
    for tasks in [["one task", "another task"], ["the same task", "the same task"]] {
        let server = Server::of_json(|_| completion(None, Some(("call_0", "ls"))));
        let proxy = Proxy::start(&server, "");
        let mut agents = tasks.map(Chat::new);
        for turn in 0..4 {
            for (place, agent) in agents.iter_mut().enumerate() {
                if turn > 0 {
                    agent.call("call_0", "ls", &format!("result {turn} of agent {place}"));
                }
                assert!(proxy.chat(&agent.body()).is_whole);
            }
        }
        let runs = proxy.runs();
        assert_eq!(runs.len(), 2, "{tasks:?}");
        for run in &runs {
            assert_eq!((count(run, "tool_ended"), count(run, "tool_started")), (3, 4));
            let text = serde_json::to_string(run).unwrap();
            let whose = [0, 1].map(|place| text.contains(&format!("of agent {place}")));
            assert_ne!(whose[0], whose[1], "{tasks:?}");
        }
    }
}

#[test]
fn a_word_that_both_hold_makes_nobody_a_helper() {
    let server = Server::of_json(|_| {
        completion(None, Some(("call-000000001", "cat /repo/src/parser/main.rs")))
    });
    let proxy = Proxy::start(&server, "");
    proxy.chat(&Chat::new("Clean the house, all of it.").body());
    let task = "Explain what happens if somebody runs cat /repo/src/parser/main.rs in the wrong folder, \
                and how one would notice it in time.";
    proxy.chat(&Chat::new(task).body());
    assert!(proxy.runs().iter().all(|run| run[0].parent_run_id.is_none()));
}
