//! Shipping, without faults.

use midcourse_fleet::schema::Access;
use midcourse_fleet::{BatchLimit, Level, Progress};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use crate::runs::{START, event, message};
use crate::world::{Fleet, Machine, contents, server};

/// How far the fleet has each run: run id, records, reports and last link.
fn shipped(fleet: &Fleet<'_>) -> Vec<String> {
    let rows =
        fleet.sql("SELECT run_id, records, reports, encode(link, 'hex') FROM midcourse.runs");
    let mut rows: Vec<String> = rows.lines().map(ToOwned::to_owned).collect();
    rows.sort();
    rows
}

#[test]
fn everything_is_shipped_once() {
    let Some(server) = server() else { return };
    let config = ProptestConfig { cases: 8, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let events = prop::collection::vec(event(), 1..80);
    runner
        .run(&(events, 0..80_usize), |(events, cut)| {
            let fleet = Fleet::new(server);
            let machine = Machine::new();
            let mut store = machine.open();
            let mut shipper = machine.shipper(&fleet, Level::Full);
            for (n, event) in events.into_iter().enumerate() {
                store.append(event).unwrap();
                if n % (cut + 1) == cut {
                    let progress = shipper.ship(|_| ()).unwrap();
                    prop_assert_eq!(progress.refused, Vec::new());
                }
            }
            shipper.ship(|_| ()).unwrap();
            prop_assert_eq!(shipper.ship(|_| ()).unwrap().batches, 0, "nothing is left to ship");
            let mut expected: Vec<String> = contents(&store)
                .iter()
                .map(|(header, _)| {
                    let end = header.end();
                    format!("{}|{}|{}|{}", header.run_id(), end.records, end.reports, end.link)
                })
                .collect();
            expected.sort();
            prop_assert_eq!(shipped(&fleet), expected);
            let counted: usize = contents(&store).iter().map(|(_, entries)| entries.len()).sum();
            let rows = fleet.sql(
                "SELECT (SELECT count(*) FROM midcourse.records) + (SELECT count(*) FROM midcourse.reports)",
            );
            prop_assert_eq!(rows, counted.to_string());
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_lost_cursor_and_a_lost_fleet_are_made_good() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    (0..5).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    assert_eq!(machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap().records, 5);
    // The cursors are lost: the server says what it has.
    let cursors = machine.data_dir().path().join("shipped");
    std::fs::remove_dir_all(&cursors).unwrap();
    (5..7).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.records, progress.refused.len()), (2, 0));
    // They are damaged, in a page that is not read when the file is opened.
    let file = std::fs::read_dir(&cursors).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|file| file.extension().is_some_and(|it| it == "db")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4_096..].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap().records, 0);
    // The fleet has lost the run, or is a new one: it is shipped from its start.
    fleet.sql(
        "DELETE FROM midcourse.records; DELETE FROM midcourse.runs; DELETE FROM midcourse.words",
    );
    store.append(message("run", 7)).unwrap();
    let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.records, progress.refused.len()), (8, 0));
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.records"), "8");
}

#[test]
fn runs_that_the_fleet_has_lost_are_shipped_again_though_they_have_not_grown() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    (0..4).for_each(|n| drop(store.append(message("lost", n)).unwrap()));
    (0..3).for_each(|n| drop(store.append(message("shorter", n)).unwrap()));
    (0..2).for_each(|n| drop(store.append(message("kept", n)).unwrap()));
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let before = shipped(&fleet);
    // As after a restore of a backup: one run is not there yet, and another one is shorter.
    fleet.sql(
        "DELETE FROM midcourse.records AS s USING midcourse.runs AS r WHERE r.run = s.run \
         AND (r.run_id = 'lost' OR r.run_id = 'shorter' AND s.seq > 0); \
         DELETE FROM midcourse.words AS w USING midcourse.runs AS r WHERE r.run = w.run \
         AND r.run_id <> 'kept'; \
         DELETE FROM midcourse.runs WHERE run_id = 'lost'; \
         UPDATE midcourse.runs AS r SET records = 1, link = (SELECT s.link FROM midcourse.records AS s \
         WHERE s.run = r.run AND s.seq = 0) WHERE r.run_id = 'shorter'",
    );
    let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.records, progress.refused), (6, Vec::new()));
    assert_eq!(shipped(&fleet), before);
    // A shipper that is still running notices it when it connects again.
    let mut shipper = machine.shipper(&fleet, Level::Full);
    assert_eq!(shipper.ship(|_| ()).unwrap().batches, 0);
    fleet.sql(
        "DELETE FROM midcourse.records; DELETE FROM midcourse.runs; DELETE FROM midcourse.words; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'midcourse'",
    );
    store.append(message("kept", 2)).unwrap();
    let records = loop {
        match shipper.ship(|_| ()) {
            Ok(progress) => break progress.records,
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    };
    assert_eq!(records, 10);
    assert_eq!(fleet.sql("SELECT count(*), count(DISTINCT run) FROM midcourse.records"), "10|3");
}

