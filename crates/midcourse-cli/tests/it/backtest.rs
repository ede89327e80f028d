//! Runs in the neutral format: what would have been said about them, and how they come into a store.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use midcourse::{Budget, Engine, Timestamp};
use midcourse_cli::backtest::backtest;
use midcourse_cli::formats::events::read_run;

/// A run that fails in the same way again and again, and one that does not.
fn runs() -> String {
    let call = |n: usize, result: &str| {
        json!({"kind": "tool", "tool": "bash", "args": {"command": "make"}, "result": result,
               "is_error": result.starts_with("error"), "t": n * 10})
    };
    let stuck: Vec<Value> = (0..5).map(|n| call(n, "error: no rule")).collect();
    let fine: Vec<Value> = (0..6).map(|n| call(n, &format!("step {n} done"))).collect();
    let mut lines = String::new();
    for (name, success, events) in [("stuck", false, stuck), ("fine", true, fine)] {
        let run = json!({"run_id": name, "source": "test", "success": success, "events": events});
        writeln!(lines, "{run}").unwrap();
    }
    lines
}

fn midcourse(home: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(args)
        .env("MIDCOURSE_HOME", home)
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn a_backtest_says_what_would_have_been_said_and_when() {
    let (folder, path) = folder(&runs());
    let output = midcourse(folder.path(), &["backtest", &path, "--json"]);
    assert!(output.status.success());
    let lines = lines(&output);
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["delivery", "run", "run", "summary"]);
    let said = &lines[0];
    assert_eq!(
        (&said["run_id"], &said["call"], &said["event"]),
        (&"stuck".into(), &3.into(), &3.into())
    );
    assert_eq!(
        (&said["kind"], &said["rung"], &said["stop"]),
        (&"guidance".into(), &1.into(), &false.into())
    );
    assert_eq!(said["pattern"], "repeated_error");
    assert_eq!((&lines[1]["calls_after"], &lines[1]["seconds_after"]), (&2.into(), &20.0.into()));
    assert_eq!(lines[2]["deliveries"], 0);
    assert_eq!((&lines[3]["runs"], &lines[3]["spoken"]), (&2.into(), &1.into()));
    let table = midcourse(folder.path(), &["backtest", folder.path().to_str().unwrap()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("test       2     11       50 %    call 3            2        20 s"),
        "{table}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is stored");
}

/// A folder with runs and with a configuration that waits for a fifth error, and their paths.
fn with_patience(text: &str) -> (TempDir, String, String) {
    let (folder, path) = folder(text);
    let patient = folder.path().join("patient.toml");
    let text = "[analysis]\ncycle_threshold = 5\nerror_threshold = 5\ncascade_threshold = 9\n";
    std::fs::write(&patient, text).unwrap();
    let patient = patient.to_str().unwrap().to_owned();
    (folder, path, patient)
}

#[test]
fn a_configuration_is_judged_with() {
    let (folder, path, patient) = with_patience(&runs());
    let output = midcourse(folder.path(), &["backtest", &path, "--json", "--config", &patient]);
    let lines = lines(&output);
    assert_eq!((&lines[0]["run_id"], &lines[0]["call"]), (&"stuck".into(), &5.into()));
    assert!(lines.iter().all(|line| line.get("config").is_none()), "there is one alone");
    std::fs::write(&patient, "[analysis]\nerror_treshold = 5").unwrap();
    let output = midcourse(folder.path(), &["backtest", &path, "--against", &patient]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("patient.toml:2:1: unknown key"));
}

#[test]
fn two_configurations_are_compared() {
    let (folder, path, patient) = with_patience(&runs());
    let silent = folder.path().join("silent.toml");
    std::fs::write(&silent, "[providers.course_correction]\nenabled = false").unwrap();
    let silent = silent.to_str().unwrap();
    let compared = |args: &[&str]| {
        let output = midcourse(folder.path(), &[&["backtest", &path], args].concat());
        assert!(output.status.success());
        output
    };
    let output = compared(&["--json", "--config", &patient, "--against", silent]);
    let lines = lines(&output);
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), line["config"].as_str().unwrap()))
        .collect();
    let (a, b) = (patient.as_str(), silent);
    assert_eq!(
        told,
        [
            ("delivery", a),
            ("run", a),
            ("run", b),
            ("difference", a),
            ("run", a),
            ("run", b),
            ("summary", a),
            ("summary", b)
        ]
    );
    assert_eq!(
        lines[3],
        json!({"type": "difference", "run_id": "stuck", "source": "test", "word": 1, "config": a,
               "against": b, "a": {"call": 5, "event": 5, "pattern": lines[0]["pattern"]},
               "b": null})
    );
    assert_eq!((&lines[6]["spoken"], &lines[7]["spoken"]), (&1.into(), &0.into()));

    let shown = compared(&["--against", &patient]).stdout;
    let shown = String::from_utf8(shown).unwrap().replace(&patient, "patient.toml");
    insta::assert_snapshot!(shown, @"
    A is shipped, B is patient.toml.

    SOURCE  CONFIG  RUNS  CALLS  SPOKEN TO  FIRST AT  CALLS AFTER  TIME AFTER  SUCCEEDED  EQUALLY LONG  NOT SPOKEN TO
    test    A          2     11       50 %    call 3            2        20 s        0 %         100 %          100 %
            B          2     11       50 %    call 5            0        0 ms        0 %         100 %          100 %

    1 of 2 runs differ: only A speaks in 0, only B in 0, both but not alike in 1. The first word in which they part:

    RUN    WORD  A                       B
    stuck     1  call 3, repeated_error  call 5, repeated_error
    ");
    let same = compared(&["--config", silent, "--against", silent]).stdout;
    let same = String::from_utf8(same).unwrap();
    assert!(same.ends_with("Nothing else would have been said in any of the runs.\n"), "{same}");
}

