//! `kill -9`, again and again, at whatever the writers are doing.
//!
//! Several processes of the real command write to the same runs and are killed at random moments;
//! whatever they acknowledged has to be there, at the place they said, in whole runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use midcourse::{Budget, DataDir, Engine, Store, TrajectoryPayload};
use serde_json::{Value, json};

use crate::events::{Place, findings, quick};

const HOMES: usize = 7;
const ROUNDS: usize = 8;
const WRITERS: usize = 4;

/// What a process said was on disk: the call, and its place if it was given one.
type Acked = (String, String, Option<u64>);

/// The events of one writer: more than it will ever get to.
fn events(run: &str, writer: &str) -> String {
    let mut lines = String::new();
    for n in 0..40 {
        let payload = json!({
            "kind": "tool_ended", "tool_call_id": format!("{writer}-{n}"), "tool_name": "bash",
            "result": {"content": [{"type": "text", "text": "error: no rule to make it".repeat(n * 20)}]},
            "is_error": true,
        });
        lines.push_str(&json!({"run_id": run, "payload": payload}).to_string());
        lines.push('\n');
    }
    lines
}

/// Starts a writer, and kills it after some acknowledgements, while it works on the next event.
fn write_and_kill(home: &Path, run: &str, writer: &str, acks: usize) -> Vec<Acked> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(["record", "--patience", "60000"])
        .env("MIDCOURSE_HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = events(run, writer);
    let feeder = std::thread::spawn(move || {
        // The writer is killed before it has read all.
        let _ = input.write_all(lines.as_bytes());
        input
    });
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acked = Vec::new();
    let note = |n: usize, line: &str, acked: &mut Vec<Acked>| {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        acked.push((
            run.to_owned(),
            format!("{writer}-{n}"),
            answer.get("seq").and_then(Value::as_u64),
        ));
    };
    for n in 0..acks {
        note(n, &answers.next().unwrap().unwrap(), &mut acked);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was in the pipe already was acknowledged too; the last line may be half.
    for (n, line) in (acks..).zip(answers.map_while(Result::ok)) {
        if line.ends_with('}') {
            note(n, &line, &mut acked);
        }
    }
    drop(feeder.join());
    acked
}

#[test]
fn two_hundred_kills_lose_nothing_that_was_acknowledged() {
    let mut kills = 0;
    for home_number in 0..HOMES {
        let place = Place::new();
        let home = place.home();
        let mut acked: Vec<Acked> = Vec::new();
        for round in 0..ROUNDS {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let home = home.path().to_owned();
                    let run = format!("run-{}", writer % 2);
                    let name = format!("{round}.{writer}");
                    // Some are killed before they have done anything, in the first round while
                    // they make the store.
                    let acks = (home_number + round * 3 + writer * 2) % 6;
                    std::thread::spawn(move || write_and_kill(&home, &run, &name, acks))
                })
                .collect();
            for writer in writers {
                acked.extend(writer.join().unwrap());
                kills += 1;
            }
        }
        check(&home, &acked);
    }
    assert!(kills >= 200, "{kills}");
}

fn check(home: &DataDir, acked: &[Acked]) {
    let mut store = Store::open(home, quick()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    assert_eq!(findings(&store), [""; 0]);
    for run in ["run-0", "run-1"] {
        let records = store.trajectory(run).unwrap();
        let mut places = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            assert_eq!(record.seq, place as u64, "no gap and no repeat");
            if let TrajectoryPayload::ToolEnded { tool_call_id, .. } = &record.payload {
                let before = places.insert(tool_call_id.to_string(), record.seq);
                assert_eq!(before, None, "one call, one record");
            }
        }
        for (_, call, seq) in acked.iter().filter(|(of, _, _)| of == run) {
            let found = places.get(call);
            assert!(found.is_some(), "{call} was acknowledged and is gone");
            assert!(seq.is_none() || found == seq.as_ref(), "{call} is at {found:?}, not {seq:?}");
        }
        let Some((folded, saved)) = store.checkpoint(run).unwrap() else { continue };
        let mut engine = Engine::shipped(Budget::default());
        for record in records.iter().take(usize::try_from(folded).unwrap()) {
            engine.take_in(record);
        }
        assert!(engine.checkpoint().unwrap() == saved, "the checkpoint is the fold of the records");
    }
}
