//! `midcourse install` with real clients: the bare client is recorded and gets messages, and after
//! `midcourse uninstall` its files are as they were.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Client;
use super::script::Script;
use super::trial::{Ended, Trial, calls, texts};

const LAST: &str = "I have finished.";

fn loops(client: Client) -> Script {
    let call = |n: usize| client.shell(&format!("loop-{n}"), "cat missing.txt");
    Script::of_calls((0..4).map(call), LAST)
}

fn settings_file(trial: &Trial) -> PathBuf {
    trial.folder().join("config").join(match trial.client_kind() {
        Client::ClaudeCode => "settings.json",
        Client::Codex => "hooks.json",
    })
}

fn assert_recorded_and_nudged(session: &Ended) {
    session.assert_finished(LAST);
    assert_eq!(session.log(), "");
    let [main] = session.runs().try_into().unwrap();
    assert_eq!(calls(&main), ["loop-0 failed", "loop-1 failed", "loop-2 failed", "loop-3 failed"]);
    assert_eq!((texts(&main).len(), session.label_counts().last()), (1, Some(&1)));
}

/// The user's file has odd white space and a hook of the user's own, which writes a note.
fn check_installed(client: Client) {
    let Some(trial) = Trial::of(client, loops(client)) else { return };
    let note = trial.folder().join("note");
    let theirs = json!([{"hooks": [{"type": "command", "command": format!("echo theirs >> {}", note.display())}]}]);
    let before = format!(
        "{{  \"hooks\" :\t{{\r\n \"PostToolUse\":[], \"SessionStart\": {theirs} }}\r\n\r\n}}"
    );
    let session = trial.run_between(
        |trial| {
            fs::write(settings_file(trial), &before).unwrap();
            trial.midcourse(&["install", client.host()]);
            assert_ne!(fs::read_to_string(settings_file(trial)).unwrap(), before);
            let report = trial.doctor();
            let state = |check: &str| {
                let findings = report["findings"].as_array().unwrap().iter();
                let mut found = findings
                    .filter(|it| it["area"] == client.host() && it["check"] == check)
                    .map(|it| it["state"].as_str().unwrap());
                found.next().map(str::to_owned)
            };
            let expected = ["hooks", "command", "trial", "switches"].map(|_| Some("ok".to_owned()));
            assert_eq!(["hooks", "command", "trial", "switches"].map(state), expected, "{report}");
            // Nobody has approved the hooks of Codex.
            let approval = (client == Client::Codex).then(|| "problem".to_owned());
            assert_eq!(state("approval"), approval);
        },
        |trial| {
            trial.midcourse(&["uninstall", client.host()]);
            assert_eq!(fs::read_to_string(settings_file(trial)).unwrap(), before);
        },
    );
    assert_recorded_and_nudged(&session);
    assert_eq!(session.note("note"), "theirs\n", "the user's own hook ran too");
}

#[test]
fn claude_code_with_installed_hooks_is_recorded_and_gets_its_settings_back() {
    check_installed(Client::ClaudeCode);
}

#[test]
fn codex_with_installed_hooks_is_recorded_and_gets_its_settings_back() {
    check_installed(Client::Codex);
}

#[test]
fn the_project_file_of_claude_code_works_too() {
    let client = Client::ClaudeCode;
    let Some(trial) = Trial::of(client, loops(client)) else { return };
    let session = trial.run_between(
        |trial| drop(trial.midcourse(&["install", client.host(), "--project"])),
        |trial| {
            trial.midcourse(&["uninstall", client.host(), "--project"]);
            assert!(!trial.folder().join("project/.claude").exists());
        },
    );
    assert_recorded_and_nudged(&session);
}

#[test]
fn claude_code_takes_the_plugin() {
    let client = Client::ClaudeCode;
    let Some(trial) = Trial::of(client, loops(client)) else { return };
    let folder = trial.folder().join("my plugin");
    let folder = folder.to_str().unwrap().to_owned();
    let session = trial.run_between(
        |trial| {
            trial.midcourse(&["install", client.host(), "--plugin", &folder]);
            trial.client(&["plugin", "marketplace", "add", &folder]);
            trial.client(&["plugin", "install", "midcourse@midcourse"]);
        },
        |trial| {
            trial.client(&["plugin", "uninstall", "midcourse@midcourse"]);
            trial.client(&["plugin", "marketplace", "remove", "midcourse"]);
            let settings = fs::read(settings_file(trial)).unwrap();
            let settings: Value = serde_json::from_slice(&settings).unwrap();
            assert!(!settings.to_string().contains("midcourse"), "{settings}");
        },
    );
    assert_recorded_and_nudged(&session);
}
