//! `midcourse eval`, which runs the engine on scenarios (short written runs) and compares its
//! messages with those the scenarios expect: the score, the list of scenarios, and the thresholds
//! below which the command fails.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Scenarios in which the engine sends a message after the third equal failure, which is event 4.
/// The range of events in which the message is expected differs between the scenarios. The last
/// scenario expects a message about another pattern.
const LOOPS: &str = "\
# scenarios that expect a message
=== in-time
why: the third equal failure says enough
expect: repeated_error 4..5
user: go
4x bash make !! error: no rule

=== too-early
expect: repeated_error|doom_loop 5..5
user: go
4x bash make !! error: no rule
=== late
expect: repeated_error 2..3
user: go
4x bash make !! error: no rule
=== other-cause
expect: monologue 3..4
user: go
4x bash make !! error: no rule
";

const OTHERS: &str = "\
=== missed
expect: doom_loop 2..3
bash ls -> a b
read a -> one
read b -> two
=== stays-quiet
expect: quiet
bash ls -> a b
read a -> one
=== false-alarm
expect: quiet
3x bash make !! error: no rule
";

/// A folder with two scenario files, one of them in a subfolder, and a file that contains no
/// scenarios.
fn scenarios() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("loops.txt"), LOOPS).unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    std::fs::write(folder.path().join("more/others.txt"), OTHERS).unwrap();
    std::fs::write(folder.path().join("notes.md"), "no scenarios").unwrap();
    folder
}

