//! Tests of reading Claude Code's session files: real files, and lines for single cases.

use std::path::Path;

use midcourse::{DecisionPoint, Event, Timestamp, TrajectoryPayload};
use serde_json::{Value, json};

use super::reader;
use crate::session_file::{Found, Head, SessionFile};

fn read(text: &str) -> (Vec<Event>, Found) {
    let path = Path::new("session.jsonl");
    let file = SessionFile { path, modified: Timestamp::from_unix_ms(7) };
    let (mut reader, mut found) = (reader(&file), Found::default());
    for line in text.lines().filter(|line| !line.is_empty()) {
        reader.read(line.as_bytes(), &mut found);
    }
    reader.end(&mut found);
    let events = found.records.drain(..).flat_map(|record| record.events).collect();
    (events, found)
}

/// One line for each event: run, kind and what identifies it.
fn listing(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| {
        let fact = event.fact.as_ref().map_or("", |fact| fact.as_str());
        let point = if event.decision_point.is_some() { " *" } else { "" };
        format!("{} {} {fact}{point}", event.run.run_id, event.payload.kind())
    };
    events.iter().map(line).collect()
}

fn line(kind: &str, uuid: &str, message: Value, more: Value) -> String {
    let mut line = json!({"type": kind, "uuid": uuid, "sessionId": "s", "cwd": "/home/user/project",
                          "version": "2.1.325", "timestamp": "2026-11-15T07:00:41.084Z",
                          "message": message});
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    format!("{line}\n")
}

fn call(uuid: &str, response: &str, id: &str, command: &str) -> String {
    let content =
        json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]);
    let message = json!({"id": response, "role": "assistant", "model": "m", "content": content,
                         "usage": {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": null}});
    line("assistant", uuid, message, json!({}))
}

fn result(uuid: &str, id: &str, content: &str, is_error: bool, structured: Value) -> String {
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": content,
                          "is_error": is_error}]);
    let message = json!({"role": "user", "content": content});
    line("user", uuid, message, json!({"toolUseResult": structured}))
}

fn prompt(uuid: &str, text: &str, more: Value) -> String {
    line("user", uuid, json!({"role": "user", "content": text}), more)
}

#[test]
fn a_real_session_and_its_subagent_are_read_completely() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sessions/claude-code");
    for (file, run, calls) in [
        ("session.jsonl", "4b2030ed-5563-49ea-b703-6a002f2d3cc8", 1),
        ("subagent.jsonl", "4b2030ed-5563-49ea-b703-6a002f2d3cc8.a2018e5", 1),
    ] {
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let head = Head::new(Path::new(file), text.as_bytes());
        assert!(super::recognises(&head));
        let (events, found) = read(&text);
        assert!(events.iter().all(|event| event.run.run_id.as_str() == run));
        let of_kind = |kind| events.iter().filter(|event| event.payload.kind() == kind).count();
        assert_eq!((of_kind("tool_started"), of_kind("tool_ended")), (calls, calls));
        assert_eq!((of_kind("run_started"), of_kind("unread")), (1, 0));
        let total = found.counts.total();
        assert_eq!(
            (total.unknown, total.invalid, found.problem),
            (0, 0, None),
            "{:?}",
            found.counts
        );
        let child = events[0].run.parent_run_id.as_ref().map(|id| id.as_str());
        assert_eq!(child.is_some(), file == "subagent.jsonl");
    }
}

#[test]
fn events_have_the_keys_that_hooks_report() {
    let text = [
        prompt("u1", "fix it", json!({})),
        call("a1", "msg_1", "call-1", "make"),
        call("a2", "msg_1", "call-2", "ls"),
        result("u2", "call-1", "Exit code 2\nno rule", true, json!("Error: Exit code 2\nno rule")),
        result("u3", "call-2", "a.rs", false, json!({"stdout": "a.rs", "stderr": ""})),
        call("a3", "msg_2", "call-3", "make"),
    ]
    .concat();
    let (events, _) = read(&text);
    assert_eq!(
        listing(&events),
        [
            "s run_started run",
            "s run_described about",
            "s message_appended line:u1 *",
            "s run_described about:model",
            "s usage_reported usage:msg_1",
            "s tool_started call-1",
            "s tool_started call-2",
            "s tool_ended call-1 *",
            "s tool_ended call-2 *",
            "s turn_started after:call-1",
            "s usage_reported usage:msg_2",
            "s tool_started call-3",
        ]
    );
    assert_eq!(events[2].decision_point, Some(DecisionPoint::PreToolSelection));
    let TrajectoryPayload::ToolEnded { result, is_error, tool_name, .. } = &events[7].payload
    else {
        unreachable!()
    };
    assert_eq!((tool_name.as_str(), *is_error), ("Bash", true));
    assert_eq!(result.comparable_text(), "Exit code 2\nno rule");
    let TrajectoryPayload::UsageReported { usage } = &events[4].payload else { unreachable!() };
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens), (5, 7, 0));
}

