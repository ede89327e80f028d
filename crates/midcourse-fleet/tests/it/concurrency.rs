//! Several sessions at once: nobody waits in a circle, nothing is stored twice or lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use midcourse::{ChainLimit, ChainPosition, RunId, Timestamp};
use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{FleetError, FleetReader, Level, LocalCopy, RunReader as _};
use postgres_server::OWNER;

use crate::runs::message;
use crate::staging::{STARTED, Staged, ship, ship_one};
use crate::world::{Fleet, Machine, contents, server};

const DAY: i64 = 86_400_000;
const CALL: &str = "SELECT status FROM midcourse.ship('p', 's')";

/// Waits until this many sessions of the database wait for a lock.
fn wait_for_waiting(fleet: &Fleet<'_>, count: usize) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while fleet.sql(waiting) != count.to_string() {
        thread::sleep(Duration::from_millis(2));
    }
}

fn day_of(fleet: &Fleet<'_>, started: i64) -> String {
    fleet.sql(&format!("SELECT midcourse.day_of({started})"))
}

/// A time after all records.
fn never() -> Timestamp {
    Timestamp::from_unix_ms(u64::MAX)
}

#[test]
fn of_two_calls_for_one_run_one_wins() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut clients = [fleet.client("writer"), fleet.client("writer")];
    for client in &mut clients {
        client.query(CALL, &[]).unwrap();
    }
    // For a new run, and for one that exists; with the runs in both orders.
    for (from, to) in [(0, 2), (2, 5)] {
        let [first, second] = &mut clients;
        let [one, two] = ["one", "two"].map(|run| Staged::new(run, from, to));
        let mut transaction = first.transaction().unwrap();
        transaction.batch_execute(&one.sql()).unwrap();
        transaction.batch_execute(&Staged { n: 1, ..two.clone() }.sql()).unwrap();
        let rows = transaction.query(CALL, &[]).unwrap();
        assert!(rows.iter().all(|row| row.get::<_, &str>(0) == "shipped"));
        thread::scope(|scope| {
            let sql = two.sql() + &Staged { n: 1, ..one.clone() }.sql();
            let other = scope.spawn(move || ship(second, &sql).unwrap());
            wait_for_waiting(&fleet, 1);
            transaction.commit().unwrap();
            let statuses = other.join().unwrap();
            assert!(statuses.iter().all(|(_, status)| status == "moved"), "{statuses:?}");
        });
    }
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.records"), "10");
    // The same from many sessions, without an order.
    thread::scope(|scope| {
        for session in 0..6 {
            let fleet = &fleet;
            scope.spawn(move || {
                let mut client = fleet.client("writer");
                client.query(CALL, &[]).unwrap();
                for round in 0..25 {
                    let run = |n| Staged { n, ..Staged::new(&format!("run{n}"), round, round + 1) };
                    let mut runs: Vec<String> = (0..5).map(|n| run(n).sql()).collect();
                    runs.rotate_left(session % 5);
                    // Those that are behind another session have no effect.
                    ship(&mut client, &runs.concat()).unwrap();
                }
            });
        }
    });
    let counted =
        fleet.sql("SELECT run_id, records FROM midcourse.runs WHERE run_id LIKE 'run%' ORDER BY 1");
    assert_eq!(counted, "run0|25\nrun1|25\nrun2|25\nrun3|25\nrun4|25");
}

#[test]
fn a_new_day_is_made_once() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    thread::scope(|scope| {
        for session in 0..8 {
            let fleet = &fleet;
            scope.spawn(move || {
                let mut client = fleet.client("writer");
                client.query(CALL, &[]).unwrap();
                for round in 0..4 {
                    // Each call needs three new days, which others need too, in another order.
                    let run = |n: i32| Staged {
                        n,
                        started: STARTED + (i64::from(n + session) % 3 + round * 3) * DAY,
                        ..Staged::new(&format!("run{session}.{round}.{n}"), 0, 1)
                    };
                    let sql: String = (0..3).map(|n| run(n).sql()).collect();
                    let statuses = ship(&mut client, &sql).unwrap();
                    assert!(statuses.iter().all(|(_, status)| status == "shipped"));
                }
            });
        }
    });
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.records"), "96");
    let partitions = "SELECT (SELECT count(*) FROM midcourse.days) * 4 = count(*) FROM pg_inherits \
                      WHERE inhparent::regclass::text ~ '^midcourse.(records|bodies|reports|words)$'";
    assert_eq!(fleet.sql(partitions), "t");
}

