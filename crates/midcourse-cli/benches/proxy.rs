//! What `midcourse proxy` costs: a request of 100 KB, the first streamed byte, and many
//! connections, each direct, through midcourse, through LiteLLM and through Portkey, in turns; and
//! its memory.
//!
//! `cargo bench -p midcourse --bench proxy`, and `-- --memory` for the memory alone.
//! `MIDCOURSE_LITELLM` names a Python environment with `litellm[proxy]`, `MIDCOURSE_PORTKEY` a
//! folder whose `node_modules` hold `@portkey-ai/gateway`, `MIDCOURSE_BENCH_ROUNDS` the number of
//! rounds, `MIDCOURSE_BENCH_BINARY` another binary.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot go on stops, and prints what it found"
)]

#[path = "proxy/conversation.rs"]
mod conversation;
#[path = "proxy/sides.rs"]
mod sides;
#[path = "proxy/stub.rs"]
mod stub;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use conversation::{Api, Conversation};
use sides::{Connection, Side, midcourse, sides};
use stub::Stub;

/// How long a conversation is before its first request is timed, in bytes.
const LARGE: usize = 100_000;
const SMALL: usize = 2_000;
/// How many timed requests a large conversation has, and how many requests a small one.
const TURNS: u64 = 40;
const SMALL_TURNS: u64 = 50;
const CONNECTIONS: usize = 16;
/// How often each connection begins a conversation in a round of the throughput.
const RESTARTS: u64 = 2;
/// Between two timed requests, so that nobody pays for what the one before did after its answer.
const REST: Duration = Duration::from_millis(5);
/// Between the first event of a stream and the others: who holds the first back is seen.
const GAP: Duration = Duration::from_millis(20);
/// After how many requests the memory is read.
const READINGS: [u64; 4] = [1_000, 10_000, 50_000, 100_000];

fn main() {
    let rounds = std::env::var("MIDCOURSE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let stub = Stub::start().await;
        if std::env::args().any(|word| word == "--memory") {
            memory(&stub).await;
        } else {
            compare(&stub, rounds.unwrap_or(400)).await;
        }
    });
}

async fn compare(stub: &Stub, rounds: u64) {
    let sides = sides(stub).await;
    let conversations = (rounds / TURNS).max(1);
    stub.streams(false);
    latency("100 KB, ms", &sides, conversations, false).await;
    stub.streams(true);
    latency("first byte, ms", &sides, conversations, true).await;
    stub.streams(false);
    throughput(&sides, conversations.div_ceil(2)).await;
    for side in &sides {
        if let Some(process) = &side.process {
            println!("{}: {:.1} MB resident after all this", side.name, process.resident_mb());
        }
    }
}

/// The same growing conversations through every side in turns, on one connection each.
async fn latency(title: &str, sides: &[Side], conversations: u64, streamed: bool) {
    let mut connections = Vec::new();
    for side in sides {
        connections.push(Connection::open(side).await);
    }
    let mut first = vec![Vec::new(); sides.len()];
    let mut later = vec![Vec::new(); sides.len()];
    let mut sizes = (usize::MAX, 0);
    let mut round = 0;
    for _ in 0..conversations {
        let mut conversation = Conversation::of_length(Api::Chat, LARGE);
        for turn in 0..=TURNS {
            let body = conversation.body(streamed);
            sizes = (sizes.0.min(body.len()), sizes.1.max(body.len()));
            for place in 0..sides.len() {
                // Who comes first changes, so that nobody always follows the same one.
                let side = (round + place) % sides.len();
                sleep(REST).await;
                let answered = connections[side].ask(&conversation, body.clone()).await;
                let took = if streamed { answered.first } else { answered.whole };
                // At its first request the whole history of a conversation is new to a proxy.
                let series = if turn == 0 { &mut first } else { &mut later };
                series[side].push(took.as_secs_f64() * 1e3);
            }
            conversation.grow(600);
            round += 1;
        }
    }
    println!(
        "\n{title:14} {:>9} {:>9} {:>13} {:>10} {:>14}   ({} to {} KB, {} requests each)",
        "median",
        "p99",
        "added, median",
        "added, p99",
        "first requests",
        sizes.0 / 1_000,
        sizes.1 / 1_000,
        later[0].len()
    );
    let mut added = Vec::new();
    for (side, place) in sides.iter().zip(0..) {
        let differences = later[place].iter().zip(&later[0]).map(|(it, direct)| it - direct);
        let differences = Series::of(differences.collect());
        let (all, firsts) = (Series::of(later[place].clone()), Series::of(first[place].clone()));
        println!(
            "{:14} {:>9.3} {:>9.3} {:>13.3} {:>10.3} {:>14.3}",
            side.name,
            all.at(0.5),
            all.at(0.99),
            differences.at(0.5),
            differences.at(0.99),
            firsts.at(0.5)
        );
        added.push((side.name, differences.at(0.5)));
    }
    print_ratios("adds", &added, true);
}

