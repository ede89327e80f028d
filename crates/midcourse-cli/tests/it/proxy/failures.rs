//! Failed tool calls whose results have no error flag, because the API has none or the client
//! leaves it out. midcourse then decides from the text of the result, and all commands that count
//! or show failures must agree.

use std::process::Stdio;

use midcourse::TrajectoryPayload;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Server, completion, send_json};
use super::{Chat, Proxy, command, deliveries, replays_the_same, runs};

const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"load.py\", line 12, in \
                         <module>\n    main()\nKeyError: 'region'";

/// A server that answers every request with a short text.
fn answering() -> Server {
    Server::start(|_, request, out| {
        if request.head.contains("/v1/messages") {
            let content = json!([{"type": "text", "text": "next"}]);
            send_json(
                out,
                200,
                &json!({"type": "message", "role": "assistant", "content": content,
                        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}}),
            );
        } else {
            send_json(out, 200, &completion(Some("next"), None));
        }
    })
}

fn output(folder: &TempDir, args: &[&str]) -> String {
    let output = command(folder).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that there is one run, that every command counts or shows this many failed calls in it,
/// that no stored result got an error flag, and that the agent got a message.
#[track_caller]
fn check(folder: &TempDir, failures: usize) {
    let runs = runs(folder);
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert!(!deliveries(run).is_empty(), "no message");
    for record in run {
        if let TrajectoryPayload::ToolEnded { result, is_error, .. } = &record.payload {
            assert!(!is_error && !result.is_error && result.is_error_unknown, "{result:?}");
        }
    }
    replays_the_same(folder);
    let json = |args: &[&str]| -> Vec<Value> {
        output(folder, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(json(&["list", "--json"])[0]["errors"], failures);
    let records = json(&["show", "latest", "--json"]);
    assert_eq!(records.iter().filter(|record| record["failed"] == true).count(), failures);
    let replay = json(&["replay", "--json", "--run", "latest"]);
    assert_eq!(replay.last().unwrap()["errors"], failures, "the engine agrees");
    let shown = output(folder, &["show", "latest"]);
    assert!(shown.contains(&format!(", {failures} failed or refused\n")), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.contains("  failed  ")).count(), failures);
    let tail = output(folder, &["tail", "-n", "100"]);
    assert_eq!(tail.lines().filter(|line| line.contains("  failed  ")).count(), failures);
    output(folder, &["verify"]);
}

#[test]
fn different_calls_with_one_traceback_get_a_message_over_chat_completions() {
    let server = answering();
    let proxy = Proxy::start(&server, "");
    let mut chat = Chat::new("load the data");
    for number in 0..8 {
        chat.call(
            &format!("call_{number}_of_loading"),
            &format!("python load.py --try {number}"),
            TRACEBACK,
        );
        assert!(proxy.chat(&chat.body()).is_whole);
    }
    // The store keeps a long result apart from its record; this failure must be counted too.
    let long = format!("{}{TRACEBACK}", "loaded a row\n".repeat(600));
    chat.call("call_with_a_long_result", "python load.py --verbose", &long);
    chat.call("call_that_reads_a_log", "cat build.log", "start\nProcess exited with code 1");
    chat.call("call_that_succeeds", "make", "0 errors\nExit code: 0");
    assert!(proxy.chat(&chat.body()).is_whole);
    check(&proxy.stop(), 9);
}

#[test]
fn the_form_of_each_agent_is_a_failure_over_messages_without_a_flag() {
    let server = answering();
    let proxy = Proxy::start(&server, "");
    let mut messages = vec![json!({"role": "user", "content": "build it"})];
    let forms = |shell: usize| {
        [
            format!("<shellId: {shell} completed with exit code 2>\nmake: *** [all] stopped"),
            format!("make: *** [all] stopped\n<shellId: {shell} completed with exit code 2>"),
            format!(
                "Chunk ID: {shell}f3a\nWall time: 0.{shell}1 seconds\nProcess exited with code 2\n\
                 Output:\nmake: *** [all] stopped"
            ),
            "<returncode>2</returncode>\n<output>\nmake: *** [all] stopped\n</output>".to_owned(),
        ]
    };
    let mut calls = 0;
    for shell in 1..3 {
        for form in forms(shell) {
            calls += 1;
            let id = format!("toolu_of_make_{calls}");
            let input = json!({"command": format!("make -j{calls}")});
            messages.push(json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": id, "name": "bash", "input": input}]}));
            messages.push(json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": form}]}));
            let body = json!({"model": "m", "max_tokens": 9, "messages": messages,
                              "tools": [{"name": "bash", "input_schema": {"type": "object"}}]});
            assert!(proxy.messages(&body).is_whole);
        }
    }
    check(&proxy.stop(), calls);
}
