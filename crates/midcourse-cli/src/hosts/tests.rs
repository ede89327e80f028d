//! Tests with payloads captured from real clients: the decoded events, and the bytes of each reply.

mod claude_code;
mod codex;
mod copilot;
mod gemini;
mod opencode;
mod qwen;

#[path = "../../tests/it/captures.rs"]
mod captures;
#[path = "../../tests/it/clients/hook_events.rs"]
mod hook_events;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use midcourse::{
    Budget, DecisionPoint, Delivery, Engine, LABEL, MessageSettings, Prompt, Timestamp,
    TrajectoryAnalysisConfig, TrajectoryPayload, call_failed, parse_notation,
};
use serde_json::Value;

use super::{Decoded, Host, session_id_in};
use captures::{folder, session};

fn at() -> Timestamp {
    Timestamp::from_unix_ms(1_790_000_000_000)
}

/// The names of the sessions that were captured from this client.
fn sessions(client: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder(client)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()));
    names.filter(|name| !name.contains('.')).collect()
}

fn named_hook_event(payload: &str) -> Option<String> {
    let payload: Value = serde_json::from_str(payload).unwrap();
    Some(payload["hook_event_name"].as_str()?.to_owned())
}

fn hook_event(payload: &str) -> String {
    named_hook_event(payload).unwrap()
}

/// Shows how payloads are decoded: the hook event, and for each decoded event its run, kind, fields
/// and decision point. The session's id is shown as `S`.
fn shown(host: Host, payloads: &[String]) -> String {
    let mut shown = String::new();
    for payload in payloads {
        let session: Value = serde_json::from_str(payload).unwrap();
        let session = session["session_id"].as_str().or(session["sessionId"].as_str()).unwrap();
        let Decoded { events, reply, .. } = host.decode(payload.as_bytes(), at());
        let no_reply = if reply.is_some() { "" } else { " (no reply)" };
        let name = named_hook_event(payload).unwrap_or_else(|| "unnamed".to_owned());
        let _ = write!(shown, "{name}{no_reply}:");
        if events.is_empty() {
            shown.push_str(" nothing\n");
            continue;
        }
        shown.push('\n');
        for event in events {
            let run = event.run.run_id.as_str().replace(session, "S");
            let point = event.decision_point.map_or("", DecisionPoint::as_str);
            let mut value = serde_json::to_value(&event.payload).unwrap();
            value.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "identity");
            let mut text = value.to_string().replace(session, "S");
            if text.chars().count() > 150 {
                text = text.chars().take(150).collect::<String>() + "…";
            }
            let _ = writeln!(shown, "  {run} {} {text} {point}", event.payload.kind());
        }
    }
    shown.replace(" \n", "\n")
}

/// How each call in these payloads ended, as the store and the engine judge it.
fn call_ends(host: Host, payloads: &[String]) -> String {
    let (mut shown, mut args) = (String::new(), BTreeMap::new());
    let decoded = payloads.iter().map(|payload| host.decode(payload.as_bytes(), at()));
    for event in decoded.flat_map(|decoded| decoded.events) {
        let (id, tool, end) = match event.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, args: given, .. } => {
                args.insert(tool_call_id.to_string(), given);
                continue;
            }
            TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error } => {
                let args = || args.get(tool_call_id.as_str()).cloned().unwrap_or_default();
                let failed = call_failed(tool_name.as_str(), args, &result, is_error);
                (tool_call_id, tool_name, if failed { "failed" } else { "ok" })
            }
            TrajectoryPayload::Denied { tool_call_id, tool_name, .. } => {
                (tool_call_id, tool_name, "denied")
            }
            _ => continue,
        };
        let _ = writeln!(shown, "{id} {tool} {end}");
    }
    shown
}

#[test]
fn the_tests_of_clients_install_the_same_hooks() {
    assert_eq!(super::claude_code::HOOK_EVENTS, hook_events::CLAUDE_CODE);
    assert_eq!(super::codex::HOOK_EVENTS, hook_events::CODEX);
}

#[test]
fn every_captured_payload_can_be_read() {
    for (host, client) in [
        (Host::ClaudeCode, "claude-code-2.1.325"),
        (Host::ClaudeCode, "claude-code-2.1.197"),
        (Host::Codex, "codex-0.166.0"),
        (Host::Qwen, "qwen-code-0.24.4"),
        (Host::Qwen, "qwen-code-0.15.10"),
        (Host::Gemini, "gemini-cli-0.61.0"),
        (Host::Opencode, "opencode-1.18.33"),
        (Host::Copilot, "copilot-1.0.102"),
    ] {
        for payload in sessions(client).iter().flat_map(|name| session(client, name)) {
            let decoded = host.decode(payload.as_bytes(), at());
            assert_eq!(decoded.unread_run(), None, "{payload}");
            // An event with a decision point lets the engine deliver a message. If the host ignores
            // the hook's reply, the message would count as delivered without reaching the agent.
            let has_point = decoded.events.iter().any(|event| event.decision_point.is_some());
            assert_eq!(decoded.reply.is_some(), has_point, "{payload}");
            // Copilot CLI has payloads that do not name their hook event.
            let Some(name) = named_hook_event(&payload) else { continue };
            for point in decoded.events.iter().filter_map(|event| event.decision_point) {
                let points = host.capabilities().points.iter().copied();
                let events = points.filter(|(known, _)| *known == point).flat_map(|it| it.1);
                assert!(events.copied().any(|event| event == name), "{point:?} at {name}");
            }
        }
    }
}

