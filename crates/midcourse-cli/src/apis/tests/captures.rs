//! Requests that real clients sent, from `testdata/requests`. A snapshot says what was read of each.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::{Api, Conversation, Item, insert};

const CLIENTS: [&str; 7] = [
    "claude-code-2.1.197",
    "claude-code-2.1.325",
    "codex-0.166.0",
    "gemini-cli-0.61.0",
    "opencode-1.18.33",
    "qwen-code-0.15.10",
    "qwen-code-0.24.4",
];

#[test]
fn requests_of_real_clients_are_read() {
    let mut summary = String::new();
    for client in CLIENTS {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/requests");
        let file = format!("{folder}/{client}.jsonl");
        writeln!(summary, "{client}").unwrap();
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let captured: Value = serde_json::from_str(line).unwrap();
            let api = Api::of_path(captured["path"].as_str().unwrap()).unwrap();
            let body = captured["body"].to_string();
            let name = captured["name"].as_str().unwrap();
            writeln!(summary, "  {name}: {}", described(api, &body)).unwrap();
        }
    }
    insta::assert_snapshot!(summary);
}

fn described(api: Api, body: &str) -> String {
    let mut request = api.parse_request(body).unwrap();
    let point = request.insertion_point;
    let (tools, messages) = (request.tools.len(), request.message_count);
    let delta = Conversation::default().apply_request(&mut request, true);
    let count = |kind: &str| delta.events.iter().filter(|it| it.payload.kind() == kind).count();
    let is_closed =
        |item: &Item<'_>| matches!(item, Item::ToolResult { insertion_point: None, .. });
    assert!(!request.items.iter().any(is_closed), "every result takes feedback: {body}");
    // Where guidance would be: the bytes around it.
    let place = point.map_or_else(
        || "nowhere".to_owned(),
        |point| {
            let insertion = point.insertion("TEXT");
            let sent = insert(body.as_bytes(), &mut [insertion.clone()]);
            serde_json::from_slice::<Value>(&sent).unwrap();
            insertion.json
        },
    );
    format!(
        "{}, {messages} messages, {tools} tools, {} appended, {} started, {} ended, guidance {place}",
        api.title(),
        count("message_appended"),
        count("tool_started"),
        count("tool_ended"),
    )
}
