//! `midcourse backtest`, which replays finished runs and shows which messages midcourse would have
//! sent; and the import of runs in the `events` format (one JSON line per run).

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Two runs in the `events` format: `stuck` fails five times with the same error, and every call of
/// `fine` succeeds with a new result.
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
fn a_backtest_reports_messages_and_when_they_would_have_come() {
    let (folder, path) = folder(&runs());
    let output = midcourse(folder.path(), &["backtest", &path, "--json"]);
    assert!(output.status.success());
    let lines = lines(&output);
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["pattern", "pattern", "delivery", "run", "run", "summary"]);
    let position = json!({"run_id": "stuck", "event": 3, "seq": 9, "call": 3});
    for line in &lines[..3] {
        assert_eq!(&fields(line, &["run_id", "event", "seq", "call"]), &position);
    }
    let delivery = json!({"delivery_seq": 10, "decision_point": "pre_tool_selection",
                          "kind": "guidance_delivered", "cause": "repeated_error", "rung": 1});
    let names = ["delivery_seq", "decision_point", "kind", "cause", "rung"];
    assert_eq!(fields(&lines[2], &names), delivery);
    let run = json!({"first_delivery_call": 3, "calls_after_first_delivery": 2,
                     "seconds_after_first_delivery": 20.0});
    let names =
        ["first_delivery_call", "calls_after_first_delivery", "seconds_after_first_delivery"];
    assert_eq!(fields(&lines[3], &names), run);
    assert_eq!(lines[4]["deliveries"], 0);
    assert_eq!((&lines[5]["runs"], &lines[5]["runs_with_delivery"]), (&2.into(), &1.into()));
    let table = midcourse(folder.path(), &["backtest", folder.path().to_str().unwrap()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("test       2     11      50 %    call 3            2        20 s"),
        "{table}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a backtest stores nothing");
}

/// The named fields of a line, as an object.
fn fields(line: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), line[name].clone())).collect()
}

/// Writes two files to a folder: the runs in `text`, and a configuration with which midcourse sends
/// a message only at the fifth equal error (the default is the third). Returns the folder and the
/// paths of both files.
fn with_config(text: &str) -> (TempDir, String, String) {
    let (folder, path) = folder(text);
    let patient = folder.path().join("patient.toml");
    let text = "[analysis]\ncycle_threshold = 5\nerror_threshold = 5\ncascade_threshold = 9\n";
    std::fs::write(&patient, text).unwrap();
    let patient = patient.to_str().unwrap().to_owned();
    (folder, path, patient)
}

#[test]
fn a_configuration_file_is_applied() {
    let (folder, path, patient) = with_config(&runs());
    let output = midcourse(folder.path(), &["backtest", &path, "--json", "--config", &patient]);
    let lines = lines(&output);
    let delivery = lines.iter().find(|line| line["type"] == "delivery").unwrap();
    assert_eq!((&delivery["run_id"], &delivery["call"]), (&"stuck".into(), &5.into()));
    assert!(lines.iter().all(|line| line.get("config").is_none()), "only one configuration");
    std::fs::write(&patient, "[analysis]\nerror_treshold = 5").unwrap();
    let output = midcourse(folder.path(), &["backtest", &path, "--against", &patient]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("patient.toml:2:1: unknown key"));
}

#[test]
fn two_configurations_are_compared() {
    let (folder, path, patient) = with_config(&runs());
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
    let lines: Vec<&Value> = lines.iter().filter(|line| line["type"] != "pattern").collect();
    let types: Vec<_> = lines
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), line["config"].as_str().unwrap()))
        .collect();
    let (a, b) = (patient.as_str(), silent);
    assert_eq!(
        types,
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
        &json!({"type": "difference", "run_id": "stuck", "source": "test", "delivery": 1,
                "config": a, "against": b,
                "a": {"event": 5, "call": 5, "cause": lines[0]["cause"]}, "b": null})
    );
    let counts = (&lines[6]["runs_with_delivery"], &lines[7]["runs_with_delivery"]);
    assert_eq!(counts, (&1.into(), &0.into()));

    let shown = compared(&["--against", &patient]).stdout;
    let shown = String::from_utf8(shown).unwrap().replace(&patient, "patient.toml");
    insta::assert_snapshot!(shown, @"
    A: defaults
    B: patient.toml

    SOURCE  CONFIG  RUNS  CALLS  MESSAGED  FIRST AT  CALLS AFTER  TIME AFTER  SUCCESS  SUCCESS SAME LENGTH  SUCCESS UNMESSAGED
    test    A          2     11      50 %    call 3            2        20 s      0 %                100 %               100 %
            B          2     11      50 %    call 5            0        0 ms      0 %                100 %               100 %

    1 of 2 runs differ: 0 with messages from A only, 0 from B only, 1 with different messages.
    First difference in each:

    RUN    MESSAGE  A                       B
    stuck        1  call 3, repeated_error  call 5, repeated_error
    ");
    let same = compared(&["--config", silent, "--against", silent]).stdout;
    let same = String::from_utf8(same).unwrap();
    assert!(
        same.ends_with("Both configurations deliver the same messages in every run.\n"),
        "{same}"
    );
}