#[test]
fn a_day_is_not_dropped_under_a_run_that_is_being_shipped() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query(CALL, &[]).unwrap();
    let old = STARTED - 70 * DAY;
    let staged = |run: &str, from, to| Staged { started: old, ..Staged::new(run, from, to) };
    assert_eq!(ship_one(&mut writer, &staged("old", 0, 2)).unwrap(), "shipped");
    let day = day_of(&fleet, old);
    let since = Timestamp::from_unix_ms(u64::try_from(STARTED).unwrap() + 1);
    // A run of the day is added, with a later record, while the day is about to be dropped.
    let latest = format!("{{\"latest\": {}}}", STARTED + DAY);
    let link = crate::staging::link("new", 1);
    let header = crate::staging::header("new", 1, &link, &latest);
    let new = Staged { header, ..staged("new", 0, 1) };
    let mut transaction = writer.transaction().unwrap();
    transaction.batch_execute(&new.sql()).unwrap();
    transaction.query(CALL, &[]).unwrap();
    thread::scope(|scope| {
        let mut owner = fleet.client(OWNER);
        let drop = scope.spawn({
            let day = day.clone();
            move || schema::drop_day(&mut owner, &day, since)
        });
        wait_for_waiting(&fleet, 1);
        transaction.commit().unwrap();
        assert!(!drop.join().unwrap().unwrap(), "the day has a run with a late record");
    });
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.records"), "3");
    // A run is added to the day, and another one grows, while the day is being dropped.
    let mut owner = fleet.client(OWNER);
    let mut second = fleet.client("writer");
    second.query(CALL, &[]).unwrap();
    let mut reader = fleet.client("reader");
    let mut reading = reader.transaction().unwrap();
    reading.query("SELECT FROM midcourse.records", &[]).unwrap();
    thread::scope(|scope| {
        let drop = scope.spawn({
            let day = day.clone();
            move || schema::drop_day(&mut owner, &day, never())
        });
        wait_for_waiting(&fleet, 1);
        let added = scope.spawn(|| ship_one(&mut writer, &staged("newer", 0, 1)));
        let grown = scope.spawn(|| ship_one(&mut second, &staged("old", 2, 3)));
        wait_for_waiting(&fleet, 3);
        reading.commit().unwrap();
        assert!(drop.join().unwrap().unwrap());
        assert_eq!(added.join().unwrap().unwrap(), "shipped");
        assert_eq!(grown.join().unwrap().unwrap(), "dropped");
    });
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.records"), "1");
    let runs = "SELECT run_id, is_dropped, records FROM midcourse.runs ORDER BY run_id";
    assert_eq!(fleet.sql(runs), "new|t|1\nnewer|f|1\nold|t|2");
    assert!(!schema::drop_day(&mut fleet.client(OWNER), "2020-01-01", never()).unwrap());
}

#[test]
fn a_reader_that_does_not_end_makes_drop_day_give_up() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query(CALL, &[]).unwrap();
    ship_one(&mut writer, &Staged::new("run", 0, 2)).unwrap();
    let day = day_of(&fleet, STARTED);
    let mut reader = fleet.client("reader");
    let mut reading = reader.transaction().unwrap();
    reading.query("SELECT FROM midcourse.records", &[]).unwrap();
    let error = schema::drop_day(&mut fleet.client(OWNER), &day, never()).unwrap_err();
    assert!(matches!(error, FleetError::Busy(_)) && error.is_temporary(), "{error:?}");
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 2, 3)).unwrap(), "shipped");
    reading.commit().unwrap();
    assert!(schema::drop_day(&mut fleet.client(OWNER), &day, never()).unwrap());
}

