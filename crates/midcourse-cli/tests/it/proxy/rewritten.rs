//! Clients that change earlier messages when they send the history of a conversation again: they
//! shorten it, write tool calls as text, or use other call ids. The proxy must still record each
//! conversation as one run, and each tool result once.

use midcourse::{TrajectoryPayload, TrajectoryRecord};
use serde_json::{Value, json};

use super::server::{Server, completion};
use super::{Proxy, kinds};

const TASK: &str = "New task:\nMake the tests pass.";

fn count(run: &[TrajectoryRecord], kind: &str) -> usize {
    kinds(run).iter().filter(|known| **known == kind).count()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

fn send(proxy: &Proxy, messages: &[Value]) {
    let mut all = vec![json!({"role": "system", "content": "You are an agent."})];
    all.extend(messages.iter().cloned());
    let tool = json!({"type": "function", "function": {"name": "shell", "parameters": {}}});
    let body = json!({"model": "m", "messages": all, "tools": [tool]});
    assert!(proxy.chat(&body).is_whole);
}

/// The id and the result of each tool call that ended in a run, in the order of the records.
fn results(run: &[TrajectoryRecord]) -> Vec<String> {
    let result = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, result, .. } => {
            Some(format!("{tool_call_id} {}", serde_json::to_value(result).unwrap()["content"]))
        }
        _ => None,
    };
    run.iter().filter_map(result).collect()
}

/// The content of each recorded user message, as JSON text.
fn user_texts(run: &[TrajectoryRecord]) -> Vec<String> {
    let text = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::MessageAppended { message } => {
            let value = serde_json::to_value(message).unwrap();
            (value["role"] == "user").then(|| value["content"].to_string())
        }
        _ => None,
    };
    run.iter().filter_map(text).collect()
}

/// A tool call and its result as `ToolCallingAgent` of the Python package smolagents sends them in
/// the history: as the texts of two messages.
fn calls_as_text(id: &str, result: &str) -> [Value; 2] {
    let call = format!(
        "Calling tools:\n[{{'id': '{id}', 'type': 'function', 'function': {{'name': 'shell', \
         'arguments': {{'command': 'make'}}}}}}]"
    );
    [assistant(&call), user(&format!("Observation:\n{result}"))]
}

#[test]
fn calls_that_the_client_writes_as_text_are_one_run_with_their_results() {
    // In the second case the model server gives all calls the same id.
    for id in [|number: usize| format!("call_{number:012}"), |_| "call_0".to_owned()] {
        let server = Server::of_json(move |number| completion(None, Some((&id(number), "make"))));
        let proxy = Proxy::start(&server, "");
        let mut messages = vec![user(TASK)];
        for turn in 0..7 {
            send(&proxy, &messages);
            messages.extend(calls_as_text(&id(turn), "error: missing separator"));
        }
        let runs = proxy.runs();
        let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
        assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (7, 6));
        let mut ids: Vec<_> = results(run);
        ids.dedup();
        assert_eq!(ids.len(), 6, "each call has its own result: {ids:?}");
        assert_eq!(user_texts(run).len(), 1, "a result is no user message");
        assert_eq!(count(run, "context_compacted"), 0);
    }
}

#[test]
fn feedback_stays_at_a_result_that_the_client_sends_as_text() {
    let server =
        Server::of_json(|number| completion(None, Some((&format!("call_{number:012}"), "make"))));
    let proxy = Proxy::start(&server, "[budget]\ncalls = 4\n");
    let mut messages = vec![user(TASK)];
    for turn in 0..7 {
        send(&proxy, &messages);
        messages.extend(calls_as_text(&format!("call_{turn:012}"), &format!("result {turn}")));
    }
    let bodies = server.bodies();
    let label = |body: &String| {
        let (_, text) = body.split_once("result 3\\n\\n[midcourse run monitor]")?;
        text.split("\"}").next().map(str::to_owned)
    };
    let labels: Vec<_> = bodies.iter().map(label).collect();
    assert!(labels[4].is_some() && labels[4] == labels[5] && labels[5] == labels[6], "{bodies:?}");
}

