//! Benchmark of shipping stores to a fleet, from one shipper and from eight, beside plain `COPY` of
//! exactly the same rows into the same tables, in turns. The server syncs to disk.
//!
//! `cargo bench -p midcourse-fleet --bench ship`; `-- small` for small batches and notifications.
//! `MIDCOURSE_BENCH_RUNS` sets the number of runs in each store.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on stops, and prints what it found"
)]

mod runs;
mod server;
#[path = "ship/small.rs"]
mod small;
mod times;
mod used;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Instant;

use midcourse::{DataDir, now};
use midcourse_fleet::{Level, ShipSettings, Shipper};
use postgres_server::{OWNER, Server};
use server::Fleet;
use used::{Usage, Used};

const ROUNDS: usize = 5;

/// What the documentation recommends.
const SETTINGS: [&str; 4] =
    ["shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min", "wal_compression=lz4"];

fn main() {
    let Some(server) = Server::start(&SETTINGS) else { return };
    let folder = tempfile::tempdir().unwrap();
    if std::env::args().any(|argument| argument == "small") {
        small::run(&server, folder.path());
        return;
    }
    let runs = setting("MIDCOURSE_BENCH_RUNS", 200);
    let started = now().unix_ms() - 86_400_000;
    let stores: Vec<DataDir> = (0..8_u64)
        .map(|n| runs::store(folder.path(), &format!("store{n}"), n + 1, runs, started))
        .collect();
    println!("{runs} runs of 100 records in each of {} stores", stores.len());
    for shippers in [1, 8] {
        compare(&server, &stores[..shippers]);
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The rows of a store's runs, as `COPY … TO STDOUT BINARY` writes them.
struct Rows {
    tables: Vec<(&'static str, Vec<u8>)>,
}

/// The columns of `runs` that are not computed.
const RUNS: &str = "run, project, run_id, day, writer, store, level, records, reports, link, is_dropped, \
     received, header";

struct Measured {
    seconds: f64,
    used: Usage,
}

fn compare(server: &Server, stores: &[DataDir]) {
    let mut names = vec!["midcourse", "COPY", "COPY, words too"];
    names.truncate(setting("MIDCOURSE_BENCH_WAYS", 3).try_into().unwrap());
    let mut measured: Vec<Vec<Measured>> = names.iter().map(|_| Vec::new()).collect();
    let mut rows = Vec::new();
    let mut count = 0.0;
    for _ in 0..setting("MIDCOURSE_BENCH_ROUNDS", ROUNDS as u64) {
        for (way, measured) in measured.iter_mut().enumerate() {
            let fleet = Fleet::new(server);
            if way > 0 {
                prepare(&fleet);
            }
            server.psql("postgres", "CHECKPOINT");
            stores.iter().for_each(forget);
            let before = Used::now(server);
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for (n, store) in stores.iter().enumerate() {
                    let (fleet, rows) = (&fleet, &rows);
                    scope.spawn(move || match way {
                        0 => ship(fleet, store),
                        1 => copy(fleet, &rows[n], &["runs", "records", "bodies"]),
                        _ => copy(fleet, &rows[n], &["runs", "records", "bodies", "words"]),
                    });
                }
            });
            let seconds = begun.elapsed().as_secs_f64();
            measured.push(Measured { seconds, used: Used::now(server).since(before) });
            if rows.is_empty() {
                rows = read(&fleet, stores);
                count = fleet
                    .client(OWNER)
                    .query_one("SELECT count(*) FROM midcourse.records", &[])
                    .unwrap()
                    .get::<_, i64>(0) as f64;
                sizes(&fleet, count);
            }
            drop_database(fleet);
        }
    }
    let mut plain = 0.0;
    let mut lines = Vec::new();
    for (name, measured) in names.iter().zip(&measured).rev() {
        let rates = sorted(measured.iter().map(|it| count / it.seconds));
        let middle = |of: fn(&Measured) -> f64| {
            let all = sorted(measured.iter().map(of));
            all[all.len() / 2] / count
        };
        let rate = rates[rates.len() / 2];
        if *name == "COPY" {
            plain = rate;
        }
        lines.push((
            rate,
            format!(
                "{} shippers, {name}: {rate:.0} rows/s ({:.0} to {:.0}); processor time per row: \
                 server {:.1} µs, client {:.1} µs; WAL per row: {:.0} B",
                stores.len(),
                rates[0],
                rates[rates.len() - 1],
                middle(|it| it.used.server_cpu * 1e6),
                middle(|it| it.used.client_cpu * 1e6),
                middle(|it| it.used.wal),
            ),
        ));
    }
    for (rate, line) in lines.iter().rev() {
        println!("{line}; / COPY: {:.2}", rate / plain);
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

pub(crate) fn drop_database(fleet: Fleet<'_>) {
    let drop = format!("DROP DATABASE {} WITH (FORCE)", fleet.database);
    fleet.server.psql("postgres", &drop);
}

/// Forgets what was shipped.
fn forget(store: &DataDir) {
    let _ = std::fs::remove_dir_all(store.path().join("shipped"));
}

fn ship(fleet: &Fleet<'_>, store: &DataDir) {
    let settings = ShipSettings { project: "p".to_owned(), level: Level::Full };
    let mut shipper = Shipper::open(store, fleet.target("writer"), settings).unwrap().unwrap();
    let progress = shipper.ship(|_| ()).unwrap();
    assert_eq!(progress.refused, Vec::new());
}

/// Creates the partitions that the rows need.
fn prepare(fleet: &Fleet<'_>) {
    let mut owner = fleet.client(OWNER);
    for days in 0..3 {
        owner
            .execute(
                "SELECT midcourse.make_day((now() AT TIME ZONE 'UTC')::date - $1::int)",
                &[&days],
            )
            .unwrap();
    }
}

fn copy(fleet: &Fleet<'_>, rows: &Rows, tables: &[&str]) {
    let mut owner = fleet.client(OWNER);
    let mut transaction = owner.transaction().unwrap();
    for (table, bytes) in &rows.tables {
        if !tables.contains(table) {
            continue;
        }
        let columns = if *table == "runs" { format!("({RUNS})") } else { String::new() };
        let statement = format!("COPY midcourse.{table} {columns} FROM STDIN BINARY");
        let mut writer = transaction.copy_in(&statement).unwrap();
        bytes.chunks(64 * 1024).for_each(|part| writer.write_all(part).unwrap());
        writer.finish().unwrap();
    }
    transaction.commit().unwrap();
}

/// Reads back what was shipped of each store.
fn read(fleet: &Fleet<'_>, stores: &[DataDir]) -> Vec<Rows> {
    let mut owner = fleet.client(OWNER);
    let mut all = Vec::new();
    for store in stores {
        let name = Path::new(store.path()).file_name().unwrap().to_str().unwrap();
        let of = format!("(SELECT run FROM midcourse.runs WHERE run_id LIKE '{name}-%')");
        let queries = [
            ("runs", format!("SELECT {} FROM midcourse.runs WHERE run IN {of}", RUNS)),
            (
                "records",
                format!("SELECT * FROM midcourse.records WHERE run IN {of} ORDER BY run, seq"),
            ),
            (
                "bodies",
                format!(
                    "SELECT * FROM midcourse.bodies WHERE (day, project, key) IN (SELECT day, project, \
                 unnest(keys) FROM midcourse.records WHERE run IN {of})"
                ),
            ),
            ("words", format!("SELECT * FROM midcourse.words WHERE run IN {of} ORDER BY run")),
        ];
        let mut tables = Vec::new();
        for (table, query) in queries {
            let mut bytes = Vec::new();
            let statement = format!("COPY ({query}) TO STDOUT BINARY");
            owner.copy_out(&statement).unwrap().read_to_end(&mut bytes).unwrap();
            tables.push((table, bytes));
        }
        all.push(Rows { tables });
    }
    all
}

/// Prints what the tables need on disk.
fn sizes(fleet: &Fleet<'_>, count: f64) {
    let mut owner = fleet.client(OWNER);
    let words = "SELECT avg(cardinality(words))::float8 FROM midcourse.words";
    let words: f64 = owner.query_one(words, &[]).unwrap().get(0);
    println!("  {words:.0} words in a part of a run");
    for table in ["runs", "records", "bodies", "words"] {
        let size = "SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::float8, \
             coalesce(sum(pg_indexes_size(relid)), 0)::float8 FROM (SELECT $1::text::regclass AS relid \
             UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) AS tables";
        let row = owner.query_one(size, &[&format!("midcourse.{table}")]).unwrap();
        let (all, indexes): (f64, f64) = (row.get(0), row.get(1));
        println!(
            "  {table}: {:.0} B per record, of which indexes {:.0} B",
            all / count,
            indexes / count
        );
    }
}
