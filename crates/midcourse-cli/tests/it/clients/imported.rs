//! Sessions that hooks recorded, compared with the same sessions imported from the client's own files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use midcourse::{AgentMessage, RunSummary, TrajectoryPayload, TrajectoryRecord};
use serde_json::Value;

use super::Client;
use super::recorded::{RecordedData, user_messages};
use super::sessions::{LAST, script};
use super::trial::{RUN, Trial};

/// What is compared of a call.
#[derive(Debug, Default, PartialEq)]
struct Call {
    tool: String,
    args: Value,
    is_denied: bool,
    is_error: bool,
    result: String,
}

/// The calls of a run, by id. No call may start or end twice.
fn calls(records: &[TrajectoryRecord]) -> BTreeMap<String, Call> {
    let mut calls: BTreeMap<String, Call> = BTreeMap::new();
    let mut ended = Vec::new();
    for record in records {
        let Some(id) = record.payload.call_id() else { continue };
        let call = calls.entry(id.as_str().to_owned()).or_default();
        match &record.payload {
            TrajectoryPayload::ToolStarted { tool_name, args, .. } => {
                assert_eq!(call.tool, "", "{id:?} starts once");
                (call.tool, call.args) = (tool_name.as_str().to_owned(), args.clone());
            }
            TrajectoryPayload::ToolEnded { result, is_error, .. } => {
                call.is_error = *is_error;
                call.result = result.comparable_text().into_owned();
                ended.push(id.as_str().to_owned());
            }
            TrajectoryPayload::Denied { reason, .. } => {
                call.is_denied = true;
                call.result = reason.clone().unwrap_or_default();
                ended.push(id.as_str().to_owned());
            }
            _ => {}
        }
    }
    ended.sort();
    assert_eq!(ended, calls.keys().cloned().collect::<Vec<_>>(), "every call ends once");
    calls
}

/// The texts of the model's messages in a run, without repetitions.
fn model_texts(records: &[TrajectoryRecord]) -> Vec<String> {
    let mut texts = Vec::new();
    for record in records {
        if let TrajectoryPayload::MessageAppended {
            message: AgentMessage::Assistant { content, .. },
        } = &record.payload
        {
            texts.push(content.plain_text().into_owned());
        }
    }
    texts
}

fn import(data_dir: &Path, sessions: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(["import", "--json"]).arg(sessions).env("MIDCOURSE_HOME", data_dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What each scripted response reports.
const TOKENS_OF_RESPONSE: i64 = 20;

fn output_tokens(run: &RunSummary) -> i64 {
    run.tokens.unwrap_or_default().output_tokens
}

fn check(client: Client, sessions: &str) {
    let Some(trial) = Trial::of(client, script(client)) else { return };
    let session = trial.run(&RUN);
    session.assert_finished(LAST);
    let folder = session.project("..");
    let sessions = folder.join("config").join(sessions);
    let data_dir = folder.join("midcourse");
    let recorded = RecordedData::at(data_dir.clone()).runs();
    assert_eq!(recorded.len(), 2, "the agent and its subagent");

    let other_dir = folder.join("imported");
    fs::create_dir(&other_dir).unwrap();
    let report = import(&other_dir, &sessions);
    assert_eq!((&report["unreadable"], &report["conflict"]), (&0.into(), &0.into()), "{report}");
    let imported = RecordedData::at(other_dir.clone()).runs();
    for ((by_hooks, expected), (by_import, found)) in recorded.iter().zip(&imported) {
        assert_eq!(by_hooks.run_id, by_import.run_id);
        assert_eq!(by_hooks.parent_run_id, by_import.parent_run_id);
        // Hooks do not report the tokens of every subagent. When the last hook is called, the latest one
        // or two responses may not be in the transcript yet.
        if by_hooks.parent_run_id.is_none() {
            let missing = output_tokens(by_import) - output_tokens(by_hooks);
            assert!([0, 1, 2].map(|n| n * TOKENS_OF_RESPONSE).contains(&missing), "{missing}");
        }
        let (expected, found) = (calls(expected), calls(found));
        assert_eq!(
            expected.keys().collect::<Vec<_>>(),
            found.keys().collect::<Vec<_>>(),
            "the same calls"
        );
        for (id, call) in &expected {
            assert_eq!(Some(call), found.get(id), "{id}");
        }
    }
    assert_eq!(recorded.len(), imported.len());

    // Importing into the store of the hooks adds what hooks do not report, and nothing twice.
    let first = import(&data_dir, &sessions);
    assert_eq!((&first["merged"], &first["conflict"]), (&0.into(), &0.into()), "{first}");
    let both = RecordedData::at(data_dir.clone()).runs();
    for (((_, before), (run, after)), (imported, _)) in recorded.iter().zip(&both).zip(&imported) {
        assert_eq!(calls(before), calls(after));
        if run.parent_run_id.is_none() {
            assert_eq!(run.tokens, imported.tokens);
        }
        for mut texts in [user_messages(after), model_texts(after)] {
            let count = texts.len();
            texts.sort();
            texts.dedup();
            assert_eq!(texts.len(), count, "no message twice: {texts:?}");
        }
        assert_eq!(after.get(..before.len()), Some(&before[..]), "nothing changes or moves");
    }
    let again = import(&data_dir, &sessions);
    assert_eq!((&again["new"], &again["merged"]), (&0.into(), &0.into()), "{again}");
    assert_eq!(import(&other_dir, &sessions)["new"], 0);
}

#[test]
fn a_claude_code_session_is_the_same_from_hooks_and_from_its_file() {
    check(Client::ClaudeCode, "projects");
}

#[test]
fn a_codex_session_is_the_same_from_hooks_and_from_its_file() {
    check(Client::Codex, "sessions");
}
