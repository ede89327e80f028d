//! `midcourse statusline`: what it prints about a session, and that it never fails.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::events::TempStore;

/// Runs the command in a data directory, and returns what it prints. It must succeed.
fn status_line(place: &TempStore, args: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.arg("statusline").args(args).env("MIDCOURSE_HOME", place.data_dir().path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may end before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A data directory with the run of the demo, and the input for its status line.
fn demo() -> (TempStore, String) {
    let place = TempStore::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    assert!(
        command
            .arg("demo")
            .env("MIDCOURSE_HOME", place.data_dir().path())
            .output()
            .unwrap()
            .status
            .success()
    );
    let run = place.open().runs(1).unwrap().remove(0);
    let input = json!({"session_id": run.run_id.as_str(), "cwd": "/", "model": {"id": "m"}});
    (place, input.to_string())
}

#[test]
fn the_line_tells_what_was_recorded_and_said() {
    let (place, input) = demo();
    let line = status_line(&place, &[], &input);
    let start = "midcourse: recording · 6 calls · 3 failed · ";
    assert!(line.starts_with(start), "{line}");
    assert!(line.ends_with(" ago: You ran \"sh build.sh\" 3 times and it failed the…\n"), "{line}");
    // The deadline and the mode of the configuration that the hooks use.
    let config = place.data_dir().path().join("other.toml");
    fs::write(&config, "mode = 'shadow'\n[budget]\ndeadline = '2h'\n").unwrap();
    let home = place.data_dir().path().to_str().unwrap().to_owned();
    let args = ["--home", &home, "--config", config.to_str().unwrap()];
    let line = status_line(&place, &args, &input);
    let start = "midcourse: recording (shadow) · 6 calls · 3 failed · 1 h 59 min left · ";
    assert!(line.starts_with(start), "{line}");
}

#[cfg(unix)]
#[test]
fn the_status_line_of_the_user_comes_first_and_gets_the_same_input() {
    let (place, input) = demo();
    let lines = status_line(&place, &["--wrap", "cat; printf ' | theirs'"], &input);
    assert!(lines.starts_with(&format!("{input} | theirs\nmidcourse: recording")), "{lines}");
    for theirs in ["exit 3", "no-such-program 2>/dev/null", "true"] {
        let lines = status_line(&place, &["--wrap", theirs], &input);
        assert!(lines.starts_with("midcourse: recording"), "{theirs}: {lines}");
    }
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(300_000));
    let lines = status_line(&place, &["--wrap", "yes z | head -n 100000; cat > /dev/null"], &long);
    assert!(lines.ends_with("z\nmidcourse: nothing recorded yet\n"), "it does not hang");
}

#[test]
fn it_never_fails() {
    let (place, input) = demo();
    for input in ["", "{", "[]", "{\"session_id\": 7}", "{\"session_id\": \"other\"}"] {
        assert_eq!(status_line(&place, &[], input), "midcourse: nothing recorded yet\n");
    }
    let line = status_line(&place, &["--bogus"], &input);
    assert!(line.starts_with("midcourse: wrong arguments"), "{line}");
    assert!(status_line(&place, &["--help"], "").starts_with("Print a status line"));
    let empty = TempStore::new();
    assert_eq!(status_line(&empty, &[], &input), "midcourse: nothing recorded yet\n");
    assert!(!empty.data_dir().store_file().exists(), "it creates nothing");
    fs::write(place.data_dir().store_file(), "no database").unwrap();
    assert_eq!(status_line(&place, &[], &input), "midcourse: the store cannot be read\n");
}
