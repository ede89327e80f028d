//! The SQLite store: bodies (long texts that are stored apart from the records), file permissions, changes made by other programs, the write-ahead log, checkpoints (the
//! engine's saved state of a run), search, and many runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use midcourse::{
    Budget, Channel, Engine, Event, RecordStatus, RunOutcome, SearchIndex, Source, Store,
    StoreError, StoreSettings, StoreWriter, SyncedEngine, Timestamp, TrajectoryPayload,
    TrajectorySink, ingest,
};
use rusqlite::Connection;
use serde_json::json;

use crate::archive::everything;
use crate::events::{
    TempStore, at, findings, hook, root, test_settings, text_of, tool_ended, tool_started,
    user_message,
};

fn synced_engine() -> SyncedEngine {
    SyncedEngine::new(Engine::shipped(Budget::default())).unwrap()
}

#[test]
fn texts_of_any_size_are_stored_up_to_the_limit() {
    let place = TempStore::new();
    let mut store = place.open();
    let limit = StoreSettings::default().body_limit;
    for (n, length) in
        [1, 4 << 10, (4 << 10) + 1, limit, 10_000_000, 200_000_000].iter().enumerate()
    {
        let pattern: String = (0..997).map(|k| char::from(b'a' + (k * 7 % 26) as u8)).collect();
        let mut text = pattern.repeat(length / pattern.len() + 1);
        text.truncate(*length);
        let recorded = store.append(tool_ended("r", &n.to_string(), &text)).unwrap();
        let found = text_of(&store.trajectory("r").unwrap()[n]);
        assert_eq!(found, text_of(&recorded.record), "the returned record equals the stored one");
        if *length <= limit {
            assert!(found == text);
        } else {
            let hash = blake3::hash(text.as_bytes());
            let note = format!(" of {length} bytes left out; blake3 {hash}]\n");
            let (head, tail) = found.split_once(&note).unwrap();
            let (head, left_out) = head.rsplit_once("\n[").unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail) && found.len() <= limit);
            assert_eq!(left_out, (length - head.len() - tail.len()).to_string());
        }
    }
    drop(store);
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn a_repeated_long_text_is_stored_once() {
    let place = TempStore::new();
    let mut store = place.open();
    let text: String = (0..50_000).map(|n| format!("{:x} ", n * 7_919)).collect();
    for call in 0..20 {
        store.append(tool_ended("r", &call.to_string(), &text)).unwrap();
    }
    let count = |what: &str| -> i64 {
        let connection = Connection::open(place.data_dir().store_file()).unwrap();
        connection.query_row(&format!("SELECT {what} FROM bodies"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("count(*)"), 1);
    assert!(count("sum(length(zstd))") < i64::try_from(text.len()).unwrap());
}

#[test]
fn invalid_utf8_and_nul_bytes_are_kept() {
    let place = TempStore::new();
    let mut store = place.open();
    store.append(Event::unread(root("r"), hook(), at(0), b"{\"a\0\xff\xfe")).unwrap();
    store.append(tool_ended("r", "nul\0call", "out\0put \u{fffd}")).unwrap();
    assert_eq!(
        store.append(tool_ended("r", "nul\0call", "out\0put \u{fffd}")).unwrap().status,
        RecordStatus::Duplicate
    );
    assert_eq!(store.append(tool_ended("r", "nul\0other", "x")).unwrap().status, RecordStatus::New);
    let records = store.trajectory("r").unwrap();
    let expected =
        TrajectoryPayload::Unread { host: "test".into(), raw: "{\"a\0\\xff\\xfe".into() };
    assert_eq!(records[0].payload, expected);
    assert_eq!(text_of(&records[1]), "out\0put \u{fffd}");
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn files_can_be_read_only_by_their_owner() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    let mut store = place.open();
    store.append(user_message("r", "x")).unwrap();
    midcourse::spill_event(&data_dir, user_message("r", "y"), &test_settings()).unwrap();
    SearchIndex::open(&store).unwrap();
    let mut seen = 0;
    for folder in [data_dir.path().to_owned(), data_dir.spill_folder()] {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn every_change_of_the_stored_data_is_detected() {
    for (change, expected) in [
        (
            "UPDATE records SET payload = replace(payload, 'make', 'fake') WHERE seq = 1",
            "record 1 was changed",
        ),
        ("UPDATE records SET at = at + 1 WHERE seq = 2", "record 2 was changed"),
        ("UPDATE records SET fact = 'other' WHERE seq = 1", "record 1 was changed"),
        ("UPDATE records SET host = 'x' WHERE seq = 0", "record 0 was changed"),
        ("UPDATE records SET channel = 'proxy' WHERE seq = 0", "record 0 was changed"),
        ("UPDATE records SET decision_point = 'pre_render' WHERE seq = 0", "record 0 was changed"),
        ("UPDATE records SET redactions = 5 WHERE seq = 0", "record 0 was changed"),
        (
            "DELETE FROM record_bodies; DELETE FROM records WHERE seq = 2",
            "record 2 is missing; the next one is 3",
        ),
        (
            "DELETE FROM record_bodies; DELETE FROM records WHERE seq = 4",
            "the run has 4 records, but 5 were stored",
        ),
        (
            "UPDATE bodies SET zstd = x'00'",
            "record 2: the text at /result/content/0/text: it does not decompress",
        ),
        ("UPDATE bodies SET hash = x'0102'", "record 2 was changed"),
        ("UPDATE reports SET hash = x'00'", "a report about record 3 was changed"),
        ("DELETE FROM reports", "the last link differs from the one in the run's row"),
        (
            "UPDATE runs SET calls = 7",
            "the run's counts of calls, errors and deliveries do not match",
        ),
        (
            "UPDATE runs SET outcome = 'completed', ended = 5",
            "the run's times or its end do not match",
        ),
        ("UPDATE runs SET started = 5", "the run's times or its end do not match"),
        ("UPDATE records SET link = x'00' WHERE seq = 1", "Conversion error"),
        ("DELETE FROM runs", "the table records has rows without a parent row"),
        ("UPDATE runs SET run_id = 's'", "record 0 was changed"),
        ("UPDATE runs SET parent_run_id = 'nobody'", "its parent run nobody is not in the store"),
    ] {
        let place = TempStore::new();
        let mut store = place.open();
        store.append(user_message("r", "go")).unwrap();
        store.append(tool_started("r", "a")).unwrap();
        store.append(tool_ended("r", "a", &"long ".repeat(2_000))).unwrap();
        store.append(tool_ended("r", "b", "short")).unwrap();
        store.append(user_message("r", "end")).unwrap();
        store.append(tool_ended("r", "b", "reported differently")).unwrap();
        assert_eq!(findings(&store), [""; 0]);
        let connection = Connection::open(place.data_dir().store_file()).unwrap();
        connection.execute_batch(&format!("PRAGMA foreign_keys=OFF; {change};")).unwrap();
        let found = findings(&store);
        assert!(found.iter().any(|finding| finding.contains(expected)), "{change}: {found:?}");
    }
}

#[test]
fn a_run_can_be_verified_while_it_grows() {
    let place = TempStore::new();
    place.open().append(user_message("r", "first")).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut store = place.open();
            for n in 0..400 {
                store.append(tool_ended("r", &(n / 3).to_string(), &n.to_string())).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let store = place.open();
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            assert_eq!(store.verify_run(&"r".into()).unwrap(), []);
        }
    });
}

#[test]
fn a_waiting_spilled_event_is_a_finding() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    drop(place.open());
    midcourse::spill_event(&data_dir, user_message("r", "waits"), &test_settings()).unwrap();
    let store = place.open();
    let found = findings(&store);
    assert!(found[0].contains("a spilled event was not taken in yet"), "{found:?}");
}

#[test]
fn numbers_are_stored_exactly() {
    let place = TempStore::new();
    let mut store = place.open();
    for n in 0..300_u32 {
        let number = f64::from(n).sqrt() * 1e-7 + f64::from(n) / 3.0;
        let mut event = tool_started("r", &n.to_string());
        let TrajectoryPayload::ToolStarted { args, .. } = &mut event.payload else {
            unreachable!()
        };
        *args = json!({ "number": number });
        store.append(event.clone()).unwrap();
        assert_eq!(store.append(event).unwrap().status, RecordStatus::Duplicate);
    }
}

#[test]
fn the_write_ahead_log_stays_short_while_a_reader_is_open() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    drop(place.open());
    let reader = Store::open_read_only(&data_dir).unwrap().unwrap();
    let wal_len =
        || fs::metadata(data_dir.path().join("store.db-wal")).map_or(0, |file| file.len());
    let mut longest = 0;
    let text: String = (0..300).map(|n| format!("{:x}", n * 7_919)).collect();
    for n in 0..400_u64 {
        // Opens the store for each event, as a hook process does, while a reader stays open.
        place.open().append(tool_ended("r", &n.to_string(), &text)).unwrap();
        assert!(!reader.records("r", n.saturating_sub(5), 9).unwrap().is_empty());
        longest = longest.max(wal_len());
    }
    assert!(longest < 700 * 1024, "{longest}");
    // While a reader has an open transaction, SQLite cannot empty the write-ahead log, which grows.
    let slow_reader = Connection::open(data_dir.store_file()).unwrap();
    slow_reader.execute_batch("BEGIN; SELECT count(*) FROM records;").unwrap();
    let before: i64 =
        slow_reader.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    for n in 400..500 {
        place.open().append(tool_ended("r", &n.to_string(), &text)).unwrap();
    }
    assert!(wal_len() > 700 * 1024);
    let after: i64 =
        slow_reader.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!(before, after);
    slow_reader.execute_batch("COMMIT").unwrap();
    for n in 500..510 {
        place.open().append(tool_ended("r", &n.to_string(), &text)).unwrap();
    }
    assert!(wal_len() < 700 * 1024, "{}", wal_len());
}

