//! Whole sessions of coding agents: what is recorded, and which messages the agent gets.

use midcourse::SummaryState;
use serde_json::json;

use super::script::{AGENT_ID, AGENT_TASK, Piece, Requester, Script, TASK, Turn};
use super::trial::{Ended, Hooks, RUN, Trial, calls, texts};
use super::{Client, times};

pub(crate) const LAST: &str = "I have finished.";

/// The calls that Claude Code's main agent makes in `script`, sorted by id: the id and how the
/// call ends (`denied` means that the client refused it).
pub(crate) const CALLS: &str = "\
a-fine ok
b-fails failed
c-forbidden denied
d-not-granted denied
e-unknown failed
f-invalid failed
h-agent ok
i-four ok
i-one ok
i-three denied
i-two failed
loop-1 failed
loop-2 failed
loop-3 failed
loop-4 failed
z-on ok";

pub(crate) const SUBAGENT_CALLS: &str = "\
x-fails failed
x-fine ok
y-forbidden denied";

/// The model's responses in a session with everything that can happen: calls that succeed, fail,
/// are refused by the client or name an unknown tool, parallel calls, a subagent with its own
/// calls, and at the end a loop (the same call again and again).
pub(crate) fn script(client: Client) -> Script {
    let shell = |id: &str, command: &str| client.shell(id, command);
    let mut main = vec![
        vec![Piece::text("I begin."), shell("a-fine", "echo hello")],
        vec![shell("b-fails", "echo out; echo err >&2; exit 3")],
        vec![client.forbidden("c-forbidden")],
    ];
    match client {
        Client::ClaudeCode => {
            let address = json!({"url": "http://127.0.0.1:1/", "prompt": "what is it"});
            let agent = json!({"description": "a corner", "prompt": AGENT_TASK,
                               "subagent_type": "general-purpose", "run_in_background": false});
            main.push(vec![Piece::call("d-not-granted", "WebFetch", address)]);
            main.push(vec![Piece::call("e-unknown", "NoSuchTool", json!({"a": 1}))]);
            main.push(vec![Piece::call("f-invalid", "Read", json!({}))]);
            main.push(vec![Piece::call("h-agent", "Agent", agent)]);
        }
        Client::Codex => {
            let agent_call = |id: &str, tool: &str, input| match Piece::call(id, tool, input) {
                Piece::ToolCall { id, tool, input, .. } => {
                    Piece::ToolCall { id, group: Some("multi_agent_v1"), tool, input }
                }
                text @ Piece::Text(_) => text,
            };
            let task = json!({"message": AGENT_TASK});
            main.push(vec![Piece::call("e-unknown", "no_such_tool", json!({"a": 1}))]);
            main.push(vec![Piece::call("f-invalid", "exec_command", json!({}))]);
            main.push(vec![agent_call("h-agent", "spawn_agent", task)]);
            main.push(vec![agent_call("h-wait", "wait_agent", json!({"targets": [AGENT_ID]}))]);
        }
    }
    main.extend([
        vec![
            shell("i-one", "echo 1"),
            shell("i-two", "exit 4"),
            client.forbidden("i-three"),
            shell("i-four", "echo 4"),
        ],
        vec![shell("loop-1", "cat missing.txt")],
        vec![shell("loop-2", "cat missing.txt")],
        vec![shell("loop-3", "cat missing.txt")],
        vec![shell("loop-4", "cat missing.txt")],
        vec![shell("z-on", "echo another way")],
        vec![Piece::text(LAST)],
    ]);
    let subagent = vec![
        vec![shell("x-fine", "echo in the corner")],
        vec![shell("x-fails", "exit 5")],
        vec![client.forbidden("y-forbidden")],
        vec![Piece::text("The corner is empty.")],
    ];
    let turns = |turns: Vec<Vec<Piece>>| turns.into_iter().map(Turn::Response).collect();
    Script { main: turns(main), subagent: turns(subagent) }
}

/// Checks a session of `script`, except for the list of calls, which differs between clients.
/// Returns the calls of the main agent and of the subagent.
fn check(session: &Ended) -> [Vec<String>; 2] {
    session.assert_finished(LAST);
    assert_eq!(session.log(), "", "there were no problems");
    let runs = session.runs();
    let [main, subagent] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    for (kind, count) in [("run_started", 1), ("run_ended", 1), ("unread", 0), ("gap", 0)] {
        for run in [main, subagent] {
            let found = run.iter().filter(|record| record.payload.kind() == kind).count();
            assert_eq!(found, count, "{kind}");
        }
    }
    assert_eq!(texts(subagent), [""; 0], "the subagent gets no message");

    // The model request that contains the result of the third equal call also contains midcourse's
    // message about the loop, or the next one does: a message about the many failures before may
    // come first. Every later request contains each earlier message of midcourse exactly once.
    let requests = session.requests_of(Requester::Main);
    let first_with = |text: &str| requests.iter().position(|body| times(body, text) > 0);
    let messages = texts(main);
    let loop_message =
        messages.iter().find(|text| text.contains(" times and it failed the same way"));
    let told = loop_message.and_then(|message| first_with(message));
    let is_in_time =
        told.is_some() && (first_with("loop-3")..=first_with("loop-4")).contains(&told);
    assert!(is_in_time, "{messages:?}");
    for text in &messages {
        let first = first_with(text).unwrap_or_else(|| panic!("was not delivered: {text}"));
        for later in requests.iter().skip(first) {
            assert_eq!(times(later, text), 1, "{text}");
        }
    }
    assert_eq!(session.label_counts().last(), Some(&messages.len()), "every message is recorded");
    session.assert_replay_is_equal();
    check_summary(session);
    [calls(main), calls(subagent)]
}