#[test]
fn many_differences_are_counted() {
    let stuck = runs().lines().next().unwrap().to_owned();
    let many: String =
        (0..23).map(|n| stuck.replace("\"stuck\"", &format!("\"stuck-{n}\"")) + "\n").collect();
    let (folder, path, patient) = with_patience(&many);
    let output = midcourse(folder.path(), &["backtest", &path, "--against", &patient]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("23 of 23 runs differ"), "{shown}");
    assert!(shown.contains("stuck-19 ") && !shown.contains("stuck-20 "), "{shown}");
    assert!(shown.ends_with("and 3 more\n"), "{shown}");
}

#[test]
fn configurations_that_part_after_the_first_word_differ_too() {
    let call = json!({"kind": "tool", "tool": "bash", "args": {"command": "make"},
                      "result": "error: no rule", "is_error": true});
    let run = json!({"run_id": "long", "events": vec![call; 8]});
    let (folder, path, patient) = with_patience(&format!("{run}\n"));
    std::fs::write(&patient, "[speaking]\ncool_down_calls = 4").unwrap();
    let output = midcourse(folder.path(), &["backtest", &path, "--json", "--against", &patient]);
    let lines = lines(&output);
    let difference = lines.iter().find(|line| line["type"] == "difference").unwrap();
    assert_eq!((&difference["word"], &difference["config"]), (&2.into(), &"shipped".into()));
    assert_eq!((&difference["a"]["call"], &difference["b"]["call"]), (&6.into(), &7.into()));
}

