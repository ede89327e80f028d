//! Benchmark of reading a fleet with 10 million records in 100,000 runs of 60 days, as a role with
//! row-level security.
//!
//! `cargo bench -p midcourse-fleet --bench read`; `-- serve` loads, prints the address and keeps the
//! server until a line comes in. `MIDCOURSE_BENCH_FLEET` is such an address to measure.
//! `MIDCOURSE_BENCH_DAYS` sets the number of days, `MIDCOURSE_BENCH_CALLS` that of the calls.
//!
//! One day of runs is shipped as usual. The server copies it to the other days, with other run ids,
//! times and a few other words, so the hash chains of the copies are broken; nothing here checks them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on stops, and prints what it found"
)]

#[path = "read/load.rs"]
mod load;
mod runs;
mod server;
mod times;

use std::time::{Duration, Instant};

use midcourse::{RunCursor, RunFilter, RunId, RunOrder, RunTableQuery, SearchFilter, Timestamp};
use midcourse_fleet::{FleetReader, FleetTarget, IdPart, LocalCopy, RunReader};
use postgres_server::{OWNER, Server};
use server::Fleet;

const DAY: u64 = 86_400_000;

/// What a call is made with, by its number.
type Arguments<T> = Box<dyn Fn(u64) -> T>;

/// Settings for loading. Reading is not affected, except by `shared_buffers`.
const SETTINGS: [&str; 9] = [
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=2GB",
    "max_wal_size=8GB",
    "autovacuum=off",
    "maintenance_work_mem=512MB",
    "random_page_cost=1.1",
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let is_given = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let days = setting("MIDCOURSE_BENCH_DAYS", 60);
    // An earlier call with `-- serve` has started this server and loaded the data.
    if let Ok(url) = std::env::var("MIDCOURSE_BENCH_FLEET") {
        let target = |role: &str| FleetTarget::parse(&url.replace("ROLE", role)).unwrap();
        let mut owner = target(OWNER).connect().unwrap();
        measure(&mut owner, target("reader"), days);
        return;
    }
    let Some(server) = Server::start(&SETTINGS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::new(&server);
    load::load(&fleet, folder.path(), days);
    if is_given("serve") {
        println!("MIDCOURSE_BENCH_FLEET={}", server.url(&fleet.database, "ROLE"));
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    measure(&mut fleet.client(OWNER), fleet.target("reader"), days);
}

fn measure(owner: &mut postgres::Client, target: FleetTarget, days: u64) {
    let loaded = load::loaded(owner);
    let reader = FleetReader::open(target, Some("p")).unwrap();
    let process = "SELECT max(pid) FROM pg_stat_activity WHERE usename = 'reader'";
    let process: i32 = owner.query_one(process, &[]).unwrap().get(0);
    let mut bench = Bench {
        reader,
        process: process.unsigned_abs(),
        calls: setting("MIDCOURSE_BENCH_CALLS", 200),
        only: std::env::var("MIDCOURSE_BENCH_ONLY").unwrap_or_default(),
        end: loaded.end,
        days,
    };
    bench.lists();
    bench.tables();
    bench.ids(&loaded.ids);
    bench.pages(&loaded.ids);
    bench.searches();
}

struct Bench {
    reader: FleetReader,
    /// The server's process for the reader.
    process: u32,
    calls: u64,
    /// Measure only what has this in its name.
    only: String,
    /// The end of the last day.
    end: u64,
    days: u64,
}

impl Bench {
    /// Runs something many times with different numbers, and prints how long it took.
    fn time(&mut self, name: &str, mut call: impl FnMut(&mut FleetReader, u64) -> usize) {
        if !name.contains(&self.only) {
            return;
        }
        call(&mut self.reader, 7_919);
        let (mut took, mut found) = (Vec::new(), Vec::new());
        let process = self.process;
        let used = move || [std::process::id(), process].map(|it| times::times(it).unwrap().1);
        let before = used();
        let begun = Instant::now();
        for n in 0..self.calls {
            let start = Instant::now();
            found.push(call(&mut self.reader, n));
            took.push(start.elapsed().as_secs_f64() * 1e3);
            // Slow calls are not repeated for minutes.
            if begun.elapsed() > Duration::from_secs(25) {
                break;
            }
        }
        let per_call = 1e3 / took.len() as f64;
        let after = used();
        let [client, server] = [0, 1].map(|it| (after[it] - before[it]) * per_call);
        took.sort_by(f64::total_cmp);
        found.sort_unstable();
        println!(
            "{name}: p50 {:.1} ms, p95 {:.1} ms, max {:.1} ms; processor time of the client \
             {client:.1} ms, of the server {server:.1} ms ({} calls, {} to {} found)",
            took[took.len() / 2],
            took[took.len() * 95 / 100],
            took[took.len() - 1],
            took.len(),
            found[0],
            found[found.len() - 1]
        );
    }

    fn since(&self, days: u64) -> Option<Timestamp> {
        Some(Timestamp::from_unix_ms(self.end - days * DAY))
    }

    fn lists(&mut self) {
        let days = self.days;
        let end = self.end;
        let hosts = ["claude-code", "codex", "opencode", "pi"];
        let host = move |n: u64| Some(hosts[usize::try_from(n % 4).unwrap()].to_owned());
        let since = move |n: u64| Some(Timestamp::from_unix_ms(end - (n % days) * DAY - n * 1_000));
        let filters: [(&str, Arguments<RunFilter>); 5] = [
            ("list", Box::new(|_| RunFilter::default())),
            (
                "list of a host",
                Box::new(move |n| RunFilter { host: host(n), ..RunFilter::default() }),
            ),
            (
                "list of failed runs",
                Box::new(|_| RunFilter { failed: true, ..RunFilter::default() }),
            ),
            (
                "list since a time",
                Box::new(move |n| RunFilter { since: since(n), ..RunFilter::default() }),
            ),
            (
                "list of a host without runs",
                Box::new(|n| RunFilter { host: Some(format!("none{n}")), ..RunFilter::default() }),
            ),
        ];
        for (name, filter) in &filters {
            self.time(&format!("{name}, 30 runs"), |reader, n| {
                let page = reader.list_runs(&filter(n), RunCursor::START, 30).unwrap();
                page.0.len()
            });
        }
        for (name, filter) in &filters {
            self.time(&format!("count of {name}"), |reader, n| {
                usize::try_from(reader.listed_run_count(&filter(n)).unwrap()).unwrap()
            });
        }
        let mut after = RunCursor::START;
        for _ in 0..49 {
            after = self.reader.list_runs(&RunFilter::default(), after, 30).unwrap().1;
        }
        self.time("list, page 50", |reader, n| {
            let (started, run) = after.place();
            let after = RunCursor::after(started - i64::try_from(n).unwrap() * 1_000, run);
            reader.list_runs(&RunFilter::default(), after, 30).unwrap().0.len()
        });
        self.time("hosts", |reader, _| reader.hosts().unwrap().len());
    }

    fn tables(&mut self) {
        let orders = [
            ("start", RunOrder::Started),
            ("latest", RunOrder::Latest),
            ("duration", RunOrder::Duration),
            ("calls", RunOrder::Calls),
            ("errors", RunOrder::Errors),
            ("messages", RunOrder::Messages),
            ("tokens", RunOrder::Tokens),
            ("cost", RunOrder::Cost),
        ];
        let calls = std::mem::replace(&mut self.calls, 0);
        self.calls = calls.min(50);
        for (name, order) in orders {
            self.time(&format!("table by {name}, 50 rows"), |reader, n| {
                let query = RunTableQuery { order, offset: n * 50, ..query() };
                reader.run_table(&query).unwrap().0.len()
            });
        }
        self.time("table with a text", |reader, n| {
            let text = Some(format!("module {},", n % 300));
            reader.run_table(&RunTableQuery { text, ..query() }).unwrap().0.len()
        });
        self.calls = calls;
    }

    fn ids(&mut self, ids: &[String]) {
        let id = |n: u64| ids[usize::try_from(n * 7_919).unwrap() % ids.len()].clone();
        self.time("find a run by its whole id", |reader, n| {
            reader.find_runs(&id(n), IdPart::Whole, 2).unwrap().len()
        });
        self.time("find a run by the start of its id", |reader, n| {
            reader.find_runs(id(n).get(..8).unwrap(), IdPart::Start, 2).unwrap().len()
        });
        self.time("find a run by the end of its id", |reader, n| {
            let id = id(n);
            reader.find_runs(id.get(id.len() - 8..).unwrap(), IdPart::End, 2).unwrap().len()
        });
        let since = self.since(8).unwrap();
        self.time("runs of 7 days", |reader, n| {
            let since = Timestamp::from_unix_ms(since.unix_ms() - n * 60_000);
            let until = Timestamp::from_unix_ms(since.unix_ms() + 7 * DAY);
            reader.runs_between(since, until).unwrap().len()
        });
    }

    fn pages(&mut self, ids: &[String]) {
        self.time("page of a run of 100 records", |reader, n| {
            let id = &ids[usize::try_from(n * 7_919).unwrap() % ids.len()];
            let mut copy = LocalCopy::new().unwrap();
            assert!(copy.bring(reader, &RunId::from(id.as_str())).unwrap());
            100
        });
        self.time("page of a run of 5,000 records", |reader, n| {
            let id = format!("long-{}", n % 4);
            let mut copy = LocalCopy::new().unwrap();
            assert!(copy.bring(reader, &RunId::from(id.as_str())).unwrap());
            5_000
        });
    }

    fn searches(&mut self) {
        let last = self.days - 1;
        // A number below 10,000 is in an eighth of all runs. See `load` for the words that it adds.
        let searches: [(&str, Arguments<String>); 8] = [
            ("a word of one run", Box::new(move |n| load::word_of(n % 1_600, n % (last + 1)))),
            ("a word of 60 runs", Box::new(|n| format!("some{}", n % 1_600))),
            (
                "a word of all runs",
                Box::new(|n| {
                    ["warning", "worker", "value", "agent"][usize::try_from(n % 4).unwrap()]
                        .to_owned()
                }),
            ),
            ("a word of an eighth of the runs", Box::new(|n| (n * 37 % 10_000).to_string())),
            ("a word of old runs only", Box::new(move |n| format!("old{}", n % 10))),
            ("two words that are often in one entry", Box::new(|n| format!("worker {}", n % 300))),
            (
                "two words that are often in one run and rarely in one entry",
                Box::new(|n| format!("{} {}", n * 37 % 10_000, n * 53 % 10_000)),
            ),
            ("a word that does not occur", Box::new(|n| format!("absent{n}"))),
        ];
        for (name, words) in &searches {
            self.time(&format!("search for {name}, 20 hits"), |reader, n| {
                let mut copy = LocalCopy::new().unwrap();
                let filter = SearchFilter::default();
                copy.search(reader, &words(n), &filter, 20).unwrap().0.len()
            });
        }
    }
}

fn query() -> RunTableQuery {
    RunTableQuery {
        filter: RunFilter::default(),
        text: None,
        running_since: None,
        order: RunOrder::Started,
        is_ascending: false,
        offset: 0,
        count: 50,
    }
}