#[test]
fn a_closed_writer_leaves_an_empty_write_ahead_log() {
    let place = TempStore::new();
    let writer = StoreWriter::open(&place.data_dir(), test_settings()).unwrap();
    writer.record_blocking(user_message("r", "x")).unwrap();
    drop(writer);
    assert_eq!(fs::metadata(place.data_dir().path().join("store.db-wal")).unwrap().len(), 0);
}

#[test]
fn many_writers_can_create_a_store_at_once() {
    for _ in 0..40 {
        let place = TempStore::new();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let place = &place;
                scope.spawn(move || {
                    place.open().append(tool_ended("r", &writer.to_string(), "x")).unwrap();
                });
            }
        });
        assert_eq!(place.open().run("r").unwrap().unwrap().calls, 4);
    }
}

/// A checkpoint that is missing or damaged is computed again from the records of the run. One call
/// of `step` reads at most 20,000 records for that, so a longer run needs several calls.
#[test]
fn an_unreadable_checkpoint_is_computed_again() {
    let place = TempStore::new();
    let mut store = place.open();
    for batch in 0..21 {
        let events = (0..1_000).map(|n| tool_ended("r", &format!("{batch}-{n}"), "same"));
        store.append_all(events).unwrap();
    }
    let connection = Connection::open(place.data_dir().store_file()).unwrap();
    let step = |store: &mut Store, call: &str| {
        store.step(tool_ended("r", call, "same"), &mut synced_engine()).unwrap();
        store.checkpoint("r").unwrap().unwrap()
    };
    assert_eq!(step(&mut store, "x").0, 20_000, "the most that one step folds");
    assert_eq!(step(&mut store, "y").0, 21_002, "the next step folds the rest");
    connection.execute("UPDATE checkpoints SET zstd = x'00', next_seq = 21002", []).unwrap();
    step(&mut store, "z");
    let (folded, saved) = {
        step(&mut store, "w");
        store.checkpoint("r").unwrap().unwrap()
    };
    let mut engine = Engine::shipped(Budget::default());
    for record in store.trajectory("r").unwrap() {
        engine.fold(&record);
    }
    assert_eq!(folded, 21_004);
    assert!(engine.checkpoint().unwrap() == saved);
}