#[test]
fn another_history_and_another_writer_are_refused_and_the_rest_is_shipped() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.grant("p", "second", Access::Write);
    let (one, two) = (Machine::new(), Machine::new());
    let mut store = one.open();
    (0..3).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    one.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut store = two.open();
    (1..4).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    store.append(message("fresh", 0)).unwrap();
    let before = shipped(&fleet);
    let progress = two.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.runs, progress.refused.len()), (1, 1));
    assert!(progress.refused[0].why.contains("another store ships a run with this id"));
    // The owner deletes the run of the other machine: it is tried again with the next connection.
    let mut shipper = two.shipper(&fleet, Level::Full);
    assert_eq!(shipper.ship(|_| ()).unwrap().refused.len(), 1);
    assert_eq!(shipper.ship(|_| ()).unwrap().refused.len(), 0, "it is not said again at once");
    let progress = two.shipper_as(&fleet, "second", "p", Level::Full).ship(|_| ()).unwrap();
    assert_eq!(progress.refused.len(), 2, "{:?}", progress.refused);
    assert!(progress.refused[0].why.contains("another role"), "{:?}", progress.refused);
    assert!(shipped(&fleet).contains(&before[0]), "what was shipped stays");
    // The same id in another project is another run.
    fleet.grant("q", "second", Access::Write);
    let progress = two.shipper_as(&fleet, "second", "q", Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.runs, progress.refused.len()), (2, 0));
}

#[test]
fn metadata_has_no_texts() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let events = prop::collection::vec(event(), 60).new_tree(&mut runner).unwrap().current();
    events.into_iter().for_each(|event| drop(store.append(event).unwrap()));
    let progress = machine.shipper(&fleet, Level::Metadata).ship(|_| ()).unwrap();
    assert_eq!(progress.refused, Vec::new());
    let dump = fleet.sql(
        "SELECT string_agg(payload, '') FROM midcourse.records; SELECT string_agg(header::text, '') \
         FROM midcourse.runs; SELECT count(*) FROM midcourse.bodies; SELECT count(*) FROM midcourse.words",
    );
    for text in ["make", "no rule", "quotes", "long", "zero"] {
        assert!(!dump.contains(text), "{text}: {dump}");
    }
    assert!(dump.ends_with("\n0\n0") && dump.contains("bash"), "{dump}");
    store.append(message("run", 9_999)).unwrap();
    let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert!(progress.refused[0].why.contains("another level"), "{:?}", progress.refused);
}

#[test]
fn a_run_of_many_batches_is_resumed_where_the_server_has_it() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    let limit = BatchLimit { runs: 5, entries: 10, bytes: usize::MAX };
    (0..50).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    let mut shipper = machine.shipper(&fleet, Level::Full);
    shipper.limit_batches(limit);
    assert_eq!(shipper.ship(|_| ()).unwrap().batches, 5);
    drop(shipper);
    std::fs::remove_dir_all(machine.data_dir().path().join("shipped")).unwrap();
    (50..54).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    let mut shipper = machine.shipper(&fleet, Level::Full);
    shipper.limit_batches(limit);
    let progress = shipper.ship(|_| ()).unwrap();
    assert_eq!((progress.batches, progress.records, progress.refused), (2, 4, Vec::new()));
}

#[test]
fn a_run_that_cannot_be_stored_keeps_no_other_from_being_shipped() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    for n in 0..6 {
        store.append(message(&format!("run{n}"), n)).unwrap();
    }
    fleet.sql(
        "ALTER TABLE midcourse.records ADD CONSTRAINT test \
         CHECK (payload NOT LIKE '%of run2%' AND payload NOT LIKE '%of run5%')",
    );
    let mut shipper = machine.shipper(&fleet, Level::Full);
    let progress = shipper.ship(|_| ()).unwrap();
    assert_eq!((progress.runs, progress.refused.len()), (4, 2), "{progress:?}");
    for refused in &progress.refused {
        assert!(refused.why.contains("cannot store this run"), "{refused:?}");
        assert!(["run2", "run5"].contains(&refused.run_id.as_str()), "{refused:?}");
    }
    // They are tried again when they have grown, and not before.
    assert_eq!(shipper.ship(|_| ()).unwrap(), Progress::default());
    fleet.sql("ALTER TABLE midcourse.records DROP CONSTRAINT test");
    store.append(message("run2", 9)).unwrap();
    assert_eq!(shipper.ship(|_| ()).unwrap().records, 2);
}

#[test]
fn old_runs_of_many_days_are_shipped() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    for day in 0..400 {
        let mut event = message(&format!("run{day}"), 0);
        event.at = midcourse::Timestamp::from_unix_ms(START - day * 24 * 60 * 60 * 1_000);
        store.append(event).unwrap();
    }
    let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    assert_eq!((progress.runs, progress.refused), (400, Vec::new()));
    let days: u64 = fleet.sql("SELECT count(*) FROM midcourse.days").parse().unwrap();
    assert!(days < 80, "{days}");
}
