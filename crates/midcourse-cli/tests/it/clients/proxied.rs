//! Claude Code with the proxy between it and its model, beside its hooks and without them: all is on
//! record once, and it is the proxy that speaks.

use std::fs;

use midcourse::{TrajectoryPayload, TrajectoryRecord};
use serde_json::Value;

use super::anthropic::Messages;
use super::kept::{answers, count, words};
use super::model::Dialect as _;
use super::script::{AGENT_TASK, Asker, Script, TASK};
use super::sessions::{CALLS, CALLS_OF_AGENT, LAST, script};
use super::standalone::Proxy;
use super::tee::Tee;
use super::trial::{Ended, Hooks, RUN, Trial, calls, texts};
use super::{Client, carried, times};

/// What is said of a loop begins so.
const OF_LOOP: &str = "You made the same tool call 3 times";

/// What Claude Code puts in front of the words of a hook.
const OF_HOOKS: &str = "hook additional context";

fn trial() -> Option<Trial> {
    Trial::of(Client::ClaudeCode, script(Client::ClaudeCode))
}

/// The requests of somebody that hold words, by number.
fn with(session: &Ended, asker: Asker, words: &str) -> Vec<usize> {
    let asked = session.asked_by(asker);
    let holds = |(number, body)| (times(body, words) > 0).then_some(number);
    asked.into_iter().enumerate().filter_map(holds).collect()
}

/// The words that stay, and those for one request only.
fn said(records: &[TrajectoryRecord]) -> [Vec<String>; 2] {
    let is_feedback = |record: &TrajectoryRecord| {
        matches!(record.payload, TrajectoryPayload::FeedbackDelivered { .. })
    };
    let (stay, pass): (Vec<_>, Vec<_>) = records.iter().cloned().partition(is_feedback);
    [texts(&stay), texts(&pass)]
}

/// What holds of the session of [`script`] whatever else was said; returns its run and its agent's.
fn check(session: &Ended, hooks: &Hooks) -> [Vec<TrajectoryRecord>; 2] {
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    assert_eq!(session.log(), "", "nothing went wrong");
    let [main, agent] =
        session.runs().try_into().unwrap_or_else(|runs: Vec<_>| panic!("{} runs", runs.len()));
    let is_hooked = !matches!(hooks, Hooks::None);
    // Only hooks know how a session ends, that a call was refused, and that what begins a helper's
    // conversation is nobody's word but the input of a call.
    let task: &[&str] = if is_hooked { &[] } else { &[AGENT_TASK] };
    let outcomes = |calls: &str| match is_hooked {
        true => calls.to_owned(),
        false => calls.replace("denied", "failed"),
    };
    for (run, asker, user, expected) in
        [(&main, Asker::Main, &[TASK][..], CALLS), (&agent, Asker::Agent, task, CALLS_OF_AGENT)]
    {
        let ends = usize::from(is_hooked);
        for (kind, expected) in [("run_started", 1), ("run_ended", ends), ("unread", 0), ("gap", 0)]
        {
            assert_eq!(count(run, kind), expected, "{kind}");
        }
        assert_eq!(words(run), user);
        assert_eq!(answers(run), session.asked_by(asker).len(), "each answer once");
        assert_eq!(calls(run).join("\n"), outcomes(expected));
    }
    let loops = with(session, Asker::Main, OF_LOOP);
    assert_eq!(loops, [with(session, Asker::Main, "loop-3")[0]], "right after the third, and only");
    session.replays_as_it_was();
    [main, agent]
}

/// Not one word came by a hook.
fn only_the_proxy_speaks(session: &Ended) {
    for asked in &session.asked {
        assert_eq!(times(&asked.body, OF_HOOKS), 0, "{}", asked.body);
    }
    for run in session.runs() {
        let [_, guidance] = said(&run);
        for text in guidance {
            let times: Vec<_> = session.asked.iter().map(|it| times(&it.body, &text)).collect();
            assert_eq!(times.iter().sum::<usize>(), 1, "is for one request: {text}: {times:?}");
        }
    }
}