#[test]
fn a_run_can_be_resumed_and_end_again() {
    let place = TempStore::new();
    let mut store = place.open();
    let mut add = |seconds, payload| {
        store.append(Event::new(root("r"), hook(), at(seconds), payload)).unwrap();
        let run = store.run("r").unwrap().unwrap();
        (run.ended.map(Timestamp::unix_ms), run.outcome)
    };
    let end = |outcome| TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
    assert_eq!(add(0, TrajectoryPayload::TurnStarted), (None, None));
    assert_eq!(add(5, end(RunOutcome::Failed)), (Some(at(5).unix_ms()), Some("failed".to_owned())));
    assert_eq!(add(9, TrajectoryPayload::Resumed), (None, None));
    assert_eq!(
        add(12, end(RunOutcome::Completed)),
        (Some(at(12).unix_ms()), Some("completed".to_owned()))
    );
}

#[test]
fn a_delivery_is_recorded_with_its_event_and_made_once() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    let mut deliveries = 0;
    for call in 0..4 {
        let mut event = tool_ended("r", &call.to_string(), "error: no rule");
        let TrajectoryPayload::ToolEnded { is_error, .. } = &mut event.payload else {
            unreachable!()
        };
        *is_error = true;
        // Two sources, such as hooks and the proxy, report the same events.
        for channel in [Channel::Hook, Channel::Proxy] {
            event.source = Source::new("test", channel);
            event.decision_point = Some(midcourse::DecisionPoint::PreToolSelection);
            let ingested =
                ingest(&data_dir, &test_settings(), event.clone(), &mut synced_engine()).unwrap();
            let midcourse::Ingested::Stored { step, .. } = ingested else { unreachable!() };
            deliveries += step.deliveries.len();
        }
    }
    assert_eq!(deliveries, 1);
    let store = place.open();
    let kinds: Vec<_> =
        store.trajectory("r").unwrap().iter().map(|record| record.payload.kind()).collect();
    assert_eq!(
        kinds,
        ["tool_ended", "tool_ended", "tool_ended", "guidance_delivered", "tool_ended"]
    );
    assert_eq!(store.run("r").unwrap().unwrap().deliveries, 1);
}

