//! `midcourse redact`: the current rules are applied to a run that was stored without them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use midcourse::{Redaction, SearchIndex, Source, Store, StoreSettings};

use crate::events::{
    TempStore, findings, test_settings, text_of, tool_ended, tool_started, user_message,
};

fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

/// Opens the store with redaction off.
fn open_without_rules(place: &TempStore) -> Store {
    let settings = StoreSettings { redaction: Redaction::off(), ..test_settings() };
    Store::open(&place.data_dir(), settings).unwrap()
}

fn midcourse(place: &TempStore, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(arguments).env("MIDCOURSE_HOME", place.data_dir().path()).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn old_text_is_replaced_everywhere_and_gone_from_the_disk() {
    let place = TempStore::new();
    let secret = token();
    let mut store = open_without_rules(&place);
    store.append(user_message("r", "keep this")).unwrap();
    store.append(tool_ended("r", "a", &format!("short {secret} and acme-7731 end"))).unwrap();
    // A long text of random words. It hardly compresses, so the secret is readable in the file.
    let long: String =
        (0..3_000_u64).map(|n| format!("{:x} ", n.wrapping_mul(0x9e37_79b9_7f4a))).collect();
    store.append(tool_ended("r", "b", &format!("{long} {secret} {long}"))).unwrap();
    let mut event = tool_started("r", &secret);
    event.fact = Some(secret.as_str().into());
    store.append(event).unwrap();
    // A conflicting report from the same source, and a report from another source that adds fields.
    store.append(tool_ended("r", "a", &format!("other {secret}"))).unwrap();
    let mut other = tool_ended("r", "c", "first");
    store.append(other.clone()).unwrap();
    other.source = Source::new("test", midcourse::Channel::Proxy);
    if let midcourse::TrajectoryPayload::ToolEnded { result, .. } = &mut other.payload {
        result.details = serde_json::json!({"password": secret});
    }
    store.append(other).unwrap();
    for number in 0..40 {
        store.append(user_message("r", &format!("after {number} {}", "y".repeat(200)))).unwrap();
    }
    store.append(user_message("s", "another run")).unwrap();
    let mut index = SearchIndex::open(&store).unwrap();
    index.catch_up(&store, |_| ()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let other_run = store.records("s", 0, 9).unwrap();
    drop((store, index));
    let home = place.data_dir().path().to_owned();
    assert!(!files_with(&home, &secret).is_empty());
    fs::write(home.join("midcourse.toml"), "[redaction]\npatterns = [\"acme-[0-9]{4}\"]\n")
        .unwrap();

    let redacted = midcourse(&place, &["redact", "r"]);
    assert_eq!(stdout(&redacted), "Replaced 6 secrets in 4 records.\n");
    assert!(redacted.stderr.is_empty(), "{redacted:?}");
    assert_eq!(files_with(&home, &secret), [""; 0]);
    assert_eq!(files_with(&home, "acme-7731"), [""; 0]);
    let store = place.open();
    assert_eq!(findings(&store), [""; 0]);
    let records = store.records("r", 0, 99).unwrap();
    assert_eq!(records.len(), 45);
    let all =
        serde_json::to_string(&records.iter().map(|it| it.to_json()).collect::<Vec<_>>()).unwrap();
    assert!(!all.contains(&secret) && all.contains("[redacted:github_token:"));
    assert_eq!(text_of(&store.trajectory("r").unwrap()[0]), "keep this");
    assert!(records[1].redactions >= 2 && records[2].redactions == 1);
    assert_eq!(store.records("s", 0, 9).unwrap(), other_run);
    drop(store);

    let again = midcourse(&place, &["redact", "r"]);
    assert_eq!(stdout(&again), "The run has no secrets to replace.\n");
    assert_eq!(place.open().records("r", 0, 99).unwrap(), records);
    assert_eq!(place.findings(), [""; 0]);
    place.open().append(user_message("r", "goes on")).unwrap();
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn a_run_that_grows_meanwhile_is_redacted_whole() {
    let place = TempStore::new();
    drop(place.open());
    let secret = token();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..150 {
                let event = tool_ended("r", &number.to_string(), &format!("{number} {secret}"));
                open_without_rules(&place).append(event).unwrap();
            }
        });
        while !writer.is_finished() {
            let mut store = place.open();
            if store.run("r").unwrap().is_some() {
                store.redact_run(&"r".into()).unwrap();
            }
            assert_eq!(store.verify_run(&"r".into()).unwrap(), []);
        }
    });
    let mut store = place.open();
    store.redact_run(&"r".into()).unwrap();
    let records = store.trajectory("r").unwrap();
    assert_eq!(records.len(), 150);
    assert!(records.iter().all(|record| text_of(record).contains("[redacted:github_token:")));
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn a_damaged_or_unknown_run_is_not_redacted() {
    let place = TempStore::new();
    open_without_rules(&place).append(tool_ended("r", "a", &token())).unwrap();
    let connection = rusqlite::Connection::open(place.data_dir().store_file()).unwrap();
    connection.execute("UPDATE records SET at = at + 1", []).unwrap();
    drop(connection);
    for (run, expected) in [("r", "record 0 was changed"), ("nobody", "no run `nobody`")] {
        let output = midcourse(&place, &["redact", run]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains(expected), "{stderr}");
    }
    let record = &place.open().records("r", 0, 9).unwrap()[0];
    assert_eq!(record.redactions, 0);
}

#[test]
fn a_text_that_other_runs_have_too_is_named() {
    let place = TempStore::new();
    let mut store = open_without_rules(&place);
    let text = format!("{} {}", "long ".repeat(2_000), token());
    for run in ["r", "s"] {
        store.append(tool_ended(run, "a", &text)).unwrap();
    }
    drop(store);
    let output = midcourse(&place, &["redact", "r"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("1 long texts with secrets are in other runs too"), "{stderr}");
    let output = midcourse(&place, &["redact", "s"]);
    assert!(output.stderr.is_empty());
    assert_eq!(place.findings(), [""; 0]);
}

/// No matter when the process is killed, either all records are redacted or none.
#[test]
fn a_killed_process_leaves_the_run_whole() {
    let place = TempStore::new();
    for attempt in 0..12_u64 {
        let run = attempt.to_string();
        let mut store = open_without_rules(&place);
        let texts = (0..60).map(|call| tool_ended(&run, &call.to_string(), &token()));
        store.append_all(texts).unwrap();
        drop(store);
        let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .args(["redact", &run])
            .env("MIDCOURSE_HOME", place.data_dir().path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(attempt * 4));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = place.open();
        assert_eq!(findings(&store), [""; 0]);
        let records = store.trajectory(&run).unwrap();
        let redacted = records.iter().filter(|it| text_of(it).contains("[redacted:")).count();
        assert!(redacted == 0 || redacted == records.len(), "{redacted} of {}", records.len());
    }
    let last = midcourse(&place, &["redact", "0"]);
    assert!(last.status.success(), "{last:?}");
}
