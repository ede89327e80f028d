//! Sessions captured from real clients: the payloads of their hooks, and Codex's rollouts (its
//! session files). The unit tests in `src/hosts/tests.rs` include this file too.

use std::path::PathBuf;

use serde_json::Value;

pub(crate) fn folder(client: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures").join(client)
}

/// The hook payloads of a captured session, in order.
pub(crate) fn session(client: &str, name: &str) -> Vec<String> {
    let file = folder(client).join(format!("{name}.jsonl"));
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// The text of a captured Codex session's rollout file, as it was when Codex sent this payload.
pub(crate) fn rollout_at(name: &str, payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap();
    let event = payload["hook_event_name"].as_str().unwrap();
    let call = payload["tool_use_id"].as_str().unwrap_or_default().to_owned();
    let lines = session("codex-0.166.0", &format!("{name}.rollout"));
    let last = lines.iter().position(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let item = &line["payload"];
        let is_call = !item["name"].is_null() && item["call_id"] == call.as_str();
        let is_last_message = item["item"]["type"] == "AgentMessage"
            && item["item"]["content"][0]["text"] == payload["last_assistant_message"];
        match event {
            "PreToolUse" => is_call,
            "PostToolUse" => item["item"]["id"] == call.as_str(),
            "Stop" | "SubagentStop" => is_last_message,
            _ => true,
        }
    });
    let end = last.map_or(lines.len(), |last| last + 1);
    lines[..end].iter().map(|line| line.clone() + "\n").collect()
}