#[test]
fn a_session_with_hooks_and_proxy_is_on_record_once_and_is_told_by_the_proxy() {
    let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
    let bare = bare.run(&Hooks::None);
    let hooks = Hooks::Proxied(&[]);
    let session = trial.run(&hooks);
    let [_, agent] = check(&session, &hooks);
    assert_eq!(texts(&agent), [""; 0], "the agent did nothing wrong");
    only_the_proxy_speaks(&session);
    assert_eq!((session.code, session.answer()), (bare.code, bare.answer()));
    // What a helper hands back has an id in it.
    let results = |ended: &Ended| {
        let mut results = ended.results();
        results.retain(|result| !result.contains("h-agent"));
        results
    };
    assert_eq!(results(&session), results(&bare), "nothing stays of what was said");
    assert_eq!(session.asked.len(), bare.asked.len(), "the model is asked as often");
}

#[test]
fn budgets_are_told_by_the_proxy_once_and_for_good() {
    let client = Client::ClaudeCode;
    let call = |n: usize| client.shell(&format!("step-{n}"), &format!("echo {n} > file-{n}"));
    let script = Script::of_calls((1..=8).map(call), LAST);
    let Some(trial) = Trial::of(client, script) else { return };
    let session = trial.run(&Hooks::Proxied(&["--deadline", "2h", "--max-calls", "6"]));
    assert_eq!((session.code, session.answer().as_str()), (Some(0), LAST), "{}", session.stderr);
    assert_eq!(session.log(), "");
    only_the_proxy_speaks(&session);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    let [feedback, guidance] = said(&main);
    let is_deadline = |text: &String| text.starts_with("There is a deadline");
    assert!(guidance.len() == 1 && guidance.iter().all(is_deadline), "{guidance:?}");
    assert_eq!(with(&session, Asker::Main, &guidance[0]), [0]);
    let steps = ["3 of 6 tool calls", "5 of 6 tool calls", "the budget of 6 tool calls"];
    for (words, call) in steps.into_iter().zip(["step-3", "step-5", "step-6"]) {
        assert_eq!(feedback.iter().filter(|text| text.contains(words)).count(), 1, "{feedback:?}");
        assert_eq!(with(&session, Asker::Main, words), with(&session, Asker::Main, call));
        let asked = session.asked_by(Asker::Main);
        assert!(asked.iter().all(|body| times(body, words) <= 1), "{words}");
    }
    assert_eq!(feedback.len(), steps.len(), "{feedback:?}");
    session.replays_as_it_was();
}

/// What a client sent of somebody's questions, in order.
fn sent(tee: &Tee, asker: Asker) -> Vec<Vec<u8>> {
    let requests = tee.requests().into_iter();
    let questions = requests
        .filter(|request| request.method == "POST" && request.path.ends_with(Messages::PATH))
        .map(|request| (serde_json::from_slice::<Value>(&request.body).unwrap(), request.body));
    let mut of_asker: Vec<_> =
        questions.filter(|(body, _)| Messages::asker(body) == asker).collect();
    // A conversation grows.
    of_asker.sort_by_key(|(body, _)| body["messages"].as_array().unwrap().len());
    of_asker.into_iter().map(|(_, raw)| raw).collect()
}

/// The client's bytes reach the model, and ours beside them.
fn through_a_proxy_started_by_hand(hooks: &Hooks) {
    let Some(trial) = trial() else { return };
    let home = trial.folder().join("midcourse");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("midcourse.toml"), "[budget]\ncalls = 12\n").unwrap();
    let proxy = Proxy::start(trial.model(), &home);
    let (server, path) = proxy.address("ANTHROPIC_BASE_URL");
    let tee = Tee::start(server);
    let session = trial.with_address(format!("http://{}{path}", tee.address)).run(hooks);
    proxy.stop();
    let [main, agent] = check(&session, hooks);
    only_the_proxy_speaks(&session);
    let [feedback, _] = said(&main);
    assert_eq!(feedback.len(), 3, "{feedback:?}");
    for (run, asker) in [(&*main, Asker::Main), (&*agent, Asker::Agent), (&[], Asker::Side)] {
        let got = session.asked.iter().filter(|asked| asked.asker == asker);
        let got: Vec<_> = got.map(|asked| asked.raw.clone()).collect();
        carried::check(run, &got, &sent(&tee, asker));
    }
}

#[test]
fn a_proxy_started_by_hand_leaves_the_bytes_as_they_are() {
    through_a_proxy_started_by_hand(&Hooks::None);
}

#[test]
fn a_proxy_started_by_hand_speaks_beside_hooks() {
    through_a_proxy_started_by_hand(&RUN);
}
