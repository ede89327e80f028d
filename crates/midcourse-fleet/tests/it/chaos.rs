//! Shipping with faults: processes and the server are killed, and connections are cut, at random moments.
//!
//! `MIDCOURSE_CHAOS_FAULTS` is the number of faults, `MIDCOURSE_CHAOS_SEED` chooses them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use midcourse::{
    AgentMessage, Channel, DataDir, Event, RunIdentity, Source, Timestamp, ToolResult,
    TrajectoryPayload,
};
use midcourse_fleet::{
    BatchLimit, FleetReader, FleetTarget, Level, LocalCopy, RunReader as _, ShipSettings, Shipper,
};
use postgres_server::Server;

use crate::activity::Activity;
use crate::proxy::{Direction, Proxy};
use crate::runs::START;
use crate::world::{Fleet, Machine, contents};

const MACHINES: usize = 8;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// How many events each machine records for each fault.
const EVENTS: usize = 24;

/// So small that there are many batches, and that most runs are shipped in several parts.
const LIMIT: BatchLimit = BatchLimit { runs: 4, entries: 20, bytes: 12_000 };

/// A generator of pseudorandom numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}

/// An event of one of the runs of a machine. Some begin runs, on several days; some are reported twice;
/// some have long texts, which other machines have too.
fn event(machine: usize, random: &mut Random, n: u64) -> Event {
    let run = random.below(n / 40 + 2);
    let (day, root) = (run % 5, RunIdentity::root(format!("machine{machine}-run{run}")));
    let child = random.below(6) == 0;
    let identity = match child {
        true => RunIdentity::child_of(&root, format!("machine{machine}-run{run}.child")),
        false => root,
    };
    let call = format!("call{}", random.below(20));
    let text = match random.below(5) {
        0 => format!("long text {} ", random.below(8)).repeat(700),
        other => format!("result {n} {other}"),
    };
    let payload = match random.below(4) {
        0 => TrajectoryPayload::ToolStarted {
            tool_call_id: call.as_str().into(),
            tool_name: "bash".into(),
            args: serde_json::json!({"command": text}),
        },
        1 | 2 => TrajectoryPayload::ToolEnded {
            tool_call_id: call.as_str().into(),
            tool_name: "bash".into(),
            result: ToolResult::text(text),
            is_error: random.below(2) == 0,
        },
        _ => TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) },
    };
    let channel = if random.below(2) == 0 { Channel::Hook } else { Channel::Proxy };
    let at = Timestamp::from_unix_ms(START + day * DAY_MS + n * 100);
    Event::new(identity, Source::new("test", channel), at, payload)
}

/// A machine with the process that ships its store.
struct Site {
    machine: Machine,
    proxy: Proxy,
    url: String,
    process: Mutex<Option<Child>>,
}

/// What the processes of all machines have said.
#[derive(Default)]
struct Tally {
    processes: AtomicU64,
    batches: AtomicU64,
    records: AtomicU64,
    retries: AtomicU64,
}

/// Records events as long as somebody asks for more.
fn record(site: &Site, number: usize, orders: &Receiver<usize>, wake: &Sender<()>) {
    let mut store = site.machine.open();
    let (mut random, mut n) = (Random(number as u64), 0);
    for count in orders {
        for _ in 0..count {
            store.append(event(number, &mut random, n)).unwrap();
            n += 1;
        }
        // There is nobody any more if the test has failed.
        let _ = wake.send(());
    }
}

/// Starts processes that ship the store of a machine, each after the last one has ended, until one has
/// shipped everything. Waits for the next change then. A change is work that begins when it is ordered
/// and ends when it is shipped, or when an earlier change is being shipped.
fn supervise(site: &Site, wake: &Receiver<()>, tally: &Tally, all: &Activity) {
    for () in wake {
        loop {
            // This process ships what these changes have added too.
            wake.try_iter().for_each(|()| all.end());
            let ended = run_shipper(site, tally);
            match ended {
                Ok(true) => break,
                Ok(false) => {}
                Err(why) => {
                    all.fail(why);
                    return;
                }
            }
        }
        all.end();
    }
}

