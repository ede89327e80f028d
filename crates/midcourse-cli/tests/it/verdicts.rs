//! The project's own scenarios (short written runs in `testdata/scenarios`). Checks that
//! `midcourse eval` meets its thresholds on them, and that a scenario gets the same messages from
//! `eval`, which is one process, as from `midcourse record` with a new process for each event.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use midcourse::{TrajectoryRecord, parse_notation_events};
use serde_json::Value;

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenarios")
}

/// A message for the agent: the number of the event after which it was sent, and its text.
type Message = (u64, String);

/// The messages of every scenario by its name, from `midcourse eval`.
fn evaluated() -> BTreeMap<String, Vec<Message>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    let output = command.args(["eval", "--json"]).arg(suite()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let message =
        |it: &Value| (it["event"].as_u64().unwrap(), it["text"].as_str().unwrap().to_owned());
    lines
        .filter(|line| line["type"] == "scenario")
        .map(|line| {
            let messages = line["deliveries"].as_array().unwrap().iter().map(message).collect();
            (line["name"].as_str().unwrap().to_owned(), messages)
        })
        .collect()
}

/// The name of every scenario and, for each of its events, the records of that event.
fn scenarios() -> Vec<(String, Vec<Vec<TrajectoryRecord>>)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(suite()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    let texts = files.iter().map(|file| format!("\n{}", std::fs::read_to_string(file).unwrap()));
    let texts: Vec<String> = texts.collect();
    let scenarios = texts.iter().flat_map(|text| text.split("\n=== ").skip(1));
    scenarios
        .map(|scenario| {
            let (name, lines) = scenario.split_once('\n').unwrap();
            let is_label = |line: &str| line.starts_with("why:") || line.starts_with("expect:");
            let run: Vec<&str> = lines.lines().filter(|line| !is_label(line.trim())).collect();
            (name.trim().to_owned(), parse_notation_events(&run.join("\n")).unwrap())
        })
        .collect()
}

/// Records each event of a run in a process of its own, and returns the messages in the replies.
fn recorded_by_processes(
    name: &str,
    events: &[Vec<TrajectoryRecord>],
    home: &Path,
) -> Vec<Message> {
    let mut messages = Vec::new();
    for (event, records) in (1..).zip(events) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .args(["record", "--run", name])
            .env("MIDCOURSE_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for record in records {
            writeln!(input, "{}", serde_json::to_string(record).unwrap()).unwrap();
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        for reply in String::from_utf8(output.stdout).unwrap().lines() {
            let reply: Value = serde_json::from_str(reply).unwrap();
            for delivery in reply["deliveries"].as_array().unwrap() {
                // `eval` leaves out messages about a deadline or a budget, so leave them out here
                // too: they come from other providers than `course_correction`.
                if delivery["provider"] == "course_correction" {
                    messages.push((event, delivery["text"].as_str().unwrap().to_owned()));
                }
            }
        }
    }
    messages
}

#[test]
fn our_suite_meets_its_thresholds() {
    let output = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .arg("eval")
        .arg(suite())
        .args(["--min-caught", "95", "--max-early", "0", "--max-false-alarms", "2"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_run_recorded_by_short_processes_brings_the_same_messages() {
    let home = tempfile::tempdir().unwrap();
    let (expected, scenarios) = (evaluated(), scenarios());
    assert_eq!(expected.len(), scenarios.len());
    let mut with_messages = 0;
    for (name, events) in scenarios.iter().step_by(29) {
        let messages = recorded_by_processes(name, events, home.path());
        assert_eq!(&messages, &expected[name], "{name}");
        with_messages += usize::from(!messages.is_empty());
    }
    assert!(with_messages > 3, "{with_messages} of the compared runs have messages");
}
