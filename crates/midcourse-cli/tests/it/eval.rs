//! Labelled scenarios through the command: the score, the list, the lines that are to be held.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use midcourse::{Budget, Engine};
use midcourse_cli::scenario::{judge, read_scenarios};

/// One scenario for each verdict, and one word about something else. A call that fails three times
/// in the same way is spoken of with the third.
const LOOPS: &str = "\
# what a word is due about
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
=== about-something-else
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
=== speaks
expect: quiet
3x bash make !! error: no rule
";

/// A folder with the two files.
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
fn the_score_and_what_went_wrong() {
    let output = eval(&scenarios(), &["."]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    // What exactly is said is not the business of this command.
    let (score, list) = shown.split_once("\n\nNot as expected:\n").unwrap();
    insta::assert_snapshot!(score, @r"
    PATTERN         SCENARIOS  IN TIME  NAMED OTHERWISE  TOO EARLY  LATE  MISSED  RECALL  PRECISION  EVENTS AFTER FIRST
    doom_loop               2        0                0          1     0       1     0 %          –                   –
    monologue               1        1                1          0     0       0   100 %          –                   1
    repeated_error          3        1                0          1     1       0    33 %       40 %                   2

    2 of 5 caught in time (40 %; 1 of them with a word about something else), 1 too early, 1 late, 1 missed; 1 of 2 quiet ones spoken to (50 %).
    ");
    let lines: Vec<&str> =
        list.lines().map(|line| line.split(": ").next().unwrap().trim()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    ./loops.txt:8  too-early  too early
    expected  repeated_error|doom_loop 5..5
    came      event 4, repeated_error
    ./loops.txt:12  late  late
    expected  repeated_error 2..3
    came      event 4, repeated_error
    ./loops.txt:16  about-something-else  in time, about something else
    expected  monologue 3..4
    came      event 4, repeated_error
    ./more/others.txt:1  missed  missed
    expected  doom_loop 2..3
    came      nothing
    ./more/others.txt:10  speaks  spoken to
    expected  quiet
    came      event 3, repeated_error
    ");
}

#[test]
fn all_scenarios_are_listed_when_asked_for() {
    let folder = scenarios();
    let all = text(&eval(&folder, &[".", "--all"]).stdout);
    for name in ["in-time  in time", "stays-quiet  quiet", "missed  missed"] {
        assert!(all.contains(name), "{all}");
    }
    let right = "=== stays-quiet\nexpect: quiet\nbash ls -> a b\n";
    std::fs::write(folder.path().join("right.txt"), right).unwrap();
    let shown = text(&eval(&folder, &["right.txt"]).stdout);
    insta::assert_snapshot!(shown, @"0 of 0 caught in time (–), 0 too early, 0 late, 0 missed; 0 of 1 quiet ones spoken to (0 %).");
}

#[test]
fn as_lines_of_json() {
    let output = eval(&scenarios(), &["loops.txt", "more", "--json"]);
    assert!(output.status.success());
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .collect();
    let (summary, scenarios) = lines.split_last().unwrap();
    let verdicts: Vec<_> = scenarios.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    let expected = ["in_time", "too_early", "late", "in_time", "missed", "quiet", "spoken"];
    assert_eq!(verdicts, expected);
    let early = &scenarios[1];
    assert_eq!((&early["type"], &early["name"]), (&"scenario".into(), &"too-early".into()));
    assert_eq!((&early["file"], &early["line"]), (&"loops.txt".into(), &8.into()));
    assert_eq!(
        early["expect"],
        json!({"patterns": ["repeated_error", "doom_loop"], "first": 5, "last": 5})
    );
    let word = &early["words"][0];
    assert_eq!((&word["event"], &word["pattern"]), (&4.into(), &"repeated_error".into()));
    assert_eq!(word["rung"], 1);
    assert!(word["text"].as_str().unwrap().len() > 20);
    assert_eq!(scenarios[3]["named_as_expected"], false);
    assert_eq!(scenarios[5]["expect"], "quiet");
    assert_eq!(summary["type"], "summary");
    for (key, value) in [
        ("scenarios", 7),
        ("expect_word", 5),
        ("in_time", 2),
        ("too_early", 1),
        ("late", 1),
        ("missed", 1),
        ("named_otherwise", 1),
        ("expect_quiet", 2),
        ("spoken", 1),
    ] {
        assert_eq!(summary[key], value, "{key}");
    }
    assert_eq!(
        (&summary["caught_percent"], &summary["spoken_percent"]),
        (&json!(40.0), &json!(50.0))
    );
}

#[test]
fn a_line_can_be_held() {
    let folder = scenarios();
    let held = ["--min-caught", "40", "--max-early", "1", "--max-spoken", "50"];
    let output = eval(&folder, &[&["."], held.as_slice()].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (flag, value, told) in [
        ("--min-caught", "40.1", "40.0 % were caught in time, less than 40.1 %"),
        ("--max-early", "0", "1 came too early, more than 0"),
        ("--max-spoken", "49", "50.0 % of the quiet ones were spoken to, more than 49 %"),
    ] {
        let output = eval(&folder, &[".", flag, value]);
        assert_eq!(output.status.code(), Some(1), "{flag}");
        assert_eq!(text(&output.stderr), format!("midcourse: {told}\n"));
        assert!(text(&output.stdout).contains("caught in time"), "the score is told all the same");
    }
    let quiet = "=== q\nexpect: quiet\nbash ls -> a b\n";
    std::fs::write(folder.path().join("quiet.txt"), quiet).unwrap();
    let output = eval(&folder, &["quiet.txt", "--min-caught", "1"]);
    assert_eq!(output.status.code(), Some(1), "what measures nothing holds no line");
    assert_eq!(eval(&folder, &[".", "--min-caught", "101"]).status.code(), Some(2));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let folder = scenarios();
    for (file, wrong, told) in [
        ("a.txt", "=== a\nexpect: loop 1..2\nbash a -> b", "a.txt:2: \"loop\" is no pattern: give"),
        ("b.txt", "=== a\nexpect: quiet\n\nbash a", "b.txt:4: a call needs ` -> result`"),
        ("c.txt", "# nothing\n", "there are no scenarios in these files"),
        (
            "d.txt",
            "\n=== late\nexpect: quiet\nbash a -> b",
            "d.txt:2: loops.txt:12 has a scenario late too: rename one",
        ),
    ] {
        std::fs::write(folder.path().join(file), wrong).unwrap();
        let args = if file == "d.txt" { vec!["loops.txt", file] } else { vec![file] };
        let output = eval(&folder, &args);
        assert_eq!(output.status.code(), Some(1), "{file}");
        let shown = text(&output.stderr);
        assert!(shown.starts_with(&format!("midcourse: {told}")), "{shown}");
    }
    assert_eq!(eval(&folder, &["missing.txt"]).status.code(), Some(1));
}

#[test]
fn the_example_of_the_documentation_is_as_expected() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let scenarios = read_scenarios(example).unwrap();
    assert_eq!(scenarios.len(), 2);
    for scenario in scenarios {
        let judged = judge(&scenario, &mut Engine::shipped(Budget::default()));
        assert!(judged.is_right(), "{}: {judged:?}", scenario.name);
    }
}
