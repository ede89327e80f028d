//! Claude Code with midcourse's proxy, with and without hooks. Proxy and hooks report the same
//! events, but each event is recorded once, and only the proxy gives messages to the agent.

use std::fs;

use midcourse::{TrajectoryPayload, TrajectoryRecord};
use serde_json::Value;

use super::anthropic::Messages;
use super::model::ModelApi as _;
use super::recorded::{count, model_messages, user_messages};
use super::script::{AGENT_TASK, Requester, Script, TASK};
use super::sessions::{CALLS, LAST, SUBAGENT_CALLS, script};
use super::standalone::Proxy;
use super::tee::Tee;
use super::trial::{Ended, Hooks, RUN, Trial, calls, texts};
use super::{Client, insertions, times};

/// The beginning of midcourse's message to an agent that repeats the same call.
const LOOP_MESSAGE: &str = " times and it failed the same way each time";

/// The text that Claude Code puts before a hook's message in a model request.
const HOOK_MARK: &str = "hook additional context";

fn trial() -> Option<Trial> {
    Trial::of(Client::ClaudeCode, script(Client::ClaudeCode))
}

/// The indices of the requests of `requester` that contain a text.
fn with(session: &Ended, requester: Requester, text: &str) -> Vec<usize> {
    let requests = session.requests_of(requester);
    let contains = |(number, body)| (times(body, text) > 0).then_some(number);
    requests.into_iter().enumerate().filter_map(contains).collect()
}

/// The texts of all feedback of a run (messages about a tool call), and of all its guidance
/// (messages about what to do next).
fn messages(records: &[TrajectoryRecord]) -> [Vec<String>; 2] {
    let is_feedback = |record: &TrajectoryRecord| {
        matches!(record.payload, TrajectoryPayload::FeedbackDelivered { .. })
    };
    let (feedback, guidance): (Vec<_>, Vec<_>) = records.iter().cloned().partition(is_feedback);
    [texts(&feedback), texts(&guidance)]
}

/// Checks the session of [`script`]. Returns the runs of the main agent and of the subagent.
fn check(session: &Ended, hooks: &Hooks) -> [Vec<TrajectoryRecord>; 2] {
    session.assert_finished(LAST);
    assert_eq!(session.log(), "", "there were no problems");
    let [main, subagent] =
        session.runs().try_into().unwrap_or_else(|runs: Vec<_>| panic!("{} runs", runs.len()));
    let is_hooked = !matches!(hooks, Hooks::None);
    // The proxy sees only model requests. Without hooks, it therefore cannot record the end of the
    // session, records refused calls as failed, and takes a subagent's task for a user message.
    let task: &[&str] = if is_hooked { &[] } else { &[AGENT_TASK] };
    let outcomes = |calls: &str| match is_hooked {
        true => calls.to_owned(),
        false => calls.replace("denied", "failed"),
    };
    for (run, requester, user, expected) in [
        (&main, Requester::Main, &[TASK][..], CALLS),
        (&subagent, Requester::Subagent, task, SUBAGENT_CALLS),
    ] {
        let ends = usize::from(is_hooked);
        for (kind, expected) in [("run_started", 1), ("run_ended", ends), ("unread", 0), ("gap", 0)]
        {
            assert_eq!(count(run, kind), expected, "{kind}");
        }
        assert_eq!(user_messages(run), user);
        assert_eq!(model_messages(run), session.requests_of(requester).len(), "each response once");
        assert_eq!(calls(run).join("\n"), outcomes(expected));
    }
    let loops = with(session, Requester::Main, LOOP_MESSAGE);
    let third = with(session, Requester::Main, "loop-3")[0];
    // A message about the many failures before may come just before the message about the loop, and
    // delay it by one call.
    let [told] = loops[..] else { panic!("{:?}", messages(&main)) };
    assert!((third..=third + 1).contains(&told), "request {told}: {:?}", messages(&main));
    session.assert_replay_is_equal();
    [main, subagent]
}

/// Checks that no request contains a message from a hook, which would stay in the conversation, and
/// that each guidance message is in one request only.
fn assert_only_the_proxy_delivers(session: &Ended) {
    for request in &session.requests {
        assert_eq!(times(&request.body, HOOK_MARK), 0, "{}", request.body);
    }
    for run in session.runs() {
        let [_, guidance] = messages(&run);
        for text in guidance {
            let times: Vec<_> = session.requests.iter().map(|it| times(&it.body, &text)).collect();
            assert_eq!(
                times.iter().sum::<usize>(),
                1,
                "guidance is in one request: {text}: {times:?}"
            );
        }
    }
}

