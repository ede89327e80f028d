//! `midcourse demo` and `midcourse replay`: what they print, and how they fail.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::events::TempStore;

fn midcourse(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn demo(home: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.arg("demo").env("MIDCOURSE_HOME", home).output().unwrap()
}

#[test]
fn the_demo_agent_loops_gets_a_message_through_its_hooks_and_recovers() {
    let place = TempStore::new();
    let output = demo(place.data_dir().path());
    let (shown, summary) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}{summary}");
    for expected in [
        "the UserPromptSubmit hook replies:",
        "There is a deadline: 10 minutes remaining.",
        "the PostToolUseFailure hook replies:",
        "it failed the same way each time",
        "built for release",
        "The agent: The build passes.",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(summary.contains("midcourse: Finished after "), "{summary}");
    assert!(summary.contains("calls: 6, 3 failed or refused"), "{summary}");
    assert!(summary.contains("(the problem went away after 3 calls)"), "{summary}");
    assert!(summary.contains("details: midcourse report demo-"), "{summary}");
    assert!(summary.trim_end().lines().count() <= 13, "{summary}");

    let store = place.open();
    let run = store.runs(9).unwrap().remove(0);
    assert_eq!((run.host.as_str(), run.calls, run.errors, run.deliveries), ("demo", 6, 3, 2));
    assert!(run.ended.is_some());
    assert!(place.findings().is_empty());
    let kinds: Vec<_> =
        store.trajectory(run.run_id.as_str()).unwrap().iter().map(|it| it.payload.kind()).collect();
    assert!(kinds.contains(&"outcome") && kinds.contains(&"deadline_set"), "{kinds:?}");
}

#[test]
fn a_demo_without_a_store_fails_and_names_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let output = demo(&file);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("The agent: I give up."));
    assert!(errors.contains("the agent did not recover; see "), "{errors}");
}

#[test]
fn replay_reads_notation() {
    let output = midcourse(&["replay"], "4x bash make !! error: no rule\n");
    insta::assert_snapshot!(text(&output.stdout), @r#"
    call    3  pattern  the same calls over and over (doom_loop, 85 % sure: records 2, 5, 8)
    call    3  pattern  the same error again and again (repeated_error, 90 % sure: records 2, 5, 8)
    call    3  message  (the same error again and again):
                         You ran "make" 3 times and it failed the same way each time, with nothing in between. Read the whole error. If it names nothing to change, begin with the smallest call that works, and add one part at a time.
    4 calls, 4 failed or refused; 1 message.
    "#);
}

#[test]
fn replay_of_records_and_of_notation_print_the_same() {
    let notation = "user: go\n4x bash make !! error: no rule\nbash make -> built all of it\n";
    let records = midcourse::parse_notation(notation).unwrap();
    let lines: String =
        records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
    let (from_text, from_json) =
        (midcourse(&["replay", "--json"], notation), midcourse(&["replay", "--json", "-"], &lines));
    assert_eq!(text(&from_text.stdout), text(&from_json.stdout));
    let kinds: Vec<String> = text(&from_json.stdout)
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["pattern", "pattern", "delivery", "outcome", "run"]);
}

#[test]
fn errors_are_on_standard_error_with_exit_code_1() {
    for (args, input, expected) in [
        (
            vec!["replay", "no/such/file"],
            "",
            "midcourse: cannot read no/such/file (for a stored run, use `--run no/such/file`): No such \
             file or directory (os error 2)\n",
        ),
        (
            vec!["replay"],
            "{\"a\": 1}",
            "midcourse: standard input: line 1 is not a trajectory record: missing field `seq` at \
             line 1 column 8\n",
        ),
        (
            vec!["replay"],
            "bash make",
            "midcourse: standard input: line 1: a call needs ` -> result`, ` !! error`, ` xx \
             reason` or ` ..` after it\n",
        ),
        (
            vec!["replay"],
            "# nothing\n",
            "midcourse: standard input contains no records; expected a session file, records as \
             JSON lines, or notation\n",
        ),
    ] {
        let output = midcourse(&args, input);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stderr), expected);
        assert!(output.stdout.is_empty());
    }
    assert_eq!(midcourse(&["--bogus"], "").status.code(), Some(2));
}