#[test]
fn only_the_first_differing_runs_are_listed() {
    let stuck = runs().lines().next().unwrap().to_owned();
    let many: String =
        (0..23).map(|n| stuck.replace("\"stuck\"", &format!("\"stuck-{n}\"")) + "\n").collect();
    let (folder, path, patient) = with_config(&many);
    let output = midcourse(folder.path(), &["backtest", &path, "--against", &patient]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("23 of 23 runs differ"), "{shown}");
    assert!(shown.contains("stuck-19 ") && !shown.contains("stuck-20 "), "{shown}");
    assert!(shown.ends_with("and 3 more\n"), "{shown}");
}

#[test]
fn a_difference_after_the_first_message_is_found() {
    let call = json!({"kind": "tool", "tool": "bash", "args": {"command": "make"},
                      "result": "error: no rule", "is_error": true});
    let run = json!({"run_id": "long", "events": vec![call; 8]});
    let (folder, path, patient) = with_config(&format!("{run}\n"));
    std::fs::write(&patient, "[messages]\ncooldown_calls = 4").unwrap();
    let output = midcourse(folder.path(), &["backtest", &path, "--json", "--against", &patient]);
    let lines = lines(&output);
    let difference = lines.iter().find(|line| line["type"] == "difference").unwrap();
    assert_eq!((&difference["delivery"], &difference["config"]), (&2.into(), &"defaults".into()));
    assert_eq!((&difference["a"]["call"], &difference["b"]["call"]), (&6.into(), &7.into()));
}

#[test]
fn results_are_in_the_order_of_the_file() {
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
fn invalid_lines_are_used_up_to_the_error_and_counted() {
    let text = format!(
        "what?\n{}{{\"run_id\":\"torn\",\"events\":[{{\"kind\":\"user\",\"text\":\"a\"}},{{\"ki",
        runs()
    );
    let (folder, path) = folder(&text);
    let output = midcourse(folder.path(), &["backtest", &path, "--json"]);
    assert!(output.status.success());
    let lines = lines(&output);
    let summary = lines.last().unwrap();
    assert_eq!((&summary["runs"], &summary["invalid_lines"]), (&3.into(), &2.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains("2 lines with invalid JSON"));
    let (other, path) = self::folder("what?\n");
    assert_eq!(midcourse(other.path(), &["backtest", &path]).status.code(), Some(1));
}

#[test]
fn importing_events_twice_stores_them_once() {
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
    let deliveries: Vec<_> = replayed.iter().filter(|line| line["type"] == "delivery").collect();
    assert_eq!(deliveries.len(), 1, "the replay delivers what the backtest delivers");
    assert_eq!(deliveries[0]["call"], 3);
    assert!(midcourse(&home, &["verify"]).status.success());
}

#[test]
fn a_very_long_line_is_cut() {
    let mut text = "x".repeat(70 << 20);
    text.push('\n');
    text.push_str(&runs());
    let (folder, path) = folder(&text);
    // The format cannot be recognised from such a beginning.
    let named = ["backtest", &path, "--json", "--format", "events"];
    let lines = lines(&midcourse(folder.path(), &named));
    let summary = lines.last().unwrap();
    assert_eq!((&summary["runs"], &summary["invalid_lines"]), (&2.into(), &1.into()));
}