/// Checks that the row of the run says what the session was about and how it ended.
fn check_summary(session: &Ended) {
    let run = session.summary();
    assert_eq!(run.task.as_deref(), Some(TASK));
    assert!(run.folder.as_ref().unwrap().ends_with("/project"), "{run:?}");
    assert!(run.command.as_ref().unwrap().contains(TASK), "{run:?}");
    assert!(run.model.is_some() && run.host_version.is_some(), "{run:?}");
    assert!(run.tokens.is_some_and(|tokens| tokens.output_tokens > 0), "{run:?}");
    assert_eq!((run.exit_code, run.outcome.as_deref()), (Some(0), Some("completed")));
    assert_eq!(run.state, SummaryState::Current);
    assert!(run.findings.patterns.contains_key("doom_loop"), "{run:?}");
}

#[test]
fn a_claude_code_session_is_recorded_and_gets_a_message_about_its_loop() {
    let Some(trial) = Trial::of(Client::ClaudeCode, script(Client::ClaudeCode)) else { return };
    let [main, subagent] = check(&trial.run(&RUN));
    assert_eq!((main.join("\n").as_str(), subagent.join("\n").as_str()), (CALLS, SUBAGENT_CALLS));
}

#[test]
fn a_codex_session_is_recorded_and_gets_a_message_about_its_loop() {
    let Some(trial) = Trial::of(Client::Codex, script(Client::Codex)) else { return };
    let [main, subagent] = check(&trial.run(&RUN));
    insta::assert_snapshot!(main.join("\n"), @r"
    a-fine ok
    b-fails failed
    c-forbidden denied
    e-unknown failed
    f-invalid failed
    h-agent ok
    h-wait ok
    i-four ok
    i-one ok
    i-three denied
    i-two failed
    loop-1 failed
    loop-2 failed
    loop-3 failed
    loop-4 failed
    z-on ok
    ");
    insta::assert_snapshot!(subagent.join("\n"), @r"
    x-fails failed
    x-fine ok
    y-forbidden denied
    ");
}

/// The agent repeats a failing call three times and gives up; then the user resumes the session,
/// and the agent makes the same call again. Checks that both parts are one run with one message.
fn check_resumed_session(client: Client) {
    let fails = |id: &str| Turn::Response(vec![client.shell(id, "cat missing.txt")]);
    let text = |text: &str| Turn::Response(vec![Piece::text(text)]);
    let main = vec![
        fails("loop-1"),
        fails("loop-2"),
        fails("loop-3"),
        text("I give up."),
        fails("loop-4"),
        Turn::Response(vec![client.forbidden("m-forbidden")]),
        text(LAST),
    ];
    let script = Script { main, subagent: Vec::new() };
    let Some(trial) = Trial::of(client, script) else { return };
    let session = trial.run_and_resume(&RUN);
    session.assert_finished(LAST);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    assert_eq!(
        calls(&main),
        ["loop-1 failed", "loop-2 failed", "loop-3 failed", "loop-4 failed", "m-forbidden denied"]
    );
    for (kind, count) in [("run_started", 1), ("resumed", 1), ("run_ended", 2)] {
        let found = main.iter().filter(|record| record.payload.kind() == kind).count();
        assert_eq!(found, count, "{kind}");
    }
    assert_eq!(texts(&main).len(), 1, "the earlier message is not repeated");
    assert_eq!(session.label_counts(), [0, 0, 0, 1, 1, 1, 1]);
    session.assert_replay_is_equal();
}

#[test]
fn a_resumed_claude_code_session_is_one_run() {
    check_resumed_session(Client::ClaudeCode);
}

#[test]
fn a_resumed_codex_session_is_one_run() {
    check_resumed_session(Client::Codex);
}

/// Runs a session without trouble and checks that every call is recorded.
fn clean_session(client: Client, hooks: &Hooks) -> Option<Ended> {
    let commands = [
        ("a", "printf 'one\\ntwo\\n' > list.txt"),
        ("b", "wc -l list.txt"),
        ("c", "sort -r list.txt"),
        ("d", "mkdir done && mv list.txt done"),
        ("e", "ls done"),
        ("f", "echo all is well"),
    ];
    let steps = commands.map(|(id, command)| client.shell(id, command));
    let session = Trial::of(client, Script::of_calls(steps, LAST))?.run(hooks);
    session.assert_finished(LAST);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    assert_eq!(calls(&main), commands.map(|(id, _)| format!("{id} ok")));
    Some(session)
}

fn check_no_message(client: Client) {
    let Some(session) = clean_session(client, &RUN) else { return };
    let mentions = session.requests.iter().map(|request| times(&request.body, "midcourse"));
    assert_eq!(mentions.sum::<usize>(), 0, "no message and no trace of the hooks");
}

fn check_deadline_message(client: Client) {
    let hooks = Hooks::Run(&["--deadline", "2h"]);
    let Some(session) = clean_session(client, &hooks) else { return };
    let texts = texts(&session.runs()[0]);
    assert!(matches!(&texts[..], [text] if text.starts_with("There is a deadline: ")), "{texts:?}");
    let labels = session.label_counts();
    assert!(labels.iter().all(|count| *count == 1), "from the first request on: {labels:?}");
}

#[test]
fn a_claude_code_session_without_trouble_gets_no_message() {
    check_no_message(Client::ClaudeCode);
}

#[test]
fn a_codex_session_without_trouble_gets_no_message() {
    check_no_message(Client::Codex);
}

#[test]
fn a_claude_code_session_is_told_its_deadline() {
    check_deadline_message(Client::ClaudeCode);
}

#[test]
fn a_codex_session_is_told_its_deadline() {
    check_deadline_message(Client::Codex);
}