/// Runs the command in a folder.
fn eval(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .arg("eval")
        .args(args)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_score_and_the_unexpected_results_are_printed() {
    let output = eval(&scenarios(), &["."]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    // The list below the score contains the texts of messages. They may change and have tests of
    // their own, so from the list only the names of the scenarios are compared here.
    let (score, list) = shown.split_once("\n\nNot as expected:\n").unwrap();
    insta::assert_snapshot!(score, @r"
    PATTERN         SCENARIOS  IN TIME  OTHER CAUSE  TOO EARLY  LATE  MISSED  RECALL  PRECISION  MEDIAN DELAY
    doom_loop               2        0            0          1     0       1     0 %          –             –
    monologue               1        1            1          0     0       0   100 %          –             1
    repeated_error          3        1            0          1     1       0    33 %       40 %             2

    2 of 5 caught in time (40 %; 1 of them with another cause), 1 too early, 1 late, 1 missed; 1 false alarms in 2 quiet scenarios (50 %).
    ");
    let lines: Vec<&str> =
        list.lines().map(|line| line.split(": ").next().unwrap().trim()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    ./loops.txt:8  too-early  too early
    expected   repeated_error|doom_loop 5..5
    delivered  event 4, repeated_error
    ./loops.txt:12  late  late
    expected   repeated_error 2..3
    delivered  event 4, repeated_error
    ./loops.txt:16  other-cause  in time, other cause
    expected   monologue 3..4
    delivered  event 4, repeated_error
    ./more/others.txt:1  missed  missed
    expected   doom_loop 2..3
    delivered  nothing
    ./more/others.txt:10  false-alarm  false alarm
    expected   quiet
    delivered  event 3, repeated_error
    ");
}

#[test]
fn calibration_compares_the_stated_confidence_with_the_verdicts() {
    let shown = text(&eval(&scenarios(), &[".", "--calibration"]).stdout);
    let table: Vec<&str> =
        shown.lines().skip_while(|line| !line.starts_with("STATED")).take(2).collect();
    // Of the five scenarios with a message, one got it too early, and one expects none.
    insta::assert_snapshot!(table.join("\n"), @r"
    STATED CONFIDENCE  MESSAGES  RIGHT  SHARE
    80–90 %                   5      3   60 %
    ");
}

#[test]
fn all_lists_the_expected_results_too() {
    let folder = scenarios();
    let all = text(&eval(&folder, &[".", "--all"]).stdout);
    for name in ["in-time  in time", "stays-quiet  quiet", "missed  missed"] {
        assert!(all.contains(name), "{all}");
    }
    let as_expected = "=== stays-quiet\nexpect: quiet\nbash ls -> a b\n";
    std::fs::write(folder.path().join("right.txt"), as_expected).unwrap();
    let shown = text(&eval(&folder, &["right.txt"]).stdout);
    insta::assert_snapshot!(shown, @"0 of 0 caught in time (–), 0 too early, 0 late, 0 missed; 0 false alarms in 1 quiet scenarios (0 %).");
}

#[test]
fn json_lines_contain_every_scenario_and_a_summary() {
    let output = eval(&scenarios(), &["loops.txt", "more", "--json"]);
    assert!(output.status.success());
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .collect();
    let (summary, scenarios) = lines.split_last().unwrap();
    let verdicts: Vec<_> = scenarios.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    let expected = ["in_time", "too_early", "late", "in_time", "missed", "quiet", "false_alarm"];
    assert_eq!(verdicts, expected);
    let early = &scenarios[1];
    assert_eq!((&early["type"], &early["name"]), (&"scenario".into(), &"too-early".into()));
    assert_eq!((&early["file"], &early["line"]), (&"loops.txt".into(), &8.into()));
    assert_eq!(
        early["expect"],
        json!({"patterns": ["repeated_error", "doom_loop"], "first": 5, "last": 5})
    );
    let delivery = &early["deliveries"][0];
    let fields = ["event", "call", "cause", "rung"].map(|name| &delivery[name]);
    assert_eq!(fields, [&json!(4), &json!(3), &json!("repeated_error"), &json!(1)]);
    assert!(delivery["text"].as_str().unwrap().len() > 20);
    assert_eq!(scenarios[3]["cause_as_expected"], false);
    assert_eq!(scenarios[5]["expect"], "quiet");
    assert_eq!(summary["type"], "summary");
    for (key, value) in [
        ("scenarios", 7),
        ("expect_message", 5),
        ("in_time", 2),
        ("too_early", 1),
        ("late", 1),
        ("missed", 1),
        ("other_cause", 1),
        ("expect_quiet", 2),
        ("false_alarms", 1),
    ] {
        assert_eq!(summary[key], value, "{key}");
    }
    assert_eq!(
        (&summary["caught_percent"], &summary["false_alarm_percent"]),
        (&json!(40.0), &json!(50.0))
    );
}

#[test]
fn a_missed_threshold_fails() {
    let folder = scenarios();
    let thresholds = ["--min-caught", "40", "--max-early", "1", "--max-false-alarms", "50"];
    let output = eval(&folder, &[&["."], thresholds.as_slice()].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (flag, value, problem) in [
        ("--min-caught", "40.1", "40.0 % were caught in time, less than 40.1 %"),
        ("--max-early", "0", "1 came too early, more than 0"),
        ("--max-false-alarms", "49", "50.0 % of the quiet scenarios got a message, more than 49 %"),
    ] {
        let output = eval(&folder, &[".", flag, value]);
        assert_eq!(output.status.code(), Some(1), "{flag}");
        assert_eq!(text(&output.stderr), format!("midcourse: {flag}: {problem}\n"));
        assert!(
            text(&output.stdout).contains("caught in time"),
            "the score is printed all the same"
        );
    }
    let quiet = "=== q\nexpect: quiet\nbash ls -> a b\n";
    std::fs::write(folder.path().join("quiet.txt"), quiet).unwrap();
    let output = eval(&folder, &["quiet.txt", "--min-caught", "1"]);
    assert_eq!(output.status.code(), Some(1), "a threshold that nothing measures is missed");
    assert_eq!(eval(&folder, &[".", "--min-caught", "101"]).status.code(), Some(2));
}

#[test]
fn errors_name_the_file_and_the_line() {
    let folder = scenarios();
    for (file, text_of_file, problem) in [
        (
            "a.txt",
            "=== a\nexpect: loop 1..2\nbash a -> b",
            "a.txt:2: unknown pattern \"loop\"; use one of",
        ),
        ("b.txt", "=== a\nexpect: quiet\n\nbash a", "b.txt:4: a call needs ` -> result`"),
        ("c.txt", "# nothing\n", "these files contain no scenarios"),
        (
            "d.txt",
            "\n=== late\nexpect: quiet\nbash a -> b",
            "d.txt:2: loops.txt:12 has a scenario `late` too; rename one",
        ),
    ] {
        std::fs::write(folder.path().join(file), text_of_file).unwrap();
        let args = if file == "d.txt" { vec!["loops.txt", file] } else { vec![file] };
        let output = eval(&folder, &args);
        assert_eq!(output.status.code(), Some(1), "{file}");
        let shown = text(&output.stderr);
        assert!(shown.starts_with(&format!("midcourse: {problem}")), "{shown}");
    }
    assert_eq!(eval(&folder, &["missing.txt"]).status.code(), Some(1));
}

#[test]
fn the_example_in_the_documentation_is_as_expected() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("example.txt"), example).unwrap();
    let shown = text(&eval(&folder, &["example.txt"]).stdout);
    assert!(shown.contains("1 of 1 caught in time"), "{shown}");
    assert!(shown.contains("0 false alarms in 1 quiet scenarios"), "{shown}");
    assert!(!shown.contains("Not as expected"), "{shown}");
}