#[test]
fn a_payload_that_was_cut_off_still_names_its_session() {
    assert_eq!(session_id_in(br#"{"cwd":"/", "session_id" : "a-1.b", "to"#), Some("a-1.b"));
    for none in [
        &b"{\"session_id\":\"cut off"[..],
        b"{\"session_id\":\"\"}",
        b"{\"session_id\":\"../../etc\"}",
        b"{\"session_id\":7}",
        b"\xff\xfe\0",
        b"",
    ] {
        assert_eq!(session_id_in(none), None, "{none:?}");
    }
}

#[test]
fn a_payload_that_cannot_be_read_becomes_an_unread_event() {
    for host in Host::ALL {
        let unknown = format!("{}.unread", host.name());
        for (bytes, run) in [
            (&b""[..], unknown.as_str()),
            (b"\xff\xfe\0{", &unknown),
            (b"[]", &unknown),
            (b"{\"session_id\":\"s\",\"hook_event_name\":\"PreToolUse\"", "s"),
            (b"{\"session_id\":\"s\",\"hook_event_name\":\"PreToolUse\"}", "s"),
            (b"{\"session_id\":\"s\",\"hook_event_name\":\"NewInThisRelease\"}", "s"),
            (b"{\"session_id\":\"s\",\"hook_event_name\":7}", "s"),
        ] {
            let decoded = host.decode(bytes, at());
            assert_eq!(decoded.unread_run(), Some(run), "{bytes:?}");
            assert_eq!(decoded.reply, None);
            assert_eq!(decoded.events[0].decision_point, None);
        }
    }
}

/// Two messages to the agent: feedback about the deadline, and guidance.
fn deliveries(host: Host) -> Vec<Delivery> {
    let settings =
        MessageSettings { delivery: host.delivery_policy(), ..MessageSettings::default() };
    let prompt = Prompt::new(settings.template(Budget::default()));
    let mut engine = Engine::new(prompt, TrajectoryAnalysisConfig::shipped());
    let records = parse_notation("deadline 10m\n3x bash make !! error: no rule\n").unwrap();
    let steps = records.iter().map(|record| {
        let is_end = matches!(record.payload, TrajectoryPayload::ToolEnded { .. });
        engine.step(record, is_end.then_some(DecisionPoint::PreToolSelection)).deliveries
    });
    steps.flatten().collect()
}

#[test]
fn a_reply_has_no_field_that_the_host_does_not_need() {
    for (host, client, names) in [
        (
            Host::ClaudeCode,
            "claude-code-2.1.325",
            &["main-run", "permission-denied", "resume-and-compact"][..],
        ),
        (Host::Codex, "codex-0.166.0", &["main-run", "sigint"]),
        (Host::Qwen, "qwen-code-0.24.4", &["main-run", "refusals", "subagent"]),
    ] {
        let deliveries = deliveries(host);
        assert_eq!(deliveries.len(), 2, "{deliveries:?}");
        let text = Delivery::labelled_text(&deliveries).unwrap();
        assert!(text.starts_with(&format!("{LABEL}\n[Feedback - Deadline]\n")), "{text}");
        assert!(text.contains("\n\n[Guidance]\n\n"), "{text}");
        for payload in names.iter().flat_map(|name| session(client, name)) {
            let decoded = host.decode(payload.as_bytes(), at());
            let name = hook_event(&payload);
            let form = decoded.reply.as_ref();
            assert_eq!(Host::encode([], form), b"", "{name}: no message");
            let reply = String::from_utf8(Host::encode(&deliveries, form)).unwrap();
            let is_recorded_only = host == Host::Qwen && form.is_none();
            let has_no_reply = is_recorded_only
                || matches!(
                    name.as_str(),
                    "Stop"
                        | "SubagentStop"
                        | "SubagentStart"
                        | "SessionEnd"
                        | "PermissionRequest"
                        | "PreCompact"
                        | "PostCompact"
                        | "MessageDisplay"
                        | "InstructionsLoaded"
                        | "Interrupt"
                );
            if has_no_reply {
                assert_eq!(reply, "", "{name}");
                continue;
            }
            assert_eq!(
                reply,
                format!(
                    "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{name}\",\
                     \"additionalContext\":{}}}}}",
                    serde_json::to_string(&text).unwrap()
                )
            );
        }
    }
}
