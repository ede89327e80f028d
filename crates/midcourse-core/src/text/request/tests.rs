//! Tests of how requests are read.

use super::*;
use proptest::prelude::*;

fn asks(text: &str, what: Request) -> bool {
    Request::of(text).has(what)
}

#[test]
fn requests_for_repeated_runs_are_recognized() {
    for text in [
        "Run TestReconnect ten times, I want to know whether it is stable",
        "take 5 samples of it",
        "is the login test flaky?",
        "Watch the price every 10 minutes for two hours",
        "poll the endpoint every 5s until it is back",
        "check every minute",
        "look at it every few minutes",
    ] {
        assert!(asks(text, Request::REPEAT), "{text}");
    }
    for text in [
        "it failed two days ago; keep going until the tests pass",
        "sometimes it runs, sometimes not",
        "make the parser 10 times faster",
        "CI failed 3 times, please fix it",
        "fix the flaky login test",
        "rename it in every file, and run the tests after each",
        "characters that are next to each other are different",
        "check every export for use outside its file",
    ] {
        assert!(!asks(text, Request::REPEAT), "{text}");
    }
}

#[test]
fn requests_whose_results_are_failures_are_recognized() {
    for text in [
        "Check the 30 links and list the dead ones.",
        "Go through the error cases of the CLI by hand",
        "verify that none of these hosts is reachable any more",
        "Verify that the account locks after 10 wrong passwords",
        "every request without a token must be rejected",
    ] {
        assert!(asks(text, Request::FAILURES), "{text}");
    }
    for text in [
        "make the failing tests pass",
        "the deploy is broken, fix it",
        "my login is rejected; check the config and fix it",
        "I get this error message when I start the app",
    ] {
        assert!(!asks(text, Request::FAILURES), "{text}");
    }
}

#[test]
fn requests_to_check_a_list_are_recognized() {
    for text in [
        "which of these ten hosts answers on 5432?",
        "confirm that the token gets 403 on all endpoints",
    ] {
        assert!(asks(text, Request::LIST), "{text}");
    }
    for text in ["check why the build fails", "fix all warnings, check with make", "list all files"]
    {
        assert!(!asks(text, Request::LIST), "{text}");
    }
}

#[test]
fn a_user_who_says_how_long_it_takes_asks_for_patience() {
    assert!(asks("Tell me when it is done. It takes about two hours.", Request::PATIENCE));
    assert!(!asks("It takes too long, make it faster.", Request::PATIENCE));
}

#[test]
fn requests_that_keep_the_behaviour_are_recognized() {
    assert!(asks("Refactor the parser without changing its output", Request::PRESERVE));
    assert!(!asks("make the parser faster", Request::PRESERVE));
}

#[test]
fn messages_of_the_harness_are_recognized() {
    for text in ["Continue.", "No tool call found in your reply. Please use a tool."] {
        assert!(is_automatic(text, false), "{text}");
    }
    assert!(is_automatic("Is the work done? Then call submit.", true));
    for text in ["Is the work done? Then call submit.", "yes", "You did it!"] {
        assert!(!is_automatic(text, false), "{text}");
    }
    assert!(!is_automatic("yes", true));
}

#[test]
fn a_summary_of_the_host_is_not_a_request() {
    let start = "This session is being continued from a previous conversation that ran out";
    assert!(is_summary(start));
    assert!(!is_summary("This session is about the parser"));
    assert!(is_automatic("[resumed] Continue where you left off.", false));
}

#[test]
fn requests_for_one_change_and_for_each_object_are_recognized() {
    assert!(asks("Fix this one word, nothing else.", Request::ONLY));
    assert!(asks("Fix only that; no other changes please.", Request::ONLY));
    assert!(!asks("Add a docstring to each file. No other changes.", Request::ONLY));
    assert!(asks("Register the 14 trainees, one registration each.", Request::EACH));
    assert!(!asks("Look at it each time, and test after each.", Request::EACH));
    assert!(!asks("Book it only that week", Request::ONLY));
    assert!(!asks("Fix each failing test", Request::EACH));
    assert!(asks("Do 30 power cycles and read the boot line", Request::REPEAT));
    assert!(!asks("The last cycles were slow", Request::REPEAT));
    assert!(asks("Document all messages by provoking each of them", Request::FAILURES));
}

proptest! {
    #[test]
    fn reading_never_panics(text in "(every |times|5 |s |é|flaky|\\?){0,40}") {
        Request::of(&text);
        is_automatic(&text, false);
    }
}