#[test]
fn readers_shippers_and_owners_do_not_wait_in_a_circle() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machines: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let shippers: Vec<_> = machines
            .iter()
            .enumerate()
            .map(|(number, machine)| {
                let fleet = &fleet;
                scope.spawn(move || {
                    let mut store = machine.open();
                    let mut shipper = machine.shipper(fleet, Level::Full);
                    for n in 0..60 {
                        let mut event = message(&format!("run{number}.{n}"), n % 7 * 86_400);
                        event.payload = midcourse::TrajectoryPayload::MessageAppended {
                            message: midcourse::AgentMessage::user("same text ".repeat(900)),
                        };
                        store.append(event).unwrap();
                        store.append(message(&format!("run{number}.{n}"), n % 7 * 86_400)).unwrap();
                        let progress = shipper.ship(|_| ()).unwrap();
                        assert_eq!(progress.refused, Vec::new());
                    }
                })
            })
            .collect();
        let reading = scope.spawn(|| {
            let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
            let mut reads = 0;
            while !is_over.load(Ordering::SeqCst) {
                let from = |run: &RunId| ChainPosition::start(run);
                let mut copy = LocalCopy::new().unwrap();
                let filter = midcourse::SearchFilter::default();
                copy.search(&mut reader, "same text", &filter, 3).unwrap();
                for run in reader.find_runs("run", midcourse_fleet::IdPart::Start, 9).unwrap() {
                    match reader.chain_after(&run, &from(&run), ChainLimit::NONE) {
                        Ok(part) => assert_eq!(part.end, part.header.end(), "{run}"),
                        Err(error) => assert!(error.to_string().contains("any more"), "{error}"),
                    }
                }
                reads += 1;
            }
            reads
        });
        let mut owner = fleet.client(OWNER);
        let mut dropped = 0;
        while shippers.iter().any(|shipper| !shipper.is_finished()) {
            schema::migrate(&mut owner).unwrap();
            fleet.grant("p", "another", Access::Write);
            for day in schema::days(&mut owner).unwrap() {
                // Runs that are shipped afterwards make the day again.
                dropped += u64::from(schema::drop_day(&mut owner, &day.day, never()).unwrap());
                schema::delete_run(&mut owner, "p", &format!("run0.{dropped}")).unwrap();
            }
        }
        is_over.store(true, Ordering::SeqCst);
        let reads = reading.join().unwrap();
        println!("{reads} reads, {dropped} days dropped");
    });
    let lost = fleet.sql(
        "SELECT (SELECT count(*) FROM midcourse.runs AS r WHERE NOT is_dropped AND records <> \
         (SELECT count(*) FROM midcourse.records AS s WHERE s.run = r.run)), \
         (SELECT count(*) FROM midcourse.records AS s WHERE NOT EXISTS \
         (SELECT FROM midcourse.runs AS r WHERE r.run = s.run AND NOT is_dropped)), \
         (SELECT count(*) FROM midcourse.records AS s, unnest(s.keys) AS k WHERE NOT EXISTS \
         (SELECT FROM midcourse.bodies AS b WHERE b.day = s.day AND b.key = k))",
    );
    assert_eq!(lost, "0|0|0", "runs without records, records without runs, lost texts");
}

#[test]
fn a_text_that_is_being_shipped_is_not_deleted_with_another_run() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let (one, two) = (Machine::new(), Machine::new());
    let event = |run: &str| {
        let mut event = message(run, 0);
        event.payload = midcourse::TrajectoryPayload::MessageAppended {
            message: midcourse::AgentMessage::user("a text of two runs ".repeat(500)),
        };
        event
    };
    one.open().append(event("one")).unwrap();
    one.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut store = two.open();
    store.append(event("two")).unwrap();
    let mut shipper = two.shipper(&fleet, Level::Full);
    shipper.connect().unwrap();
    // The shipper stops before it commits: the lock on the table of words is taken last.
    let mut owner = fleet.client(OWNER);
    let mut stop = owner.transaction().unwrap();
    stop.batch_execute("LOCK midcourse.words IN ACCESS EXCLUSIVE MODE").unwrap();
    thread::scope(|scope| {
        let shipping = scope.spawn(|| shipper.ship(|_| ()).unwrap());
        wait_for_waiting(&fleet, 1);
        let deleting =
            scope.spawn(|| schema::delete_run(&mut fleet.client(OWNER), "p", "one").unwrap());
        wait_for_waiting(&fleet, 2);
        stop.rollback().unwrap();
        assert_eq!(shipping.join().unwrap().records, 1);
        assert_eq!(deleting.join().unwrap(), 1);
    });
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    assert!(copy.bring(&mut reader, &RunId::from("two")).unwrap());
    assert_eq!(contents(copy.store()), contents(&store));
    assert_eq!(copy.store().verify_run(&RunId::from("two")).unwrap(), Vec::new());
}