/// Runs one process. Returns whether it has shipped everything, and not been killed.
fn run_shipper(site: &Site, tally: &Tally) -> Result<bool, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "chaos::shipper_process", "--nocapture"])
        .env("MIDCOURSE_TEST_SHIP", site.machine.data_dir().path())
        .env("MIDCOURSE_TEST_FLEET", &site.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _input = child.stdin.take();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut errors = child.stderr.take().unwrap();
    *site.process.lock().unwrap() = Some(child);
    tally.processes.fetch_add(1, Ordering::Relaxed);
    for line in output.lines() {
        let line = line.unwrap();
        if let Some(records) = line.strip_prefix("batch ") {
            tally.batches.fetch_add(1, Ordering::Relaxed);
            tally.records.fetch_add(records.parse().unwrap(), Ordering::Relaxed);
        } else if line.starts_with("retry ") {
            tally.retries.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    let mut child = site.process.lock().unwrap().take().unwrap();
    let status = child.wait().unwrap();
    match status.code() {
        Some(0) => Ok(true),
        None => Ok(false),
        Some(_) => Err(text),
    }
}

/// Not a test: what a process that [`run_shipper`] starts does.
#[test]
fn shipper_process() {
    let Some(folder) = std::env::var_os("MIDCOURSE_TEST_SHIP") else { return };
    // Ends with the process that started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(3);
    });
    println!();
    let target = FleetTarget::parse(&std::env::var("MIDCOURSE_TEST_FLEET").unwrap()).unwrap();
    let settings = ShipSettings { project: "p".to_owned(), level: Level::Full };
    let mut shipper = loop {
        match Shipper::open(&DataDir::at(&folder), target.clone(), settings.clone()) {
            Ok(shipper) => break shipper.unwrap(),
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    };
    shipper.limit_batches(LIMIT);
    loop {
        let shipped = shipper.ship(|batch| {
            assert_eq!(batch.refused, Vec::new());
            if batch.batches > 0 {
                println!("batch {}", batch.records);
            }
        });
        match shipped {
            Ok(done) if done.batches == 0 => return,
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_temporary(), "{error:?}");
                println!("retry {error}");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn everything_arrives_once_whatever_fails() {
    let Some(server) = Server::start(&[]) else { return };
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let faults = number("MIDCOURSE_CHAOS_FAULTS").unwrap_or(25);
    let seed = number("MIDCOURSE_CHAOS_SEED").unwrap_or(1);
    let fleet = Fleet::new(&server);
    let all = Arc::new(Activity::default());
    let site = |_| {
        let proxy = Proxy::start(server.socket(), Arc::clone(&all));
        let url = proxy.url(&fleet.database, &fleet.role("writer"));
        let machine = Machine::new();
        drop(machine.open());
        Site { machine, proxy, url, process: Mutex::default() }
    };
    let sites: Vec<Site> = (0..MACHINES).map(site).collect();
    let tally = Tally::default();
    let mut kinds = BTreeMap::new();
    std::thread::scope(|scope| {
        let mut orders = Vec::new();
        for (number, site) in sites.iter().enumerate() {
            let (order, ordered) = channel();
            let (wake, woken) = channel();
            let (all, tally) = (&*all, &tally);
            scope.spawn(move || record(site, number, &ordered, &wake));
            scope.spawn(move || supervise(site, &woken, tally, all));
            orders.push(order);
        }
        let mut random = Random(seed);
        for _ in 0..faults {
            for order in &orders {
                all.begin();
                order.send(EVENTS).unwrap();
            }
            all.wait_for_bytes(random.below(150_000));
            if all.has_failed() {
                break;
            }
            *kinds.entry(inject(&fleet, &sites, &mut random)).or_insert(0) += 1;
        }
        sites.iter().for_each(|site| site.proxy.heal());
        drop(orders);
    });
    all.check();
    let loaded = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "seed {seed}, faults {kinds:?}, {} processes, {} retries, {} batches and {} records \
         acknowledged",
        loaded(&tally.processes),
        loaded(&tally.retries),
        loaded(&tally.batches),
        loaded(&tally.records),
    );
    println!("{}", check(&fleet, &sites));
}

/// Lets something fail. Returns what.
fn inject(fleet: &Fleet<'_>, sites: &[Site], random: &mut Random) -> &'static str {
    let site = &sites[random.index(sites.len())];
    match random.below(10) {
        0..=3 => {
            let Some(process) = &mut *site.process.lock().unwrap() else { return "none" };
            process.kill().unwrap();
            "shipper killed"
        }
        4 => {
            fleet.server.kill();
            fleet.server.restart();
            "server killed"
        }
        5..=6 => {
            let after = random.index(40_000);
            site.proxy.cut(Direction::ToServer, after);
            "cut to the server"
        }
        7..=8 => {
            // Replies are short, and the lost reply to a commit is what matters.
            let after = random.index(700);
            site.proxy.cut(Direction::ToClient, after);
            "cut to the client"
        }
        _ => {
            fleet.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'midcourse' \
                 ORDER BY random() LIMIT 1",
            );
            "backend terminated"
        }
    }
}

/// Compares the fleet with the stores. Returns how much is in it.
fn check(fleet: &Fleet<'_>, sites: &[Site]) -> String {
    let mut expected = Vec::new();
    let mut cursors = Vec::new();
    for site in sites {
        let store = site.machine.open();
        expected.extend(contents(&store));
        cursors.extend(read_cursors(site));
        let target = FleetTarget::parse(&site.url).unwrap();
        let settings = ShipSettings { project: "p".to_owned(), level: Level::Full };
        let mut shipper =
            Shipper::open(&site.machine.data_dir(), target, settings).unwrap().unwrap();
        assert_eq!(shipper.ship(|_| ()).unwrap().batches, 0, "nothing is left to ship");
    }
    expected.sort_by(|(a, _), (b, _)| a.run_id().cmp(b.run_id()));
    let positions =
        fleet.sql("SELECT run_id, records, reports, encode(link, 'hex') FROM midcourse.runs");
    let mut positions: Vec<&str> = positions.lines().collect();
    positions.sort_unstable();
    cursors.sort_unstable();
    assert_eq!(cursors, positions, "the cursors of the machines and the positions of the server");
    let (records, reports) = expected.iter().fold((0, 0), |(records, reports), (header, _)| {
        (records + header.end().records, reports + header.end().reports)
    });
    let counted = fleet.sql(
        "SELECT count(*), count(DISTINCT (run, seq)), (SELECT count(*) FROM midcourse.reports), \
         (SELECT count(DISTINCT (run, ordinal)) FROM midcourse.reports), \
         (SELECT sum(end_seq - first_seq) FROM midcourse.words) FROM midcourse.records",
    );
    assert_eq!(counted, format!("{records}|{records}|{reports}|{reports}|{records}"));
    let runs_with_holes = fleet.sql(
        "SELECT count(*) FROM midcourse.runs AS r WHERE \
         r.header IS NULL OR r.records <> (SELECT count(*) FROM midcourse.records AS s \
         WHERE s.run = r.run AND s.day = r.day AND s.seq >= 0 AND s.seq < r.records)",
    );
    assert_eq!(runs_with_holes, "0");
    let lost_texts = fleet.sql(
        "SELECT count(*) FROM midcourse.records AS s, unnest(s.keys) AS k WHERE NOT EXISTS \
         (SELECT FROM midcourse.bodies AS b WHERE b.day = s.day AND b.key = k)",
    );
    assert_eq!(lost_texts, "0");
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    for (header, _) in &expected {
        let run = reader.family(header.run_id()).unwrap().swap_remove(0);
        copy.bring_one(&mut reader, &run).unwrap();
        assert_eq!(copy.store().verify_run(header.run_id()).unwrap(), Vec::new());
    }
    let copied = contents(copy.store());
    assert_eq!(copied.len(), expected.len());
    for (copied, expected) in copied.iter().zip(&expected) {
        assert!(copied == expected, "{} differs", expected.0.run_id());
    }
    let parts = fleet.sql("SELECT count(*) FROM midcourse.words");
    format!("{} runs, {parts} parts, {records} records, {reports} reports", expected.len())
}

/// How far the machine believes its runs to be shipped.
fn read_cursors(site: &Site) -> Vec<String> {
    let folder = site.machine.data_dir().path().join("shipped");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|file| file.extension().is_some_and(|it| it == "db"));
    let database = rusqlite::Connection::open(file.unwrap()).unwrap();
    let mut find = database
        .prepare(
            "SELECT run_id || '|' || records || '|' || reports || '|' || lower(hex(link)) \
             FROM cursors",
        )
        .unwrap();
    find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}
