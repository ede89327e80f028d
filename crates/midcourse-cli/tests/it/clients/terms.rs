//! The terms of a launch, as the agent feels them: budgets, shadow, and whose configuration counts.

use std::fs;
use std::process::Command;

use midcourse::TrajectoryPayload;

use super::Client;
use super::script::{Asker, Script};
use super::trial::{Ended, Hooks, Trial, texts};

const LAST: &str = "I have finished.";

/// Calls of which no two are alike.
fn steps(client: Client, count: usize) -> Script {
    let call = |n: usize| client.shell(&format!("step-{n}"), &format!("echo {n} > file-{n}"));
    Script::of_calls((0..count).map(call), LAST)
}

/// The same failing call, over and over.
fn loops(client: Client) -> Script {
    let call = |n: usize| client.shell(&format!("loop-{n}"), "cat missing.txt");
    Script::of_calls((0..4).map(call), LAST)
}

fn ended_well(session: &Ended) {
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    assert_eq!(session.log(), "", "nothing went wrong");
}

/// Each answer of the scripted model is 520 tokens.
fn budgets_are_told(client: Client) {
    let Some(trial) = Trial::of(client, steps(client, 8)) else { return };
    let session = trial.run(&Hooks::Run(&["--max-calls", "6", "--max-tokens", "6000"]));
    ended_well(&session);
    let told = texts(&session.runs()[0]);
    let about = |words: &str| told.iter().filter(|text| text.contains(words)).count();
    assert_eq!(about("You have used 3 of 6 tool calls."), 1, "{told:?}");
    assert_eq!(about("You have used the budget of 6 tool calls."), 1, "{told:?}");
    assert_eq!(about("of 6000 tokens."), 1, "half of it: {told:?}");
    assert_eq!(session.told().last(), Some(&told.len()), "{told:?}");
    let main = &session.runs()[0];
    let counted = main.iter().filter(|record| record.payload.kind() == "usage_reported").count();
    assert_eq!(counted, session.asked_by(Asker::Main).len(), "each answer's tokens, once");
    session.replays_as_it_was();
}

#[test]
fn claude_code_is_told_what_is_left_of_its_budgets() {
    budgets_are_told(Client::ClaudeCode);
}

#[test]
fn codex_is_told_what_is_left_of_its_budgets() {
    budgets_are_told(Client::Codex);
}

/// What would have been said is on record, and none of it reached the agent.
fn nothing_but_a_record(session: &Ended, said: usize) {
    ended_well(session);
    let main = &session.runs()[0];
    assert_eq!(texts(main).len(), said, "{:?}", texts(main));
    assert!(main.iter().all(|record| !matches!(
        record.payload,
        TrajectoryPayload::GuidanceDelivered { shadow: false, .. }
            | TrajectoryPayload::FeedbackDelivered { shadow: false, .. }
    )));
    assert!(session.told().iter().all(|told| *told == 0), "{:?}", session.told());
    assert!(session.stderr.contains(" would have been said:"), "{}", session.stderr);
}

fn a_shadow_says_nothing(client: Client) {
    let Some(trial) = Trial::of(client, loops(client)) else { return };
    let session = trial.run(&Hooks::Run(&["--shadow", "--deadline", "2h"]));
    nothing_but_a_record(&session, 2);
}

#[test]
fn claude_code_hears_nothing_from_a_shadow() {
    a_shadow_says_nothing(Client::ClaudeCode);
}

#[test]
fn codex_hears_nothing_from_a_shadow() {
    a_shadow_says_nothing(Client::Codex);
}

/// A project's file could silence what its user wants to hear.
#[test]
fn a_projects_configuration_counts_once_it_is_approved() {
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
        let is_said = session.stderr.contains("midcourse.toml is not approved and is left out");
        assert_eq!(is_said, !approved, "{}", session.stderr);
        if approved {
            nothing_but_a_record(&session, 1);
        } else {
            assert_eq!(session.told().last(), Some(&1));
        }
    }
}
