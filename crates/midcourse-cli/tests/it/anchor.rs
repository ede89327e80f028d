//! `midcourse anchor` writes the heads of runs to a place outside the store. `verify --against`
//! uses them to find what an attacker with the user's rights changed, even if all hash chains are
//! intact.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rusqlite::Connection;
use serde_json::Value;

use crate::archive::everything;
use crate::events::{TempStore, user_message};

fn midcourse(place: &TempStore, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(args).env("MIDCOURSE_HOME", place.data_dir().path()).stdin(Stdio::null());
    command.env_remove("HTTP_PROXY").env_remove("http_proxy").output().unwrap()
}

fn problems(place: &TempStore, against: &Path) -> Vec<String> {
    let against = against.to_str().unwrap();
    let output = midcourse(place, &["verify", "--json", "--against", against]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let problems: Vec<String> =
        lines.filter_map(|line| Some(line.get("problem")?.as_str()?.to_owned())).collect();
    assert_eq!(output.status.success(), problems.is_empty(), "{text}");
    problems
}

/// A store with some runs, and a file with their heads.
fn anchored() -> (TempStore, std::path::PathBuf) {
    let place = TempStore::new();
    everything(&mut place.open());
    let file = place.data_dir().path().join("heads.jsonl");
    let output = midcourse(&place, &["anchor", "--to", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    (place, file)
}

#[test]
fn a_store_that_only_grew_matches_its_earlier_heads() {
    let (place, file) = anchored();
    assert_eq!(problems(&place, &file), [""; 0]);
    for text in ["one", "two"] {
        place.open().append(user_message("r", text)).unwrap();
        assert!(
            midcourse(&place, &["anchor", "r", "--to", file.to_str().unwrap()]).status.success()
        );
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 4);
    assert_eq!(problems(&place, &file), [""; 0]);
}

#[test]
fn a_run_that_was_replaced_shortened_or_deleted_is_found() {
    let (place, file) = anchored();
    place
        .open()
        .remove_runs(&["r.worker".into()], midcourse::Timestamp::from_unix_ms(u64::MAX))
        .unwrap();
    assert!(midcourse(&place, &["verify"]).status.success());
    let found = problems(&place, &file);
    assert_eq!(found, ["the run is not in the store any more; it had 1 records"]);

    // Replace a run with a new one that has the same id. The hash chain of the new run is intact.
    let (place, file) = anchored();
    let newest = midcourse::Timestamp::from_unix_ms(u64::MAX);
    place.open().remove_runs(&["r.worker".into(), "r".into()], newest).unwrap();
    for _ in 0..40 {
        place.open().append(user_message("r", "nothing happened here")).unwrap();
    }
    assert!(midcourse(&place, &["verify"]).status.success());
    let found = problems(&place, &file).join("\n");
    assert!(found.contains("the run was changed since its head was kept"), "{found}");
}

#[test]
fn the_end_of_a_run_that_was_cut_off_together_with_the_counts_is_found() {
    let place = TempStore::new();
    let file = place.data_dir().path().join("heads.jsonl");
    place.open().append(user_message("r", "one")).unwrap();
    let store = place.data_dir().path().join("store.db");
    let before: (i64, Vec<u8>) = Connection::open(&store)
        .unwrap()
        .query_row("SELECT latest, head FROM runs", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    place.open().append(user_message("r", "two")).unwrap();
    assert!(midcourse(&place, &["anchor", "--to", file.to_str().unwrap()]).status.success());
    let attacker = Connection::open(&store).unwrap();
    attacker.execute("DELETE FROM records WHERE seq = 1", []).unwrap();
    attacker
        .execute("UPDATE runs SET next_seq = 1, latest = ?1, head = ?2", (before.0, before.1))
        .unwrap();
    drop(attacker);
    assert!(midcourse(&place, &["verify"]).status.success(), "the attacker was careful");
    let found = problems(&place, &file).join("\n");
    assert!(found.contains("its first 2 records were others"), "{found}");
}

#[test]
fn heads_go_to_a_command_or_a_url_and_come_from_a_url() {
    let (place, file) = anchored();
    let copy = place.data_dir().path().join("copy");
    let command = format!("cat > '{}'", copy.display());
    assert!(midcourse(&place, &["anchor", "--command", &command]).status.success());
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&file).unwrap());
    let failed = midcourse(&place, &["anchor", "--command", "exit 3"]);
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(error.contains("the command `exit 3` failed: exit status: 3"), "{error}");

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/heads", server.local_addr().unwrap());
    let heads = std::fs::read_to_string(&file).unwrap();
    let sent = heads.clone();
    let serving = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for _ in 0..2 {
            let (mut client, _) = server.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let count = client.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
                let text = String::from_utf8_lossy(&request);
                if text.starts_with("GET") && text.contains("\r\n\r\n") || text.ends_with(&sent) {
                    break;
                }
            }
            requests.push(String::from_utf8(request).unwrap());
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", sent.len());
            write!(client, "{head}connection: close\r\n\r\n{sent}").unwrap();
        }
        requests
    });
    assert!(midcourse(&place, &["anchor", "--to", &url]).status.success());
    assert!(midcourse(&place, &["verify", "--against", &url]).status.success());
    let requests = serving.join().unwrap();
    assert!(requests[0].starts_with("POST /heads HTTP/1.1\r\n") && requests[0].ends_with(&heads));
    assert!(requests[1].starts_with("GET /heads HTTP/1.1\r\n"), "{requests:?}");
}

#[test]
fn a_file_without_heads_is_an_error_that_says_what_writes_them() {
    let (place, file) = anchored();
    std::fs::write(&file, "").unwrap();
    for (text, expected) in [("", "has no heads"), ("{}\n", "line 1 of"), ("x", "line 1 of")] {
        std::fs::write(&file, text).unwrap();
        let output = midcourse(&place, &["verify", "--against", file.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(error.contains(expected) && error.contains("midcourse anchor"), "{error}");
    }
}
