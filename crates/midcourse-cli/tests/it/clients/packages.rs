//! Agents on the packages for Python, with `midcourse run` or a proxy between them and their model.

use std::path::PathBuf;

use midcourse::TrajectoryRecord;

use super::carried;
use super::kept::{answers, count, words};
use super::model::Asked;
use super::package::{Api, Ended, KEY, Package, Trial};
use super::script::{AGENT_TASK, Asker, Piece, Script, TASK, Turn};
use super::standalone::Proxy;
use super::times;
use super::trial::{calls, texts};

const LAST: &str = "I have finished – “well” 😀.";

/// What is said of a loop begins so.
const OF_LOOP: &str = "You made the same tool call 3 times";

fn turns(answers: Vec<Vec<Piece>>) -> Vec<Turn> {
    answers.into_iter().map(Turn::Answers).collect()
}

/// Words, a call that works, one that fails, three at once, and a loop.
fn script() -> Script {
    let shell = Package::shell;
    let mut main = vec![
        vec![
            Piece::says("I begin – “so” \\ é 日本 😀 </script>\u{2028}."),
            shell("a-fine", "printf 'h\\303\\244llo\\t\"\\\\x\\033[0m\\n'"),
        ],
        vec![shell("b-fails", "echo out; echo err >&2; exit 3")],
        vec![shell("c-one", "echo 1"), shell("c-two", "exit 4"), shell("c-six", "echo 6")],
    ];
    let loops = (1..=5).map(|n| vec![shell(&format!("loop-{n}"), "cat missing.txt")]);
    main.extend(loops);
    main.push(vec![Piece::says(LAST)]);
    Script { main: turns(main), agent: Vec::new() }
}

/// What holds of every run that is over and was watched by the proxy alone.
fn check(trial: &Trial, ended: &Ended, bare: &Ended) -> Vec<TrajectoryRecord> {
    assert_eq!((ended.code, &ended.stdout), (bare.code, &bare.stdout), "{}", ended.stderr);
    assert_eq!(ended.sent.len(), bare.sent.len(), "asks as often");
    let kept = trial.kept();
    assert_eq!(kept.log(), "", "nothing went wrong");
    assert_eq!(kept.files_with(KEY), Vec::<PathBuf>::new());
    kept.replays_as_it_was();
    let [(_, run)] = kept.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    for (kind, expected) in [("run_started", 1), ("run_ended", 1), ("unread", 0), ("gap", 0)] {
        assert_eq!(count(&run, kind), expected, "{kind}");
    }
    let got = bodies(&trial.asked(), Asker::Main);
    carried::check(&run, &got, &ended.sent);
    assert_eq!(answers(&run), got.len(), "each answer once");
    run
}

fn bodies(asked: &[Asked], asker: Asker) -> Vec<Vec<u8>> {
    let by = asked.iter().filter(|asked| asked.asker == asker);
    by.map(|asked| asked.raw.clone()).collect()
}

