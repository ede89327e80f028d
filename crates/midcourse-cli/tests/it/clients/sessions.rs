//! Whole sessions: what is on record of them, and what the agent was told.

use serde_json::json;

use super::script::{AGENT_ID, AGENT_TASK, Asker, Piece, Script, Turn};
use super::trial::{Ended, Hooks, RUN, Trial, calls, texts};
use super::{Client, times};

pub(crate) const LAST: &str = "I have finished.";

/// The calls of the session and of its agent in Claude Code, and how they end.
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

pub(crate) const CALLS_OF_AGENT: &str = "\
x-fails failed
x-fine ok
y-forbidden denied";

/// Everything that a session can hold: calls that return, fail, are refused and cannot be made,
/// several at once, an agent with calls of its own, and in the end a loop.
pub(crate) fn script(client: Client) -> Script {
    let shell = |id: &str, command: &str| client.shell(id, command);
    let mut main = vec![
        vec![Piece::says("I begin."), shell("a-fine", "echo hello")],
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
            let of_agents = |id: &str, tool: &str, input| match Piece::call(id, tool, input) {
                Piece::Calls { id, tool, input, .. } => {
                    Piece::Calls { id, group: Some("multi_agent_v1"), tool, input }
                }
                says @ Piece::Says(_) => says,
            };
            let task = json!({"message": AGENT_TASK});
            main.push(vec![Piece::call("e-unknown", "no_such_tool", json!({"a": 1}))]);
            main.push(vec![Piece::call("f-invalid", "exec_command", json!({}))]);
            main.push(vec![of_agents("h-agent", "spawn_agent", task)]);
            main.push(vec![of_agents("h-wait", "wait_agent", json!({"targets": [AGENT_ID]}))]);
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
        vec![Piece::says(LAST)],
    ]);
    let agent = vec![
        vec![shell("x-fine", "echo in the corner")],
        vec![shell("x-fails", "exit 5")],
        vec![client.forbidden("y-forbidden")],
        vec![Piece::says("The corner is empty.")],
    ];
    let turns = |turns: Vec<Vec<Piece>>| turns.into_iter().map(Turn::Answers).collect();
    Script { main: turns(main), agent: turns(agent) }
}

/// What holds of such a session whoever the client is; returns the calls of the session and of
/// its agent.
fn check(session: &Ended) -> [Vec<String>; 2] {
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    assert_eq!(session.log(), "", "nothing went wrong");
    let runs = session.runs();
    let [main, agent] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    for (kind, count) in [("run_started", 1), ("run_ended", 1), ("unread", 0), ("gap", 0)] {
        for run in [main, agent] {
            let found = run.iter().filter(|record| record.payload.kind() == kind).count();
            assert_eq!(found, count, "{kind}");
        }
    }
    assert_eq!(texts(agent), [""; 0], "the agent did nothing wrong");

    // The loop is told in the request that comes after its third call; all that is told stays in
    // every later request, once.
    let asked = session.asked_by(Asker::Main);
    let holds = |words: &str| asked.iter().position(|body| times(body, words) > 0);
    let told = texts(main);
    let of_loop = told.iter().find(|text| text.starts_with("You made the same tool call 3 times"));
    let of_loop = of_loop.unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(holds(of_loop), holds("loop-3"));
    for text in &told {
        let first = holds(text).unwrap_or_else(|| panic!("was not delivered: {text}"));
        for later in asked.iter().skip(first) {
            assert_eq!(times(later, text), 1, "{text}");
        }
    }
    assert_eq!(session.told().last(), Some(&told.len()), "all that was said is on record");
    session.replays_as_it_was();
    [calls(main), calls(agent)]
}

#[test]
fn a_session_of_claude_code_is_on_record_and_is_told_of_its_loop() {
    let Some(trial) = Trial::of(Client::ClaudeCode, script(Client::ClaudeCode)) else { return };
    let [main, agent] = check(&trial.run(&RUN));
    assert_eq!((main.join("\n").as_str(), agent.join("\n").as_str()), (CALLS, CALLS_OF_AGENT));
}

#[test]
fn a_session_of_codex_is_on_record_and_is_told_of_its_loop() {
    let Some(trial) = Trial::of(Client::Codex, script(Client::Codex)) else { return };
    let [main, agent] = check(&trial.run(&RUN));
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
    insta::assert_snapshot!(agent.join("\n"), @r"
    x-fails failed
    x-fine ok
    y-forbidden denied
    ");
}

/// A session that ends in a loop, and is taken up again in the same one.
fn a_session_that_is_resumed_is_one_run(client: Client) {
    let fails = |id: &str| Turn::Answers(vec![client.shell(id, "cat missing.txt")]);
    let says = |text: &str| Turn::Answers(vec![Piece::says(text)]);
    let main = vec![
        fails("loop-1"),
        fails("loop-2"),
        fails("loop-3"),
        says("I give up."),
        fails("loop-4"),
        Turn::Answers(vec![client.forbidden("m-forbidden")]),
        says(LAST),
    ];
    let script = Script { main, agent: Vec::new() };
    let Some(trial) = Trial::of(client, script) else { return };
    let session = trial.run_and_resume(&RUN);
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    assert_eq!(
        calls(&main),
        ["loop-1 failed", "loop-2 failed", "loop-3 failed", "loop-4 failed", "m-forbidden denied"]
    );
    for (kind, count) in [("run_started", 1), ("resumed", 1), ("run_ended", 2)] {
        let found = main.iter().filter(|record| record.payload.kind() == kind).count();
        assert_eq!(found, count, "{kind}");
    }
    assert_eq!(texts(&main).len(), 1, "what was said before is not said again");
    assert_eq!(session.told(), [0, 0, 0, 1, 1, 1, 1]);
    session.replays_as_it_was();
}

#[test]
fn a_session_of_claude_code_that_is_resumed_is_one_run() {
    a_session_that_is_resumed_is_one_run(Client::ClaudeCode);
}

#[test]
fn a_session_of_codex_that_is_resumed_is_one_run() {
    a_session_that_is_resumed_is_one_run(Client::Codex);
}

/// Runs a session in which nothing goes wrong; checks that each call is on record.
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
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    assert_eq!(calls(&main), commands.map(|(id, _)| format!("{id} ok")));
    Some(session)
}

fn a_clean_session_is_told_nothing(client: Client) {
    let Some(session) = clean_session(client, &RUN) else { return };
    let words = session.asked.iter().map(|asked| times(&asked.body, "midcourse"));
    assert_eq!(words.sum::<usize>(), 0, "no word of ours, and no trace of the hooks");
}

fn a_clean_session_is_told_its_deadline(client: Client) {
    let hooks = Hooks::Run(&["--deadline", "2h"]);
    let Some(session) = clean_session(client, &hooks) else { return };
    let texts = texts(&session.runs()[0]);
    assert!(matches!(&texts[..], [text] if text.starts_with("There is a deadline: ")), "{texts:?}");
    let told = session.told();
    assert!(told.iter().all(|told| *told == 1), "from the first request on: {told:?}");
}

#[test]
fn a_clean_session_of_claude_code_is_told_nothing() {
    a_clean_session_is_told_nothing(Client::ClaudeCode);
}

#[test]
fn a_clean_session_of_codex_is_told_nothing() {
    a_clean_session_is_told_nothing(Client::Codex);
}

#[test]
fn a_clean_session_of_claude_code_is_told_its_deadline() {
    a_clean_session_is_told_its_deadline(Client::ClaudeCode);
}

#[test]
fn a_clean_session_of_codex_is_told_its_deadline() {
    a_clean_session_is_told_its_deadline(Client::Codex);
}