#[test]
fn text_that_the_client_changes_or_drops_is_one_run() {
    // Builds the history that a client sends from its turns so far. A turn consists of the model's
    // text and the result.
    type Client = fn(&[(String, String)]) -> Vec<Value>;
    let clients: [(&str, Client); 7] = [
        ("CodeAgent", |turns| {
            let turn = |(text, result): &(String, String)| {
                let text = format!("{text}</code>\nCalling tools:\n[{{'name': 'python'}}]");
                [assistant(&text), user(&format!("Observation:\n{result}"))]
            };
            [user(TASK)].into_iter().chain(turns.iter().flat_map(turn)).collect()
        }),
        ("rewritten", |turns| {
            let turn = |(at, (_, result)): (usize, &(String, String))| {
                [assistant(&format!("(step {at})")), user(result)]
            };
            [user(TASK)].into_iter().chain(turns.iter().enumerate().flat_map(turn)).collect()
        }),
        ("dropped", |turns| {
            [user(TASK)].into_iter().chain(turns.iter().map(|(_, result)| user(result))).collect()
        }),
        ("white space", |turns| {
            let turn = |(text, result): &(String, String)| {
                [assistant(&text.replace(' ', "\n ")), user(&result.replace(' ', "  "))]
            };
            let task = user(&format!("{TASK}{}", "\n".repeat(turns.len())));
            [task].into_iter().chain(turns.iter().flat_map(turn)).collect()
        }),
        ("trimmed", |turns| {
            let kept = &turns[turns.len().saturating_sub(2)..];
            let turn = |(text, result): &(String, String)| [assistant(text), user(result)];
            let task = (turns.len() < 3).then(|| user(TASK));
            task.into_iter().chain(kept.iter().flat_map(turn)).collect()
        }),
        ("trimmed and rewritten", |turns| {
            let kept = turns.iter().enumerate().skip(turns.len().saturating_sub(2));
            let turn = |(at, (_, result)): (usize, &(String, String))| {
                [assistant(&format!("(step {at})")), user(result)]
            };
            [user(TASK)].into_iter().chain(kept.flat_map(turn)).collect()
        }),
        ("summary", |turns| {
            let kept = turns.len().saturating_sub(2);
            let summary = (kept > 0).then(|| user(&format!("Summary of {kept} steps.")));
            let turn = |(text, result): &(String, String)| [assistant(text), user(result)];
            let turns = turns[kept..].iter().flat_map(turn);
            [user(TASK)].into_iter().chain(summary).chain(turns).collect()
        }),
    ];
    for (name, client) in clients {
        let server =
            Server::of_json(|number| completion(Some(&format!("I try idea {number} now.")), None));
        let proxy = Proxy::start(&server, "");
        let mut turns = Vec::new();
        for turn in 0..7 {
            send(&proxy, &client(&turns));
            turns.push((format!("I try idea {turn} now."), format!("It failed: result {turn}")));
        }
        let runs = proxy.runs();
        let [run] = runs.as_slice() else { panic!("{name}: {} runs", runs.len()) };
        let texts = user_texts(run).join("\n").replace("  ", " ");
        for turn in 0..6 {
            let found = texts.matches(&format!("It failed: result {turn}")).count();
            assert_eq!(found, 1, "{name}: {texts}");
        }
        assert_eq!(texts.matches("Make the tests pass").count(), 1, "{name}: {texts}");
    }
}

#[test]
fn the_same_result_again_is_recorded_again() {
    // The model always says the same, and every result is equal. A client sends only its last
    // `kept` turns.
    for (name, kept) in [("whole", 99), ("trimmed", 2)] {
        let server = Server::of_json(|number| {
            completion(Some("I try."), Some((&format!("call_{number:012}"), "make")))
        });
        let proxy = Proxy::start(&server, "");
        for turn in 0..7_usize {
            let mut messages = vec![user(TASK)];
            for turn in turn.saturating_sub(kept)..turn {
                messages.extend(calls_as_text(&format!("call_{turn:012}"), "error"));
            }
            send(&proxy, &messages);
        }
        let runs = proxy.runs();
        let [run] = runs.as_slice() else { panic!("{name}: {} runs", runs.len()) };
        assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (7, 6), "{name}");
    }
}

#[test]
fn calls_with_other_ids_in_the_history_are_the_same_calls() {
    // The id that a client sends for a call instead of the model's id. The arguments are the
    // position of the call in the request and the number of the call in the conversation.
    type Rename = fn(usize, usize) -> String;
    let renames: [(&str, Rename); 3] = [
        ("other", |_, call| format!("toolu-{call:012}")),
        ("numbered", |at, _| format!("call_{at}")),
        ("random", |at, call| format!("{:012}", at * 1000 + call * 77)),
    ];
    for (name, rename) in renames {
        for kept in [99, 2] {
            let server = Server::of_json(|number| {
                completion(None, Some((&format!("call_{number:012}"), "make")))
            });
            let proxy = Proxy::start(&server, "");
            for turn in 0..6_usize {
                let mut chat = super::Chat::new(TASK);
                for (at, call) in (turn.saturating_sub(kept)..turn).enumerate() {
                    chat.call(&rename(at, call), "make", &format!("result {}", call / 2));
                }
                assert!(proxy.chat(&chat.body()).is_whole);
            }
            let runs = proxy.runs();
            let [run] = runs.as_slice() else { panic!("{name}, {kept}: {} runs", runs.len()) };
            let expected: Vec<_> =
                (0..5).map(|call| format!("call_{call:012} result {}", call / 2)).collect();
            let found: Vec<_> = results(run)
                .iter()
                .map(|it| it.replace(['[', ']', '"', '{', '}'], "").replace("type:text,text:", ""))
                .map(|it| it.replace("text:", "").replace(",type:text", ""))
                .collect();
            assert_eq!(found, expected, "{name}, {kept}");
            assert_eq!(count(run, "tool_started"), 6, "{name}, {kept}");
        }
    }
}