fn a_session(api: Api, streams: bool) {
    let package = Package { api, streams };
    let (Some(bare), Some(trial)) = (Trial::of(package, script()), Trial::of(package, script()))
    else {
        return;
    };
    let bare = bare.run_bare(&[TASK]);
    assert_eq!((bare.code, bare.stdout.trim()), (Some(0), LAST), "{}", bare.stderr);
    let ended = trial.run(&["--deadline", "2h", "--max-calls", "8"], &[TASK]);
    let run = check(&trial, &ended, &bare);
    assert_eq!(words(&run), [TASK]);
    let failed = match api {
        // This API has no word for a call that failed.
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

    let asked = trial.asked();
    let first_with = |words: &str| asked.iter().position(|asked| times(&asked.body, words) > 0);
    let told = texts(&run);
    let about = |words: &str| -> Vec<&String> {
        told.iter().filter(|text| text.starts_with(words)).collect()
    };
    let [of_loop] = about(OF_LOOP)[..] else { panic!("{told:?}") };
    assert_eq!(first_with(of_loop), first_with("loop-3"), "right after the third");
    let [of_deadline] = about("There is a deadline")[..] else { panic!("{told:?}") };
    assert_eq!(first_with(of_deadline), Some(0));
    for (words, call) in [("used 4 of 8", "c-two"), ("the budget of 8 tool calls", "loop-3")] {
        let of_budget: Vec<_> = told.iter().filter(|text| text.contains(words)).collect();
        let [of_budget] = of_budget[..] else { panic!("{words}: {told:?}") };
        assert_eq!(first_with(of_budget), first_with(call));
    }
}

#[test]
fn a_session_on_openai_is_on_record_and_is_told_of_its_loop() {
    a_session(Api::OpenAi, false);
}

#[test]
fn a_session_on_openai_that_streams_is_on_record_and_is_told_of_its_loop() {
    a_session(Api::OpenAi, true);
}

#[test]
fn a_session_on_anthropic_is_on_record_and_is_told_of_its_loop() {
    a_session(Api::Anthropic, false);
}

#[test]
fn a_session_on_anthropic_that_streams_is_on_record_and_is_told_of_its_loop() {
    a_session(Api::Anthropic, true);
}

/// What comes too late for a request comes with another or not at all; the rest is as ever.
#[test]
fn a_session_that_waits_for_nothing_is_on_record() {
    for (api, streams) in [(Api::OpenAi, true), (Api::Anthropic, false)] {
        let package = Package { api, streams };
        let trial = || Trial::of(package, script());
        let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
        let (bare, trial) = (bare.run_bare(&[TASK]), trial.in_a_hurry());
        let ended = trial.run(&["--deadline", "2h", "--max-calls", "8"], &[TASK]);
        let run = check(&trial, &ended, &bare);
        assert_eq!((words(&run), calls(&run).len()), (vec![TASK.to_owned()], 10));
    }
}

/// Nothing but words, and the user speaks twice.
#[test]
fn a_chat_without_tools_is_one_run() {
    for api in [Api::OpenAi, Api::Anthropic] {
        for streams in [false, true] {
            let package = Package { api, streams };
            let main = turns(vec![vec![Piece::says("And then?")], vec![Piece::says(LAST)]]);
            let script = Script { main, agent: Vec::new() };
            let trial = || Trial::of(package, script.clone());
            let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
            let bare = bare.run_bare(&["--chat", TASK]);
            let ended = trial.run(&["--deadline", "2h"], &["--chat", TASK]);
            let run = check(&trial, &ended, &bare);
            assert_eq!(words(&run), [TASK, "go on"], "{package:?}");
            assert_eq!(calls(&run), [""; 0]);
        }
    }
}

/// Each waits for the other in the middle of a call, so that both are under way for sure.
fn two_at_once(api: Api, streams: bool) {
    let shell = Package::shell;
    let main = turns(vec![
        vec![shell("a-hears", "cat < to-a")],
        vec![shell("a-says", "echo hello > to-b")],
        vec![Piece::says(LAST)],
    ]);
    let agent = turns(vec![
        vec![shell("b-says", "echo hello > to-a")],
        vec![shell("b-hears", "cat < to-b")],
        vec![Piece::says(LAST)],
    ]);
    let package = Package { api, streams };
    let Some(trial) = Trial::of(package, Script { main, agent }) else { return };
    for name in ["to-a", "to-b"] {
        let pipe = trial.project().join(name);
        let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success());
    }
    let proxy = Proxy::start(trial.address(), &trial.home());
    let run = |task: &str| trial.run_at(proxy.variables(), &[task]);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| run(AGENT_TASK));
        (run(TASK), second.join().unwrap())
    });
    proxy.stop();
    let asked = trial.asked();
    let kept = trial.kept();
    assert_eq!(kept.log(), "");
    let runs = kept.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for (task, ended, asker, expected) in [
        (TASK, first, Asker::Main, ["a-hears ok", "a-says ok"]),
        (AGENT_TASK, second, Asker::Agent, ["b-hears ok", "b-says ok"]),
    ] {
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), LAST), "{}", ended.stderr);
        let (summary, run) = runs.iter().find(|(_, run)| words(run) == [task]).unwrap();
        assert_eq!(summary.parent_run_id, None, "nobody works for the other");
        assert_eq!(calls(run), expected);
        assert_eq!(answers(run), 3);
        carried::check(run, &bodies(&asked, asker), &ended.sent);
    }
}

#[test]
fn two_agents_at_once_are_two_runs() {
    two_at_once(Api::OpenAi, false);
    two_at_once(Api::Anthropic, true);
}
