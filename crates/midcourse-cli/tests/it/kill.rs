//! `kill -9` of writers at various moments.
//!
//! Several `midcourse record` processes write to the same runs and are killed. Every event for
//! which a process printed a reply must then be stored, at the seq (position in the run) that the
//! reply named, and no run may skip a seq.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use midcourse::{Budget, DataDir, Engine, Store, TrajectoryPayload};
use serde_json::{Value, json};

use crate::events::{TempStore, findings, test_settings};

const STORES: usize = 7;
const ROUNDS: usize = 8;
const WRITERS: usize = 4;

/// An event for which the writer printed a reply: run id, call id and seq. The seq is `None` if the
/// event was put into the spill folder because the store was busy.
type Acked = (String, String, Option<u64>);

/// The input of one writer: more events than it can write before it is killed.
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

/// Starts a writer and kills it after it printed `acks` replies, while it writes the next event.
fn write_and_kill(data_dir: &Path, run: &str, writer: &str, acks: usize) -> Vec<Acked> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(["record", "--busy-timeout", "60000"])
        .env("MIDCOURSE_HOME", data_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = events(run, writer);
    let feeder = std::thread::spawn(move || {
        // Writing fails because the writer process is killed before it has read everything.
        let _ = input.write_all(lines.as_bytes());
        input
    });
    let mut replies = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acked = Vec::new();
    let record_ack = |n: usize, line: &str, acked: &mut Vec<Acked>| {
        let reply: Value = serde_json::from_str(line).unwrap();
        assert!(reply.get("error").is_none(), "{reply}");
        acked.push((
            run.to_owned(),
            format!("{writer}-{n}"),
            reply.get("seq").and_then(Value::as_u64),
        ));
    };
    for n in 0..acks {
        record_ack(n, &replies.next().unwrap().unwrap(), &mut acked);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Replies that are still in the pipe count too. The kill may have cut off the last one.
    for (n, line) in (acks..).zip(replies.map_while(Result::ok)) {
        if line.ends_with('}') {
            record_ack(n, &line, &mut acked);
        }
    }
    drop(feeder.join());
    acked
}

#[test]
fn two_hundred_kills_lose_no_acknowledged_record() {
    let mut kills = 0;
    for store_number in 0..STORES {
        let place = TempStore::new();
        let data_dir = place.data_dir();
        let mut acked: Vec<Acked> = Vec::new();
        for round in 0..ROUNDS {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let data_dir = data_dir.path().to_owned();
                    let run = format!("run-{}", writer % 2);
                    let name = format!("{round}.{writer}");
                    // With 0, the writer is killed right after its start; in the first round it
                    // may then still be creating the store.
                    let acks = (store_number + round * 3 + writer * 2) % 6;
                    std::thread::spawn(move || write_and_kill(&data_dir, &run, &name, acks))
                })
                .collect();
            for writer in writers {
                acked.extend(writer.join().unwrap());
                kills += 1;
            }
        }
        check(&data_dir, &acked);
    }
    assert!(kills >= 200, "{kills}");
}

fn check(data_dir: &DataDir, acked: &[Acked]) {
    let mut store = Store::open(data_dir, test_settings()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    assert_eq!(findings(&store), [""; 0]);
    for run in ["run-0", "run-1"] {
        let records = store.trajectory(run).unwrap();
        let mut seqs = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            assert_eq!(record.seq, index as u64, "the seqs have no gap and no repeat");
            if let TrajectoryPayload::ToolEnded { tool_call_id, .. } = &record.payload {
                let earlier = seqs.insert(tool_call_id.to_string(), record.seq);
                assert_eq!(earlier, None, "a call has one record");
            }
        }
        for (_, call, seq) in acked.iter().filter(|(of, _, _)| of == run) {
            let found = seqs.get(call);
            assert!(found.is_some(), "{call} was acknowledged and is missing");
            assert!(
                seq.is_none() || found == seq.as_ref(),
                "{call} has seq {found:?}, but {seq:?} was reported"
            );
        }
        let Some((folded, saved)) = store.checkpoint(run).unwrap() else { continue };
        let mut engine = Engine::shipped(Budget::default());
        for record in records.iter().take(usize::try_from(folded).unwrap()) {
            engine.step(record, None);
        }
        assert!(
            engine.checkpoint().unwrap() == saved,
            "the checkpoint equals the fold of the records"
        );
    }
}
