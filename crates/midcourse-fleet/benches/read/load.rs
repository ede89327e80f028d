//! Fills a fleet with days of runs.

use std::path::Path;
use std::time::Instant;

use midcourse::{DataDir, RunIdentity, now};
use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{Level, ShipSettings, Shipper};
use postgres::Client;
use postgres_server::OWNER;

use crate::runs::{self, Dice};
use crate::server::Fleet;

/// The runs of a day; 60 days have 100,000.
const RUNS: u64 = 1_667;

const DAY: u64 = 86_400_000;

/// What was loaded.
pub(crate) struct Loaded {
    /// The ids of some runs of 100 records.
    pub(crate) ids: Vec<String>,
    /// The end of the last day, in Unix milliseconds.
    pub(crate) end: u64,
}

/// The word that only the run with this number on this day has, counted backwards from the last.
pub(crate) fn word_of(run: u64, day: u64) -> String {
    format!("only{run}x{day}")
}

pub(crate) fn load(fleet: &Fleet<'_>, folder: &Path, days: u64) {
    let begun = Instant::now();
    // Yesterday, so that all runs are in one partition.
    let start = (now().unix_ms() / DAY - 1) * DAY;
    let data_dir = day_of_runs(folder, start);
    ship(fleet, &data_dir, "p");
    let mut owner = fleet.client(OWNER);
    schema::grant(&mut owner, "small", "writer", Access::Write, false).unwrap();
    schema::grant(&mut owner, "small", "reader", Access::Read, false).unwrap();
    ship(fleet, &runs::store(folder, "small", 77, 50, start), "small");
    let last: String = owner
        .query_one("SELECT day::text FROM midcourse.runs WHERE run_id = 'run-0'", &[])
        .unwrap()
        .get(0);
    local_size(&data_dir);
    owner.batch_execute(FNV).unwrap();
    owner.batch_execute("VACUUM ANALYZE").unwrap();
    std::thread::scope(|scope| {
        for odd in [0, 1] {
            let last = &last;
            scope.spawn(move || {
                let mut owner = fleet.client(OWNER);
                owner.batch_execute(FNV).unwrap();
                (1..days)
                    .filter(|day| day % 2 == odd)
                    .for_each(|day| copy_day(&mut owner, last, day));
            });
        }
    });
    // The runs of the day itself have words of their own, too.
    change_words(&mut owner, &last);
    owner.batch_execute("VACUUM ANALYZE").unwrap();
    let count: i64 = owner.query_one("SELECT count(*) FROM midcourse.records", &[]).unwrap().get(0);
    let runs: i64 = owner.query_one("SELECT count(*) FROM midcourse.runs", &[]).unwrap().get(0);
    println!("{count} records in {runs} runs, loaded in {:.0} s", begun.elapsed().as_secs_f64());
    sizes(&mut owner, count as f64);
}

