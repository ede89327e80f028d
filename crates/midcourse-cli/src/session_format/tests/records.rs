//! What the readers of agents' sessions make of a real file of each agent.

use midcourse::{AgentMessage, TrajectoryPayload, UserContent};

use super::{folder, read};

/// The records of a file, one per line: kind, key and the most important fields.
fn shown(file: &str) -> String {
    let (records, _) = read(&folder().join(file));
    let mut lines = Vec::new();
    let mut run = String::new();
    for event in records.iter().flat_map(|record| &record.events) {
        if event.run.run_id.as_str() != run {
            run = event.run.run_id.as_str().to_owned();
            lines.push(format!("run {run}"));
        }
        let key = event.fact.as_ref().map_or("", |key| key.as_str());
        let fields = fields(&event.payload);
        let fields: String = fields.replace('\n', "⏎").chars().take(110).collect();
        lines.push(format!("{} {key} {fields}", event.payload.kind()).trim_end().to_owned());
    }
    lines.join("\n")
}

fn fields(payload: &TrajectoryPayload) -> String {
    match payload {
        TrajectoryPayload::MessageAppended { message } => match message {
            AgentMessage::User { content: UserContent::Text(text), .. } => format!("user: {text}"),
            AgentMessage::Assistant { content, .. } => format!("model: {}", content.plain_text()),
            AgentMessage::Custom { kind, .. } => kind.clone(),
            other => format!("{other:?}"),
        },
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => format!("{tool_name} {args}"),
        TrajectoryPayload::ToolEnded { tool_name, result, is_error, .. } => {
            let end = if *is_error { "failed" } else { "ok" };
            format!("{tool_name} {end}: {}", result.comparable_text())
        }
        TrajectoryPayload::Denied { reason, .. } => reason.clone().unwrap_or_default(),
        TrajectoryPayload::UsageReported { usage } => {
            format!("{} in, {} out", usage.input_tokens, usage.output_tokens)
        }
        _ => String::new(),
    }
}

#[test]
fn codex() {
    insta::assert_snapshot!(shown("codex/rollout-2026-11-17T04-21-39-01a1e7bd-34b5-75d3-8e72-a0062cd66213.jsonl"), @"");
}

#[test]
fn codex_before_session_meta() {
    insta::assert_snapshot!(shown("codex/rollout-2026-11-17T04-46-59-c72de389-3271-4733-9272-55258a1039ac.jsonl"), @"");
}

#[test]
fn gemini() {
    insta::assert_snapshot!(shown("gemini/session-2026-11-17T04-21-7f19ac5e.jsonl"), @"");
}

#[test]
fn gemini_document() {
    insta::assert_snapshot!(shown("gemini/session-2026-11-17T04-46-2682cc9c.json"), @"");
}

#[test]
fn qwen() {
    insta::assert_snapshot!(shown("qwen/ce55d93d-915c-492d-927f-87ee1026133f.jsonl"), @"");
}

#[test]
fn copilot() {
    insta::assert_snapshot!(shown("copilot/f7e9c5cb-8cc7-47c6-9b73-0b04e9145bc5/events.jsonl"), @"");
}

#[test]
fn opencode() {
    insta::assert_snapshot!(shown("opencode/opencode.db"), @"");
}

#[test]
fn opencode_exports_and_stores_the_same() {
    let database = shown("opencode/opencode.db");
    let (main, _) = database.split_once("\nrun ").unwrap();
    assert_eq!(shown("opencode/export.json"), main);
    let stored = shown("opencode/storage/session/global/ses_e182c3127ffen1gvCzSu1UDL8s.json");
    assert!(
        stored.lines().skip(1).all(|line| main.contains(line) || line.contains("after:")),
        "{stored}"
    );
}