#[test]
fn search_finds_words_in_all_runs() {
    let place = TempStore::new();
    let mut store = place.open();
    everything(&mut store);
    let mut index = SearchIndex::open(&store).unwrap();
    index.catch_up(&store, |_| ()).unwrap();
    let hits = |index: &SearchIndex, store: &Store, words: &str| -> Vec<(String, u64)> {
        let (found, damage) =
            index.search(store, words, &midcourse::SearchFilter::default(), 9).unwrap();
        assert_eq!(damage, []);
        found.iter().map(|hit| (hit.run_id.to_string(), hit.seq)).collect()
    };
    assert_eq!(hits(&index, &store, "make build"), [("r".to_owned(), 1)]);
    assert_eq!(hits(&index, &store, "\"odd OR"), []);
    store.append(user_message("s", "something new to build")).unwrap();
    index.catch_up(&store, |_| ()).unwrap();
    assert_eq!(hits(&index, &store, "build").len(), 2);
    // A damaged search index is built again from the store.
    drop(index);
    fs::write(place.data_dir().search_file(), "not a database at all, but long enough".repeat(50))
        .unwrap();
    let mut index = SearchIndex::open(&store).unwrap();
    index.catch_up(&store, |_| ()).unwrap();
    assert_eq!(hits(&index, &store, "build").len(), 2);
}

#[test]
fn a_hundred_thousand_runs_are_listed_newest_first() {
    let place = TempStore::new();
    let mut store = place.open();
    for batch in 0..20_u64 {
        let events = (0..5_000).map(|n| {
            let n = batch * 5_000 + n;
            Event::new(root(&format!("run-{n}")), hook(), at(n), TrajectoryPayload::TurnStarted)
        });
        store.append_all(events).unwrap();
    }
    let runs = store.runs(usize::MAX).unwrap();
    assert_eq!(runs.len(), 100_000);
    assert_eq!(runs[0].run_id.as_str(), "run-99999");
    assert!(runs.is_sorted_by(|a, b| a.started >= b.started));
}

#[test]
fn a_time_out_of_range_is_rejected() {
    let place = TempStore::new();
    let mut event = user_message("r", "x");
    event.at = Timestamp::from_unix_ms(u64::MAX);
    let error = place.open().append(event).unwrap_err();
    assert!(matches!(error, StoreError::Rejected(_)), "{error}");
}
