//! Calls that Codex refused: no hook tells of them, the session's file does.

use std::fmt::Write as _;

use midcourse::TrajectoryPayload;
use midcourse_cli::hosts::Host;

use crate::events::at;
use crate::hosts::{event_of, rollout_at, session};

/// How calls ended, and the event at which that was known, with the session's file beside it.
fn told(name: &str, payloads: &[String]) -> String {
    let (mut shown, mut known) = (String::new(), Vec::new());
    for payload in payloads {
        let decoded = Host::Codex.decode(payload.as_bytes(), at(0));
        if decoded.beside.is_none() {
            continue;
        }
        let decoded = Host::Codex.complete(decoded, rollout_at(name, payload).as_bytes(), false);
        for event in decoded.facts {
            let (id, how) = match &event.payload {
                TrajectoryPayload::ToolEnded { tool_call_id, is_error, result, .. } => {
                    (tool_call_id, format!("failed: {is_error} {}", result.comparable_text()))
                }
                TrajectoryPayload::Denied { tool_call_id, reason, .. } => {
                    (tool_call_id, format!("denied: {}", reason.as_deref().unwrap()))
                }
                _ => continue,
            };
            if !known.contains(id) {
                known.push(id.clone());
                let _ = writeln!(shown, "{} {id} {}", event_of(payload), how.trim_end());
            }
        }
    }
    shown
}

#[test]
fn every_way_in_which_codex_refuses_is_a_refusal() {
    let payloads = session("codex-0.166.0", "refusals");
    insta::assert_snapshot!(told("refusals", &payloads), @r#"
    PreToolUse call_main000_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'curl --version'` rejected: policy forbids commands starting with `curl`\")" }
    PreToolUse call_main001_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"approval required by policy, but AskForApproval is set to Never\")" }
    PreToolUse call_main002_0 denied: Command blocked by PreToolUse hook: the user said no. Command: echo denyme
    PreToolUse call_main003_0 denied: approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never
    PreToolUse call_main004_0 denied: patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings
    PreToolUse call_main005_0 denied: patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings
    Stop call_main006_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'rm -rf zzz'` rejected: rm -f style commands are not permitted. Use a safer approach\")" }
    "#);
}

#[test]
fn an_agent_of_codex_that_is_refused_last_is_known_when_it_stops() {
    let mut payloads = session("codex-0.166.0", "subagent");
    payloads.retain(|payload| payload.contains("\"agent_id\""));
    insta::assert_snapshot!(told("subagent", &payloads), @r#"
    PostToolUse call_sub000_0 failed: false in-sub
    SubagentStop call_sub001_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'curl x'` rejected: policy forbids commands starting with `curl`\")" }
    "#);
}