/// What the database has.
pub(crate) fn loaded(owner: &mut Client) -> Loaded {
    let ids = "SELECT run_id FROM midcourse.runs WHERE project = 1 AND records = 100 \
         AND length(run_id) > 30 ORDER BY run";
    let ids = owner.query(ids, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let last = "SELECT max(started) FROM midcourse.runs";
    let last: i64 = owner.query_one(last, &[]).unwrap().get(0);
    Loaded { ids, end: (last.unsigned_abs() / DAY + 1) * DAY }
}

/// A store with the runs of a day, one of 20 of which is a child run, and four long ones.
fn day_of_runs(folder: &Path, start: u64) -> DataDir {
    let data_dir = DataDir::at(folder.join("day"));
    let mut store = runs::open(&data_dir);
    let mut dice = Dice(5);
    // The long ones first: a search begins with the run that was shipped last.
    for n in 0..4 {
        let events = runs::run(&mut dice, &format!("long-{n}"), start + n * 1_000, 2_498);
        store.append_all(events).unwrap();
    }
    for n in 0..RUNS {
        let identity = match n % 20 {
            19 => RunIdentity::child_of(
                &RunIdentity::root(format!("run-{}", n - 1)),
                format!("run-{n}"),
            ),
            _ => RunIdentity::root(format!("run-{n}")),
        };
        let events = runs::run_as(&mut dice, identity, start + n * 50_000, runs::CALLS);
        store.append_all(events).unwrap();
    }
    data_dir
}

fn ship(fleet: &Fleet<'_>, data_dir: &DataDir, project: &str) {
    let settings = ShipSettings { project: project.to_owned(), level: Level::Full };
    let mut shipper = Shipper::open(data_dir, fleet.target("writer"), settings).unwrap().unwrap();
    assert_eq!(shipper.ship(|_| ()).unwrap().refused, Vec::new());
}

/// Prints the size of the store with the same runs.
fn local_size(data_dir: &DataDir) {
    let file = data_dir.store_file();
    let store = rusqlite::Connection::open(&file).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let records: i64 =
        store.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    let size = std::fs::metadata(&file).unwrap().len();
    println!("local store: {:.0} B per record", size as f64 / records as f64);
}

/// The hash of a word, as the crate computes it.
const FNV: &str = "CREATE OR REPLACE FUNCTION pg_temp.fnv(word text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ \
     DECLARE hash bigint := 2166136261; BEGIN \
     FOR i IN 0..length(word) - 1 LOOP \
     hash := ((hash # get_byte(word::bytea, i)::bigint) * 16777619) & 4294967295; END LOOP; \
     RETURN hash::bit(32)::integer; END $$";

/// Copies the runs of 100 records of the last day to an earlier one. The partitions are attached when
/// they are full, so that the indexes are built at once.
fn copy_day(owner: &mut Client, last: &str, day: u64) {
    let old = if day >= 50 { format!(" old{}", day % 10) } else { String::new() };
    let suffix = format!("to_char('{last}'::date - {day}, '_YYYYMMDD')");
    let suffix: String = owner.query_one(&format!("SELECT {suffix}"), &[]).unwrap().get(0);
    let of = "JOIN midcourse.runs AS r USING (run) WHERE r.project = 1 AND r.records = 100 AND r.run > 0 \
              AND r.run_id LIKE 'run-%'";
    let number = "substr(r.run_id, 5)";
    let words = format!("'only' || {number} || 'x{day} some' || {number} || '{old}'");
    let back = day * DAY;
    let date = format!("'{last}'::date - {day}");
    let create = |table: &str| {
        format!(
            "CREATE TABLE midcourse.{table}{suffix} (LIKE midcourse.{table} INCLUDING DEFAULTS \
             INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION); \
             SELECT midcourse.without_statistics('midcourse.{table}{suffix}'::regclass);"
        )
    };
    let attach = |table: &str, key: &str| {
        format!(
            "ALTER TABLE midcourse.{table}{suffix} ADD PRIMARY KEY ({key}); \
             ALTER TABLE midcourse.{table} ATTACH PARTITION midcourse.{table}{suffix} \
             FOR VALUES FROM ({date}) TO ({date} + 1);"
        )
    };
    let tables: String =
        ["records", "reports", "bodies", "words"].iter().map(|it| create(it)).collect();
    let sql = format!(
        "BEGIN; {tables}
         INSERT INTO midcourse.runs (run, project, run_id, day, writer, store, level, records, reports,
             link, header) OVERRIDING SYSTEM VALUE
         SELECT r.run - {day} * 100000, r.project, md5(r.run_id || ' {day}')::uuid::text, {date}, r.writer,
             r.store, r.level, r.records, r.reports, r.link, jsonb_set(r.header, '{{summary}}',
             (r.header -> 'summary') || jsonb_build_object(
                 'run_id', md5(r.run_id || ' {day}')::uuid::text,
                 'parent_run_id', md5(r.parent_run_id || ' {day}')::uuid::text,
                 'started', r.started - {back}, 'latest', r.latest - {back}, 'ended', r.ended - {back}))
         FROM midcourse.runs AS r WHERE r.project = 1 AND r.records = 100 AND r.run > 0
             AND r.run_id LIKE 'run-%' ORDER BY r.run;
         INSERT INTO midcourse.records{suffix}
         SELECT {date}, s.run - {day} * 100000, s.seq, s.at - {back}, s.project, s.schema_version,
             s.redactions, s.failed, s.bucket, s.kind, s.fact, s.host, s.channel, s.decision_point, s.link,
             CASE WHEN s.seq = 1 THEN replace(s.payload, 'Fix the', 'Fix ' || {words} || ' the')
                 ELSE s.payload END, s.pointers, s.hashes, s.keys
         FROM (SELECT * FROM midcourse.records WHERE day = '{last}') AS s {of} ORDER BY s.run, s.seq;
         INSERT INTO midcourse.bodies{suffix} SELECT {date}, project, key, length, zstd
         FROM midcourse.bodies WHERE day = '{last}' AND project = 1;
         INSERT INTO midcourse.words{suffix}
         SELECT {date}, w.run - {day} * 100000, w.first_seq, w.end_seq, w.project,
             CASE WHEN w.first_seq = 0 THEN w.words || ARRAY(SELECT pg_temp.fnv(word) FROM string_to_table({words}, ' ') AS word) ELSE w.words END,
             CASE WHEN w.first_seq = 0 THEN w.buckets || array_fill(2::bigint, ARRAY[array_length(string_to_array({words}, ' '), 1)]) ELSE w.buckets END
         FROM (SELECT * FROM midcourse.words WHERE day = '{last}') AS w {of} ORDER BY w.run;
         CREATE INDEX ON midcourse.words{suffix} USING gin (words);
         {} {} {} {}
         INSERT INTO midcourse.days VALUES ({date}); COMMIT;",
        attach("records", "day, run, seq"),
        attach("reports", "day, run, ordinal"),
        attach("bodies", "day, project, key"),
        attach("words", "day, run, first_seq"),
    );
    owner.batch_execute(&sql).unwrap();
}

/// Gives the runs of the last day words of their own.
fn change_words(owner: &mut Client, last: &str) {
    let words = "'only' || substr(r.run_id, 5) || 'x0 some' || substr(r.run_id, 5)";
    let runs = "r.project = 1 AND r.records = 100 AND r.run_id LIKE 'run-%'";
    owner
        .batch_execute(&format!(
            "UPDATE midcourse.records AS s SET payload = replace(s.payload, 'Fix the', 'Fix ' || {words} || ' the') \
             FROM midcourse.runs AS r WHERE r.run = s.run AND s.seq = 1 AND s.day = '{last}' AND {runs};
             UPDATE midcourse.words AS w SET words = w.words || ARRAY(SELECT pg_temp.fnv(word) FROM string_to_table({words}, ' ') AS word), buckets = w.buckets || ARRAY[2, 2]::bigint[] \
             FROM midcourse.runs AS r WHERE r.run = w.run AND w.first_seq = 0 AND w.day = '{last}' AND {runs};"
        ))
        .unwrap();
}

/// Prints what the tables need on disk.
fn sizes(owner: &mut Client, count: f64) {
    for table in ["runs", "records", "bodies", "words"] {
        let query = "SELECT sum(pg_table_size(relid))::float8, sum(pg_indexes_size(relid))::float8, \
             coalesce(sum(pg_relation_size(nullif(c.reltoastrelid, 0))), 0)::float8 \
             FROM (SELECT $1::text::regclass AS relid UNION SELECT relid \
             FROM pg_partition_tree($1::text::regclass)) AS tables JOIN pg_class AS c ON c.oid = relid";
        let row = owner.query_one(query, &[&format!("midcourse.{table}")]).unwrap();
        let (all, indexes, toast): (f64, f64, f64) = (row.get(0), row.get(1), row.get(2));
        println!(
            "{table}: {:.0} B per record: table {:.0}, TOAST {:.0}, indexes {:.0}",
            (all + indexes) / count,
            (all - toast) / count,
            toast / count,
            indexes / count
        );
    }
}