#[test]
fn the_lines_of_one_response_become_one_message() {
    let part = |uuid, block: Value| {
        let message = json!({"id": "msg_1", "role": "assistant", "model": "m", "content": [block]});
        line("assistant", uuid, message, json!({}))
    };
    let text = [
        part("a1", json!({"type": "thinking", "thinking": "hm", "signature": "x"})),
        part("a2", json!({"type": "text", "text": "I will look."})),
        call("a3", "msg_1", "call-1", "ls"),
    ]
    .concat();
    let (events, found) = read(&text);
    let messages: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            TrajectoryPayload::MessageAppended { message } => {
                Some(serde_json::to_value(message).unwrap())
            }
            _ => None,
        })
        .collect();
    assert_eq!(messages.len(), 1);
    let kinds: Vec<_> = messages[0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].clone())
        .collect();
    assert_eq!(kinds, ["reasoning", "text", "tool_call"]);
    assert_eq!(found.counts.total().used, 3);
}

#[test]
fn only_prompts_of_the_user_are_words_of_the_user() {
    let texts = [
        ("u1", "please go on", json!({}), "user"),
        (
            "u2",
            "<command-name>/review</command-name><command-args>main</command-args>",
            json!({}),
            "user",
        ),
        ("u7", "<local-command-stdout>done</local-command-stdout>", json!({}), "custom"),
        ("u3", "Caveat: the messages below", json!({"isMeta": true}), "custom"),
        ("u4", "This session is being continued", json!({"isCompactSummary": true}), "custom"),
        ("u5", "[Request interrupted by user]", json!({}), "custom"),
        ("u6", "<task-notification>done", json!({}), "custom"),
    ];
    for (uuid, text, more, role) in texts {
        let (events, _) = read(&prompt(uuid, text, more));
        let TrajectoryPayload::MessageAppended { message } = &events.last().unwrap().payload else {
            panic!("{text}")
        };
        assert_eq!(serde_json::to_value(message).unwrap()["role"], role, "{text}");
    }
}

#[test]
fn a_command_of_the_user_is_what_they_entered() {
    let text = "<command-message>review is running…</command-message>\n\
                <command-name>/review</command-name>\n<command-args>main </command-args>";
    assert_eq!(super::command_of(text).as_deref(), Some("/review main"));
    assert_eq!(super::command_of("look at <command-name>/x</command-name>"), None);
    assert_eq!(super::command_of("<command-name>/clear"), None);
}

#[test]
fn what_is_not_known_is_kept_and_counted() {
    let text = [
        prompt("u1", "go", json!({})),
        line("hologram", "h1", json!({"content": []}), json!({"beam": 7})),
        line(
            "system",
            "c1",
            Value::Null,
            json!({"subtype": "compact_boundary",
                                                 "compactMetadata": {"trigger": "auto"}}),
        ),
        "{\"type\":\"assistant\",\"mess".to_owned(),
    ]
    .concat();
    let (events, found) = read(&text);
    assert_eq!(
        listing(&events[2..]),
        ["s message_appended line:u1 *", "s unread line:h1", "s context_compacted line:c1"]
    );
    let TrajectoryPayload::Unread { raw, .. } = &events[3].payload else { unreachable!() };
    assert!(raw.contains("\"beam\":7"));
    let total = found.counts.total();
    assert_eq!((total.used, total.unknown, total.invalid), (2, 1, 1));
    assert!(found.problem.is_some());
}
