//! A run that both Claude Code's hooks and the proxy report: each event is recorded once, and only
//! the proxy gives messages to the agent.

use std::io::Write as _;
use std::process::Stdio;

use midcourse::LABEL;
use serde_json::{Value, json};

use super::server::{Server, send_json};
use super::{Proxy, command, deliveries, kinds, replays_the_same};

/// Runs `midcourse hook` as Claude Code would, with the environment variable by which a hook finds
/// out that the agent uses the proxy. Returns the hook's reply.
fn hook(proxy: &Proxy, event: &str, fields: Value) -> String {
    let mut payload = json!({"session_id": "s-1", "hook_event_name": event, "cwd": "/"});
    payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut child = command(&proxy.folder)
        .args(["hook", "claude-code"])
        .env("MIDCOURSE_HOOK_TIMEOUT_MS", "60000")
        .env("ANTHROPIC_BASE_URL", proxy.base_url("anthropic"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn hooks_record_and_leave_deliveries_to_an_attached_proxy() {
    let server = Server::start(|number, _, out| {
        let input = json!({"command": "make"});
        let call = json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "Bash", "input": input});
        let response = json!({"type": "message", "role": "assistant", "content": [call],
                              "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4}});
        send_json(out, 200, &response);
    });
    let proxy = Proxy::start(&server, "[budget]\ncalls = 2\n");
    let mut output = hook(&proxy, "SessionStart", json!({"source": "startup"}));
    output += &hook(&proxy, "UserPromptSubmit", json!({"prompt": "build it"}));
    let mut messages = vec![json!({"role": "user", "content": "build it"})];
    for number in 0..5 {
        let body = json!({"model": "m", "messages": messages, "tools": [{"name": "Bash"}]});
        let headers = "host: x\r\nx-claude-code-session-id: s-1\r\n";
        let body = body.to_string();
        assert!(proxy.send("POST", "/anthropic/v1/messages", headers, body.as_bytes()).is_whole);
        let (id, error) = (format!("toolu_{number}"), "make: *** No rule to make target 'all'.");
        let input = json!({"command": "make"});
        let call = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id});
        output += &hook(&proxy, "PreToolUse", call.clone());
        let mut failure = call;
        failure["error"] = json!(error);
        output += &hook(&proxy, "PostToolUseFailure", failure);
        let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": input});
        messages.push(json!({"role": "assistant", "content": [call]}));
        let result =
            json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": error});
        messages.push(json!({"role": "user", "content": [result]}));
    }
    assert!(!output.contains(LABEL), "hooks deliver nothing: {output}");
    assert!(server.bodies().pop().unwrap().contains(LABEL), "the proxy delivers");
    let folder = proxy.stop();
    let runs = super::runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    let count = |kind: &str| kinds(run).iter().filter(|known| **known == kind).count();
    assert_eq!((count("run_started"), count("proxy_attached")), (1, 1));
    assert_eq!((count("tool_started"), count("tool_ended")), (5, 5));
    assert!(!deliveries(run).is_empty());
    replays_the_same(&folder);
}
