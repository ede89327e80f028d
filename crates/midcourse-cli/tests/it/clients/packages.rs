//! Agents that call their model with the official Python packages of OpenAI and Anthropic, started
//! by `midcourse run` or connected to `midcourse proxy`.

use std::path::PathBuf;

use midcourse::TrajectoryRecord;

use super::insertions;
use super::model::ModelRequest;
use super::package::{Api, Ended, KEY, Package, Trial};
use super::recorded::{count, model_messages, user_messages};
use super::script::{AGENT_TASK, Piece, Requester, Script, TASK, Turn};
use super::standalone::Proxy;
use super::times;
use super::trial::{calls, texts};

const LAST: &str = "I have finished – “well” 😀.";

/// The beginning of midcourse's message to an agent that repeats the same call.
const LOOP_MESSAGE: &str = " 3 times and it failed the same way each time";

fn turns(responses: Vec<Vec<Piece>>) -> Vec<Turn> {
    responses.into_iter().map(Turn::Response).collect()
}

/// The model's responses: a text with a call that succeeds, a call that fails, three parallel
/// calls, and then the same failing call five times.
fn script() -> Script {
    let shell = Package::shell;
    let mut main = vec![
        vec![
            Piece::text("I begin – “so” \\ é 日本 😀 </script>\u{2028}."),
            shell("a-fine", "printf 'h\\303\\244llo\\t\"\\\\x\\033[0m\\n'"),
        ],
        vec![shell("b-fails", "echo out; echo err >&2; exit 3")],
        vec![shell("c-one", "echo 1"), shell("c-two", "exit 4"), shell("c-six", "echo 6")],
    ];
    let loops = (1..=5).map(|n| vec![shell(&format!("loop-{n}"), "cat missing.txt")]);
    main.extend(loops);
    main.push(vec![Piece::text(LAST)]);
    Script { main: turns(main), subagent: Vec::new() }
}

/// Compares an agent that ran with midcourse (`ended`) with one that ran without (`bare`), and
/// checks what midcourse recorded. Returns the records of the run.
fn check(trial: &Trial, ended: &Ended, bare: &Ended) -> Vec<TrajectoryRecord> {
    assert_eq!((ended.code, &ended.stdout), (bare.code, &bare.stdout), "{}", ended.stderr);
    assert_eq!(ended.sent.len(), bare.sent.len(), "the number of requests is the same");
    let recorded = trial.recorded();
    assert_eq!(recorded.log(), "", "there were no problems");
    assert_eq!(recorded.files_with(KEY), Vec::<PathBuf>::new());
    recorded.assert_replay_is_equal();
    let [(_, run)] = recorded.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    for (kind, expected) in [("run_started", 1), ("run_ended", 1), ("unread", 0), ("gap", 0)] {
        assert_eq!(count(&run, kind), expected, "{kind}");
    }
    let received = bodies(&trial.requests(), Requester::Main);
    insertions::check(&run, &received, &ended.sent);
    assert_eq!(model_messages(&run), received.len(), "each response is recorded once");
    run
}

fn bodies(requests: &[ModelRequest], requester: Requester) -> Vec<Vec<u8>> {
    let requests = requests.iter().filter(|request| request.requester == requester);
    requests.map(|request| request.raw.clone()).collect()
}

fn check_session(api: Api, streams: bool) {
    let package = Package { api, streams };
    let (Some(bare), Some(trial)) = (Trial::of(package, script()), Trial::of(package, script()))
    else {
        return;
    };
    let bare = bare.run_bare(&[TASK]);
    assert_eq!((bare.code, bare.stdout.trim()), (Some(0), LAST), "{}", bare.stderr);
    let ended = trial.run(&["--deadline", "2h", "--max-calls", "8"], &[TASK]);
    let run = check(&trial, &ended, &bare);
    assert_eq!(user_messages(&run), [TASK]);
    let failed = match api {
        // A tool result in OpenAI's API has no error flag, so midcourse records none, and `calls`
        // shows every call as `ok`.
        Api::OpenAi => "ok",
        Api::Anthropic => "failed",
    };
    let mut expected = vec![
        "a-fine ok".to_owned(),
        format!("b-fails {failed}"),
        "c-one ok".to_owned(),
        "c-six ok".to_owned(),
        format!("c-two {failed}"),
    ];
    expected.extend((1..=5).map(|n| format!("loop-{n} {failed}")));
    assert_eq!(calls(&run), expected);

    let requests = trial.requests();
    let first_with =
        |text: &str| requests.iter().position(|request| times(&request.body, text) > 0);
    let messages = texts(&run);
    let about = |part: &str| -> Vec<&String> {
        messages.iter().filter(|text| text.contains(part)).collect()
    };
    let [loop_message] = about(LOOP_MESSAGE)[..] else { panic!("{messages:?}") };
    assert_eq!(first_with(loop_message), first_with("loop-3"), "after the third call");
    let [deadline_message] = about("There is a deadline")[..] else { panic!("{messages:?}") };
    assert_eq!(first_with(deadline_message), Some(0));
    for (part, call) in [("used 4 of 8", "c-two"), ("the budget of 8 tool calls", "loop-3")] {
        let budget_messages: Vec<_> = messages.iter().filter(|text| text.contains(part)).collect();
        let [budget_message] = budget_messages[..] else { panic!("{part}: {messages:?}") };
        assert_eq!(first_with(budget_message), first_with(call));
    }
}

