//! Settings of `midcourse run` with real clients: budgets, shadow mode (messages are recorded but
//! not given to the agent), and the configuration file of a project.

use std::fs;
use std::process::Command;

use midcourse::TrajectoryPayload;

use super::Client;
use super::script::{Requester, Script};
use super::trial::{Ended, Hooks, Trial, texts};

const LAST: &str = "I have finished.";

/// A script of `count` calls that are all different.
fn steps(client: Client, count: usize) -> Script {
    let call = |n: usize| client.shell(&format!("step-{n}"), &format!("echo {n} > file-{n}"));
    Script::of_calls((0..count).map(call), LAST)
}

/// A script that makes the same failing call four times.
fn loops(client: Client) -> Script {
    let call = |n: usize| client.shell(&format!("loop-{n}"), "cat missing.txt");
    Script::of_calls((0..4).map(call), LAST)
}

fn assert_success(session: &Ended) {
    session.assert_finished(LAST);
    assert_eq!(session.log(), "", "there were no problems");
}

/// Checks the messages about a budget of 6 tool calls and 11200 tokens. The session has 16 calls, and
/// each scripted response reports that it used 520 tokens: half of the budget is used after 11 of them.
/// Some calls follow, because on a busy machine the client writes its transcript a few responses later.
fn check_budget_messages(client: Client) {
    let Some(trial) = Trial::of(client, steps(client, 16)) else { return };
    let session = trial.run(&Hooks::Run(&["--max-calls", "6", "--max-tokens", "11200"]));
    assert_success(&session);
    let messages = texts(&session.runs()[0]);
    let count = |part: &str| messages.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("You have used 3 of 6 tool calls."), 1, "{messages:?}");
    assert_eq!(count("You have used the budget of 6 tool calls."), 1, "{messages:?}");
    assert_eq!(count("of 11200 tokens."), 1, "half of it: {messages:?}");
    assert_eq!(session.label_counts().last(), Some(&messages.len()), "{messages:?}");
    let main = &session.runs()[0];
    let counted = main.iter().filter(|record| record.payload.kind() == "usage_reported").count();
    assert_eq!(
        counted,
        session.requests_of(Requester::Main).len(),
        "the tokens of each response, once"
    );
    session.assert_replay_is_equal();
}

#[test]
fn claude_code_is_told_what_is_left_of_its_budgets() {
    check_budget_messages(Client::ClaudeCode);
}

#[test]
fn codex_is_told_what_is_left_of_its_budgets() {
    check_budget_messages(Client::Codex);
}

/// Checks that messages were recorded but none was given to the agent.
fn check_not_delivered(session: &Ended, messages: usize) {
    assert_success(session);
    let main = &session.runs()[0];
    assert_eq!(texts(main).len(), messages, "{:?}", texts(main));
    assert!(main.iter().all(|record| !matches!(
        record.payload,
        TrajectoryPayload::GuidanceDelivered { shadow: false, .. }
            | TrajectoryPayload::FeedbackDelivered { shadow: false, .. }
    )));
    assert!(session.label_counts().iter().all(|count| *count == 0), "{:?}", session.label_counts());
    assert!(session.stderr.contains("to the agent (shadow mode)"), "{}", session.stderr);
}

fn check_shadow(client: Client) {
    let Some(trial) = Trial::of(client, loops(client)) else { return };
    let session = trial.run(&Hooks::Run(&["--shadow", "--deadline", "2h"]));
    check_not_delivered(&session, 2);
}

#[test]
fn claude_code_gets_no_message_in_shadow_mode() {
    check_shadow(Client::ClaudeCode);
}

#[test]
fn codex_gets_no_message_in_shadow_mode() {
    check_shadow(Client::Codex);
}

/// The configuration file of a project could switch off messages that the user wants, so midcourse
/// ignores the file until the user has approved it.
#[test]
fn a_projects_configuration_applies_once_it_is_approved() {
    for approved in [false, true] {
        let client = Client::Codex;
        let Some(trial) = Trial::of(client, loops(client)) else { return };
        let file = trial.folder().join("project/midcourse.toml");
        fs::write(&file, "mode = \"shadow\"\n").unwrap();
        if approved {
            let mut trust = Command::new(env!("CARGO_BIN_EXE_midcourse"));
            trust.args(["trust", "--yes"]).arg(&file);
            let home = trial.folder().join("midcourse");
            assert!(trust.env("MIDCOURSE_HOME", home).status().unwrap().success());
        }
        let session = trial.run(&Hooks::Run(&[]));
        let warns = session.stderr.contains("midcourse.toml: it is not approved");
        assert_eq!(warns, !approved, "{}", session.stderr);
        if approved {
            check_not_delivered(&session, 1);
        } else {
            assert_eq!(session.label_counts().last(), Some(&1));
        }
    }
}
