//! Small batches, as a shipper sends them that follows its store; and notifications.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use midcourse::{Event, now};
use midcourse_fleet::{Level, ShipSettings, Shipper};
use postgres_server::{OWNER, Server};

use crate::drop_database;
use crate::runs::{self, Dice};
use crate::server::Fleet;
use crate::used::Used;

const SHIPPERS: usize = 8;
const TIME: Duration = Duration::from_secs(5);

pub(crate) fn run(server: &Server, folder: &Path) {
    batches(server, folder);
    notifications(server);
}

/// Eight shippers that ship a batch of this many records again and again. Only the time of shipping
/// counts; the records are stored before.
fn batches(server: &Server, folder: &Path) {
    for size in [1_usize, 10, 100, 1_000] {
        let fleet = Fleet::new(server);
        let (batches, nanoseconds) = (AtomicU64::new(0), AtomicU64::new(0));
        let before = Used::now(server);
        std::thread::scope(|scope| {
            for n in 0..SHIPPERS {
                let (fleet, batches, nanoseconds) = (&fleet, &batches, &nanoseconds);
                scope.spawn(move || {
                    let name = format!("small-{size}-{n}");
                    let data_dir = runs::store(folder, &name, 9, 1, now().unix_ms());
                    let mut store = runs::open(&data_dir);
                    let settings = ShipSettings { project: "p".to_owned(), level: Level::Full };
                    let target = fleet.target("writer");
                    let mut shipper = Shipper::open(&data_dir, target, settings).unwrap().unwrap();
                    shipper.ship(|_| ()).unwrap();
                    let begun = Instant::now();
                    let mut dice = Dice(n as u64);
                    let mut waiting: Vec<Event> = Vec::new();
                    let mut runs = 0;
                    while begun.elapsed() < TIME {
                        while waiting.len() < size {
                            runs += 1;
                            let id = format!("{name}-{runs}");
                            waiting.extend(runs::run(&mut dice, &id, now().unix_ms(), runs::CALLS));
                        }
                        store.append_all(waiting.drain(..size)).unwrap();
                        let shipping = Instant::now();
                        shipper.ship(|_| ()).unwrap();
                        let took = u64::try_from(shipping.elapsed().as_nanos()).unwrap();
                        nanoseconds.fetch_add(took, Ordering::Relaxed);
                        batches.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let used = Used::now(server).since(before);
        let batches = batches.load(Ordering::Relaxed) as f64;
        let seconds = nanoseconds.load(Ordering::Relaxed) as f64 / 1e9 / SHIPPERS as f64;
        println!(
            "{SHIPPERS} shippers, batches of {size}: {:.0} batches/s, {:.0} rows/s, {:.1} ms per batch; \
             server processor time {:.2} ms per batch; WAL {:.1} KB per batch",
            batches / seconds,
            batches * size as f64 / seconds,
            seconds * SHIPPERS as f64 * 1e3 / batches,
            used.server_cpu * 1e3 / batches,
            used.wal / 1e3 / batches,
        );
        drop_database(fleet);
    }
}

/// Eight sessions that commit a row each time: without a notification, with one, and with one in a
/// transaction of its own that does not wait for the disk; in turns.
fn notifications(server: &Server) {
    let fleet = Fleet::new(server);
    fleet.client(OWNER).batch_execute("CREATE TABLE public.rows (n bigint)").unwrap();
    let names = ["no notification", "a notification", "a notification afterwards, not synced"];
    let notify = "SELECT pg_notify('bench', random()::text)";
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..9 {
        let way = round % 3;
        let commits = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..SHIPPERS {
                let (fleet, commits) = (&fleet, &commits);
                scope.spawn(move || {
                    let mut client = fleet.client(OWNER);
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_secs(3) {
                        let insert = "INSERT INTO public.rows VALUES (1)";
                        let sql = match way {
                            0 => insert.to_owned(),
                            1 => format!("BEGIN; {insert}; {notify}; COMMIT"),
                            _ => format!(
                                "BEGIN; {insert}; COMMIT; BEGIN; SET LOCAL synchronous_commit = off; \
                                 {notify}; COMMIT"
                            ),
                        };
                        client.batch_execute(&sql).unwrap();
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        rates[way].push(commits.load(Ordering::Relaxed) as f64 / 3.0);
    }
    for (name, mut rates) in names.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        println!("{SHIPPERS} sessions, {name}: {:.0} commits/s", rates[1]);
    }
    drop_database(fleet);
}