#[test]
fn an_openai_session_is_recorded_and_gets_a_message_about_its_loop() {
    check_session(Api::OpenAi, false);
}

#[test]
fn a_streaming_openai_session_is_recorded_and_gets_a_message_about_its_loop() {
    check_session(Api::OpenAi, true);
}

#[test]
fn an_anthropic_session_is_recorded_and_gets_a_message_about_its_loop() {
    check_session(Api::Anthropic, false);
}

#[test]
fn a_streaming_anthropic_session_is_recorded_and_gets_a_message_about_its_loop() {
    check_session(Api::Anthropic, true);
}

/// The proxy sends requests on without waiting for midcourse's messages. A message that is not
/// ready is added to a later request or never, so this test checks the records only.
#[test]
fn a_session_whose_requests_do_not_wait_is_recorded() {
    for (api, streams) in [(Api::OpenAi, true), (Api::Anthropic, false)] {
        let package = Package { api, streams };
        let trial = || Trial::of(package, script());
        let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
        let (bare, trial) = (bare.run_bare(&[TASK]), trial.without_waiting());
        let ended = trial.run(&["--deadline", "2h", "--max-calls", "8"], &[TASK]);
        let run = check(&trial, &ended, &bare);
        assert_eq!((user_messages(&run), calls(&run).len()), (vec![TASK.to_owned()], 10));
    }
}

#[test]
fn a_chat_without_tools_is_one_run() {
    for api in [Api::OpenAi, Api::Anthropic] {
        for streams in [false, true] {
            let package = Package { api, streams };
            let main = turns(vec![vec![Piece::text("And then?")], vec![Piece::text(LAST)]]);
            let script = Script { main, subagent: Vec::new() };
            let trial = || Trial::of(package, script.clone());
            let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
            let bare = bare.run_bare(&["--chat", TASK]);
            let ended = trial.run(&["--deadline", "2h"], &["--chat", TASK]);
            let run = check(&trial, &ended, &bare);
            assert_eq!(user_messages(&run), [TASK, "go on"], "{package:?}");
            assert_eq!(calls(&run), [""; 0]);
        }
    }
}

/// Runs two independent agents at the same time with one proxy. One agent's call reads from a named
/// pipe and waits until the other agent's call writes to it, so the runs really overlap.
fn check_two_agents(api: Api, streams: bool) {
    let shell = Package::shell;
    let main = turns(vec![
        vec![shell("a-reads", "cat < to-a")],
        vec![shell("a-writes", "echo hello > to-b")],
        vec![Piece::text(LAST)],
    ]);
    let subagent = turns(vec![
        vec![shell("b-writes", "echo hello > to-a")],
        vec![shell("b-reads", "cat < to-b")],
        vec![Piece::text(LAST)],
    ]);
    let package = Package { api, streams };
    let Some(trial) = Trial::of(package, Script { main, subagent }) else { return };
    for name in ["to-a", "to-b"] {
        let pipe = trial.project().join(name);
        let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success());
    }
    let proxy = Proxy::start(trial.address(), &trial.data_dir());
    let run = |task: &str| trial.run_at(proxy.variables(), &[task]);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| run(AGENT_TASK));
        (run(TASK), second.join().unwrap())
    });
    proxy.stop();
    let requests = trial.requests();
    let recorded = trial.recorded();
    assert_eq!(recorded.log(), "");
    let runs = recorded.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for (task, ended, requester, expected) in [
        (TASK, first, Requester::Main, ["a-reads ok", "a-writes ok"]),
        (AGENT_TASK, second, Requester::Subagent, ["b-reads ok", "b-writes ok"]),
    ] {
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), LAST), "{}", ended.stderr);
        let (summary, run) = runs.iter().find(|(_, run)| user_messages(run) == [task]).unwrap();
        assert_eq!(summary.parent_run_id, None, "neither is a subagent");
        assert_eq!(calls(run), expected);
        assert_eq!(model_messages(run), 3);
        insertions::check(run, &bodies(&requests, requester), &ended.sent);
    }
}

#[test]
fn two_concurrent_agents_are_two_runs() {
    check_two_agents(Api::OpenAi, false);
    check_two_agents(Api::Anthropic, true);
}