#[test]
fn with_hooks_and_a_proxy_everything_is_recorded_once_and_the_proxy_delivers() {
    let (Some(bare), Some(trial)) = (trial(), trial()) else { return };
    let bare = bare.run(&Hooks::None);
    let hooks = Hooks::Proxied(&[]);
    let session = trial.run(&hooks);
    let [_, subagent] = check(&session, &hooks);
    assert_eq!(texts(&subagent), [""; 0], "the subagent gets no message");
    assert_only_the_proxy_delivers(&session);
    assert_eq!((session.code, session.final_message()), (bare.code, bare.final_message()));
    // The result of the call that starts a subagent contains an id that differs between runs, so
    // this result is not compared.
    let results = |ended: &Ended| {
        let mut results = ended.results();
        results.retain(|result| !result.contains("h-agent"));
        results
    };
    assert_eq!(results(&session), results(&bare), "no message stays in the conversation");
    assert_eq!(
        session.requests.len(),
        bare.requests.len(),
        "the number of model requests is the same"
    );
}

#[test]
fn the_proxy_delivers_budget_messages_once_and_they_stay() {
    let client = Client::ClaudeCode;
    let call = |n: usize| client.shell(&format!("step-{n}"), &format!("echo {n} > file-{n}"));
    let script = Script::of_calls((1..=8).map(call), LAST);
    let Some(trial) = Trial::of(client, script) else { return };
    let session = trial.run(&Hooks::Proxied(&["--deadline", "2h", "--max-calls", "6"]));
    session.assert_finished(LAST);
    assert_eq!(session.log(), "");
    assert_only_the_proxy_delivers(&session);
    let [main] = session.runs().try_into().unwrap_or_else(|runs| panic!("{runs:?}"));
    let [feedback, guidance] = messages(&main);
    let is_deadline = |text: &String| text.starts_with("There is a deadline");
    assert!(guidance.len() == 1 && guidance.iter().all(is_deadline), "{guidance:?}");
    assert_eq!(with(&session, Requester::Main, &guidance[0]), [0]);
    let steps = ["3 of 6 tool calls", "5 of 6 tool calls", "the budget of 6 tool calls"];
    for (text, call) in steps.into_iter().zip(["step-3", "step-5", "step-6"]) {
        assert_eq!(feedback.iter().filter(|it| it.contains(text)).count(), 1, "{feedback:?}");
        assert_eq!(with(&session, Requester::Main, text), with(&session, Requester::Main, call));
        let requests = session.requests_of(Requester::Main);
        assert!(requests.iter().all(|body| times(body, text) <= 1), "{text}");
    }
    assert_eq!(feedback.len(), steps.len(), "{feedback:?}");
    session.assert_replay_is_equal();
}

/// The bodies of the model requests that the client sent for `requester`, in order.
fn sent(tee: &Tee, requester: Requester) -> Vec<Vec<u8>> {
    let requests = tee.requests().into_iter();
    let bodies = requests
        .filter(|request| request.method == "POST" && request.path.ends_with(Messages::PATH))
        .map(|request| (serde_json::from_slice::<Value>(&request.body).unwrap(), request.body));
    let mut bodies: Vec<_> =
        bodies.filter(|(body, _)| Messages::requester(body) == requester).collect();
    // A conversation only grows, so sorting by length gives the order of its requests.
    bodies.sort_by_key(|(body, _)| body["messages"].as_array().unwrap().len());
    bodies.into_iter().map(|(_, raw)| raw).collect()
}

/// Runs the client with `midcourse proxy`, and compares the bytes that the client sent to the proxy
/// with those that reached the model: only midcourse's messages may differ.
fn check_standalone_proxy(hooks: &Hooks) {
    let Some(trial) = trial() else { return };
    let data_dir = trial.folder().join("midcourse");
    fs::create_dir(&data_dir).unwrap();
    fs::write(data_dir.join("midcourse.toml"), "[budget]\ncalls = 12\n").unwrap();
    let proxy = Proxy::start(trial.model(), &data_dir);
    let (server, path) = proxy.address("ANTHROPIC_BASE_URL");
    let tee = Tee::start(server);
    let session = trial.with_address(format!("http://{}{path}", tee.address)).run(hooks);
    proxy.stop();
    let [main, subagent] = check(&session, hooks);
    assert_only_the_proxy_delivers(&session);
    let [feedback, _] = messages(&main);
    assert_eq!(feedback.len(), 3, "{feedback:?}");
    for (run, requester) in
        [(&*main, Requester::Main), (&*subagent, Requester::Subagent), (&[], Requester::Client)]
    {
        let received = session.requests.iter().filter(|it| it.requester == requester);
        let received: Vec<_> = received.map(|request| request.raw.clone()).collect();
        insertions::check(run, &received, &sent(&tee, requester));
    }
}

#[test]
fn a_standalone_proxy_changes_no_other_byte() {
    check_standalone_proxy(&Hooks::None);
}

#[test]
fn a_standalone_proxy_delivers_while_hooks_only_record() {
    check_standalone_proxy(&RUN);
}