/// Many connections at once, each with small conversations of its own; a fixed number of requests.
async fn throughput(sides: &[Side], rounds: u64) {
    let mut rates = vec![Vec::new(); sides.len()];
    let (mut requests, mut bytes) = (0, 0);
    for round in 0..rounds {
        let work: Vec<_> = (0..CONNECTIONS).map(|_| small_requests()).collect();
        requests = work.iter().map(Vec::len).sum();
        bytes = work.iter().flatten().map(|(_, body)| body.len()).sum();
        for place in 0..sides.len() {
            let side = (usize::try_from(round).unwrap() + place) % sides.len();
            sleep(REST * 20).await;
            let took = send_at_once(&sides[side], work.clone()).await;
            rates[side].push(per_second(requests, took));
        }
    }
    println!(
        "\n{:14} {:>9} {:>9} {:>9}   ({CONNECTIONS} connections, {requests} requests a round of \
         {:.1} KB on average, {rounds} rounds)",
        "requests/s",
        "median",
        "least",
        "most",
        per_second(bytes / requests, Duration::from_secs(1_000))
    );
    let mut medians = Vec::new();
    for (side, rates) in sides.iter().zip(rates) {
        let rates = Series::of(rates);
        let (median, least, most) = (rates.at(0.5), rates.at(0.0), rates.at(1.0));
        println!("{:14} {median:>9.0} {least:>9.0} {most:>9.0}", side.name);
        medians.push((side.name, median));
    }
    print_ratios("does", &medians, false);
}

/// Sends to one side what each connection has to send; the connections are open when time begins.
async fn send_at_once(side: &Side, work: Vec<Vec<(Conversation, Bytes)>>) -> Duration {
    let mut ready = Vec::new();
    for requests in work {
        ready.push((Connection::open(side).await, requests));
    }
    let begun = Instant::now();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|(mut connection, requests)| {
            tokio::spawn(async move {
                for (conversation, body) in requests {
                    connection.ask(&conversation, body).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    begun.elapsed()
}

/// What one connection sends in a round.
fn small_requests() -> Vec<(Conversation, Bytes)> {
    let mut requests = Vec::new();
    for _ in 0..RESTARTS {
        let mut conversation = Conversation::of_length(Api::Chat, SMALL);
        for _ in 0..SMALL_TURNS {
            let body = conversation.body(false);
            requests.push((conversation.without_history(), body));
            conversation.grow(20);
        }
    }
    requests
}

/// The memory of a fresh proxy as requests go through it, half of them of each API.
async fn memory(stub: &Stub) {
    let Some(side) = midcourse(stub) else { return };
    side.wait_for_it().await;
    let process = side.process.as_ref().unwrap();
    println!("{:>10} {:>12} {:>9} {:>12}", "requests", "resident, MB", "most, MB", "requests/s");
    println!("{:>10} {:>12.1} {:>9.1}", 0, process.resident_mb(), process.most_resident_mb());
    let mut done = 0;
    for reading in READINGS {
        let begun = Instant::now();
        let left = Arc::new(AtomicU64::new(reading - done));
        let tasks: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let api = if number % 2 == 0 { Api::Chat } else { Api::Messages };
                tokio::spawn(converse(side.address_only(), api, Arc::clone(&left)))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = per_second(usize::try_from(reading - done).unwrap(), begun.elapsed());
        done = reading;
        sleep(REST * 100).await;
        let (now, most) = (process.resident_mb(), process.most_resident_mb());
        println!("{done:>10} {now:>12.1} {most:>9.1} {rate:>12.0}");
    }
}

/// One conversation after the other until nothing is left to send.
async fn converse(side: Side, api: Api, left: Arc<AtomicU64>) {
    let mut connection = Connection::open(&side).await;
    loop {
        let mut conversation = Conversation::of_length(api, SMALL);
        for _ in 0..SMALL_TURNS {
            let one_less = |left: u64| left.checked_sub(1);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
                return;
            }
            connection.ask(&conversation, conversation.body(false)).await;
            conversation.grow(20);
        }
    }
}

/// Figures in order.
struct Series(Vec<f64>);

impl Series {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_unstable_by(f64::total_cmp);
        Self(figures)
    }

    fn at(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index from a share"
        )]
        let index = ((self.0.len() - 1) as f64 * share) as usize;
        self.0[index]
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64()
}

/// How many times as much everybody else does as midcourse, or midcourse as everybody else.
fn print_ratios(verb: &str, figures: &[(&str, f64)], less_is_better: bool) {
    let Some((_, ours)) = figures.iter().find(|(name, _)| *name == "midcourse") else { return };
    for (name, theirs) in figures {
        match *name {
            "direct" | "midcourse" => {}
            _ if less_is_better => {
                println!("{name} {verb} {:.1} x what midcourse {verb}", theirs / ours);
            }
            _ => println!("midcourse {verb} {:.1} x what {name} {verb}", ours / theirs),
        }
    }
}