#[test]
fn many_runs_come_out_in_the_order_they_came_in() {
    let text: String = (0..500)
        .map(|n| {
            format!(
                "{}\n",
                json!({"run_id": n.to_string(), "events": [{"kind": "user", "text": "x"}]})
            )
        })
        .collect();
    let (folder, path) = folder(&text);
    let output = midcourse(folder.path(), &["backtest", &path, "--json"]);
    let ids: Vec<String> = lines(&output)
        .iter()
        .filter_map(|line| Some(line["run_id"].as_str()?.to_owned()))
        .collect();
    assert_eq!(ids, (0..500).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn torn_and_foreign_lines_are_read_as_far_as_they_go_and_told() {
    let text = format!(
        "what?\n{}{{\"run_id\":\"torn\",\"events\":[{{\"kind\":\"user\",\"text\":\"a\"}},{{\"ki",
        runs()
    );
    let (folder, path) = folder(&text);
    let output = midcourse(folder.path(), &["backtest", &path, "--json"]);
    assert!(output.status.success());
    let lines = lines(&output);
    let summary = lines.last().unwrap();
    assert_eq!((&summary["runs"], &summary["torn"]), (&3.into(), &2.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains("2 lines are torn or foreign"));
    let (other, path) = self::folder("what?\n");
    assert_eq!(midcourse(other.path(), &["backtest", &path]).status.code(), Some(1));
}

#[test]
fn runs_of_the_neutral_format_are_imported_once() {
    let (folder, path) = folder(&runs());
    let home = folder.path().join("home");
    let import = || lines(&midcourse(&home, &["import", "--format", "events", &path, "--json"]));
    assert_eq!(import()[0]["new"], (1 + 5 * 3 + 1) + (1 + 6 * 3 + 1));
    assert_eq!(import()[0]["new"], 0);
    let listed = lines(&midcourse(&home, &["list", "--json"]));
    let row =
        |line: &Value| (line["run_id"].clone(), line["calls"].clone(), line["outcome"].clone());
    let mut rows: Vec<_> = listed.iter().map(row).collect();
    rows.sort_by_key(|row| row.0.to_string());
    assert_eq!(
        rows,
        [
            ("fine".into(), 6.into(), "completed".into()),
            ("stuck".into(), 5.into(), "failed".into())
        ]
    );
    let exported = midcourse(&home, &["export", "stuck"]);
    let file = folder.path().join("stuck.jsonl");
    std::fs::write(&file, exported.stdout).unwrap();
    let replayed = lines(&midcourse(&home, &["replay", "--json", file.to_str().unwrap()]));
    let said: Vec<_> = replayed.iter().filter(|line| line["type"] == "delivery").collect();
    assert_eq!(said.len(), 1, "from the store the verdict is the same");
    assert_eq!(said[0]["call"], 3);
    assert!(midcourse(&home, &["verify"]).status.success());
}

#[test]
fn a_line_of_any_length_is_read_as_far_as_it_goes() {
    let many = r#"{"kind":"user","text":"x"},"#.repeat(600_000);
    let long = format!("{{\"run_id\":\"many\",\"events\":[{}]}}", many.trim_end_matches(','));
    let run = read_run(long.as_bytes(), Timestamp::default(), 1);
    assert_eq!(run.events.len(), 500_000);
    assert!(run.torn.unwrap().contains("at most"));

    let mut text = "x".repeat(70 << 20);
    text.push('\n');
    text.push_str(&runs());
    let (folder, path) = folder(&text);
    let judged = lines(&midcourse(folder.path(), &["backtest", &path, "--json"]));
    let summary = judged.last().unwrap();
    assert_eq!((&summary["runs"], &summary["torn"]), (&2.into(), &1.into()));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let run = read_run(&bytes, Timestamp::default(), 1);
        backtest(run, &mut Engine::shipped(Budget::default()));
    }

    #[test]
    fn any_damage_to_a_run_is_read(at in 0..900_usize, with in any::<u8>()) {
        let mut bytes = runs().into_bytes();
        let at = at % bytes.len();
        bytes[at] = with;
        for line in bytes.split(|byte| *byte == b'\n') {
            let run = read_run(line, Timestamp::default(), 1);
            backtest(run, &mut Engine::shipped(Budget::default()));
        }
    }
}