#[test]
fn rewriting_agents_with_different_tasks_are_separate_runs() {
    let server = Server::of_json(|_| completion(Some("I try the next idea."), None));
    let proxy = Proxy::start(&server, "");
    let mut agents = ["Make the tests pass.", "Make the tests fast."].map(|task| vec![user(task)]);
    for turn in 0..5 {
        for agent in &mut agents {
            send(&proxy, agent);
            // Everything but the task is equal.
            agent.extend([assistant(&format!("(step {turn})")), user("It failed.")]);
        }
    }
    let runs = proxy.runs();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(count(run, "provider_request_prepared"), 5);
        assert_eq!(user_texts(run).len(), 5);
    }
}

#[test]
fn rewriting_agents_with_the_same_task_stay_apart_once_they_differ() {
    let server = Server::of_json(|number| completion(Some(&format!("Idea {number}.")), None));
    let proxy = Proxy::start(&server, "");
    let mut agents = [vec![user(TASK)], vec![user(TASK)]];
    // The second agent is slower: it sends one request while the first sends two.
    for turn in 0..8 {
        for (index, agent) in agents.iter_mut().enumerate() {
            if index == 1 && turn % 2 == 1 {
                continue;
            }
            send(&proxy, agent);
            let result = format!("Result {turn} of agent {index}.");
            agent.extend([assistant("(a step)"), user(&result)]);
        }
    }
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "provider_request_prepared")).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 12);
    assert_eq!(runs.len(), 2, "{sizes:?}");
    for run in &runs {
        let texts = user_texts(run).join("\n");
        let agents = [0, 1].map(|index| texts.contains(&format!("of agent {index}")));
        assert_ne!(agents[0], agents[1], "{texts}");
    }
}

#[test]
fn a_new_conversation_after_the_first_one_is_another_run() {
    let server = Server::of_json(|number| completion(Some(&format!("Idea {number}.")), None));
    let proxy = Proxy::start(&server, "");
    // The first and the third conversation have the same task. All three begin with the same
    // message.
    for task in [TASK, "New task:\nWrite the manual.", TASK] {
        let mut messages = vec![user("The folder is /repo."), user(task)];
        for turn in 0..3 {
            send(&proxy, &messages);
            messages.extend([assistant("(a step)"), user(&format!("It failed: {turn}"))]);
        }
    }
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "provider_request_prepared")).collect();
    assert_eq!(sizes, [3, 3, 3]);
}

#[test]
fn a_rewriting_subagent_is_a_child_run() {
    let delegated = "Find the slowest test in the suite.";
    let server = Server::of_json(move |number| match number {
        0 => completion(None, Some(("call_000000000", "Find the slowest test in the suite."))),
        _ => completion(Some(&format!("Idea {number}.")), None),
    });
    let proxy = Proxy::start(&server, "");
    send(&proxy, &[user(TASK)]);
    let mut child = vec![user(delegated)];
    for turn in 0..3 {
        send(&proxy, &child);
        child.extend([assistant("(a step)"), user(&format!("It failed: {turn}"))]);
    }
    let [call, result] = calls_as_text("call_000000000", "test_x is the slowest");
    send(&proxy, &[user(TASK), call, result]);
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "provider_request_prepared")).collect();
    assert_eq!(sizes, [2, 3]);
    assert_eq!(runs[1][0].parent_run_id, runs[0][0].run_id);
    assert_eq!(count(&runs[0], "tool_ended"), 1);
}

#[test]
fn a_restarted_proxy_finds_the_run_by_its_task() {
    let server = Server::of_json(|number| completion(Some(&format!("Idea {number}.")), None));
    let mut proxy = Proxy::start(&server, "");
    let mut messages = vec![user(TASK)];
    for turn in 0..4 {
        if turn == 2 {
            proxy = Proxy::start_in(proxy.stop(), server.address);
        }
        send(&proxy, &messages);
        messages.extend([assistant("(a step)"), user(&format!("It failed: {turn}"))]);
    }
    // Two new conversations that begin with the same message: in one it is only an example before
    // the real task; the other has the same task and no history yet.
    let proxy = Proxy::start_in(proxy.stop(), server.address);
    send(&proxy, &[user(TASK), assistant("(a step)"), user("Another task.")]);
    send(&proxy, &messages[..1]);
    let runs = proxy.runs();
    let sizes: Vec<_> = runs.iter().map(|run| count(run, "provider_request_prepared")).collect();
    assert_eq!(sizes, [4, 1, 1]);
    assert_eq!(user_texts(&runs[0]).len(), 4);
}

#[test]
fn the_call_that_the_agent_stopped_on_is_counted() {
    let server =
        Server::of_json(|number| completion(None, Some((&format!("call_{number:012}"), "make"))));
    let proxy = Proxy::start(&server, "");
    let mut chat = super::Chat::new(TASK);
    for turn in 0..5 {
        assert!(proxy.chat(&chat.body()).is_whole);
        chat.call(&format!("call_{turn:012}"), "make", &format!("result {turn}"));
    }
    let folder = proxy.stop();
    let output = |arguments: &[&str]| {
        let output = super::command(&folder).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let line = output(&["list", "--json"]);
    let run: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(run["calls"], 5);
    let shown = output(&["show", run["run_id"].as_str().unwrap()]);
    assert!(shown.contains("\ncalls      5\n"), "{shown}");
}
