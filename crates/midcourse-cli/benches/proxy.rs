//! Benchmark of `midcourse proxy`. Compares model requests that go directly to a stub of a model
//! server, through midcourse, and through the proxies LiteLLM and Portkey. Measures the time of a
//! request of about 100 KB, the time until the first byte of a streamed response, and the number of
//! requests per second over 16 connections. All routes are measured in turn. The route `unread` goes
//! through midcourse with a path that midcourse only forwards. The latencies are measured over TLS
//! too, where midcourse decrypts the connection.
//!
//! `cargo bench -p midcourse-cli --bench proxy`. With `-- --memory` it measures only the memory of
//! midcourse. `MIDCOURSE_LITELLM` is the folder of a Python environment with `litellm[proxy]`,
//! `MIDCOURSE_PORTKEY` a folder whose `node_modules` contain `@portkey-ai/gateway` (a proxy whose
//! variable is not set is left out), `MIDCOURSE_BENCH_ROUNDS` the number of rounds, and
//! `MIDCOURSE_BENCH_BINARY` the path of another `midcourse` binary to measure.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark may panic, and prints its results"
)]

#[path = "proxy/conversation.rs"]
mod conversation;
#[path = "proxy/routes.rs"]
mod routes;
#[path = "proxy/stub.rs"]
mod stub;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use conversation::{Api, Conversation};
use routes::{Connection, Route, midcourse, routes, tls_routes};
use stub::Stub;

/// The length in bytes of the first request in a large conversation. Large conversations are used
/// to measure latency.
const LARGE_BYTES: usize = 100_000;
/// The length in bytes of the first request in a small conversation. Small conversations are used
/// to measure throughput and memory.
const SMALL_BYTES: usize = 2_000;
/// How many requests follow the first one in a large conversation.
const LARGE_TURNS: u64 = 40;
/// How many requests a small conversation has.
const SMALL_TURNS: u64 = 50;
const CONNECTIONS: usize = 16;
/// How many conversations each connection has in a round of the throughput benchmark.
const CONVERSATIONS_PER_ROUND: u64 = 2;
/// The pause before each timed request. In it a proxy can finish the work that it does after a
/// response, such as recording, so that this work does not slow the next request.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the stub waits after the first event of a streamed response. If a proxy sends nothing
/// before it has the whole response, its first byte comes this much later.
const STREAM_PAUSE: Duration = Duration::from_millis(20);
/// The numbers of requests after which memory is measured.
const MEMORY_READINGS: [u64; 4] = [1_000, 10_000, 50_000, 100_000];

fn main() {
    let rounds = std::env::var("MIDCOURSE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let stub = Stub::start().await;
        if std::env::args().any(|argument| argument == "--memory") {
            memory(&stub).await;
        } else {
            compare(&stub, rounds.unwrap_or(400)).await;
        }
    });
}

async fn compare(stub: &Stub, rounds: u64) {
    let routes = routes(stub).await;
    let conversations = (rounds / LARGE_TURNS).max(1);
    stub.set_streaming(false);
    latency("100 KB, ms", &routes, conversations, false).await;
    stub.set_streaming(true);
    latency("first byte, ms", &routes, conversations, true).await;
    stub.set_streaming(false);
    let over_tls = tls_routes(stub).await;
    latency("TLS 100 KB, ms", &over_tls, conversations, false).await;
    stub.set_streaming(true);
    latency("TLS first byte", &over_tls, conversations, true).await;
    stub.set_streaming(false);
    throughput(&routes, conversations.div_ceil(2)).await;
    for route in &routes {
        if let Some(process) = &route.process {
            println!("{}: {:.1} MB resident at the end", route.name, process.resident_mb());
        }
    }
}

/// Sends the same growing conversations through each route, and prints how long requests take.
async fn latency(title: &str, routes: &[Route], conversations: u64, streamed: bool) {
    let mut connections = Vec::new();
    for route in routes {
        connections.push(Connection::open(route).await);
    }
    let mut first = vec![Vec::new(); routes.len()];
    let mut later = vec![Vec::new(); routes.len()];
    let mut sizes = (usize::MAX, 0);
    let mut round = 0;
    for _ in 0..conversations {
        let mut conversation = Conversation::of_length(Api::Chat, LARGE_BYTES);
        for turn in 0..=LARGE_TURNS {
            let body = conversation.body(streamed);
            sizes = (sizes.0.min(body.len()), sizes.1.max(body.len()));
            for offset in 0..routes.len() {
                // Each round begins with another route, so that no route always has the same
                // position in a round.
                let route = (round + offset) % routes.len();
                sleep(PAUSE).await;
                let timing = connections[route].send(&conversation, body.clone()).await;
                let took = if streamed { timing.first_byte } else { timing.last_byte };
                // In the first request the whole history is new to the proxy, which takes longer,
                // so these times are kept apart.
                let series = if turn == 0 { &mut first } else { &mut later };
                series[route].push(took.as_secs_f64() * 1e3);
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
    for (index, route) in routes.iter().enumerate() {
        let differences = later[index].iter().zip(&later[0]).map(|(ms, direct)| ms - direct);
        let differences = Series::of(differences.collect());
        let (all, firsts) = (Series::of(later[index].clone()), Series::of(first[index].clone()));
        println!(
            "{:14} {:>9.3} {:>9.3} {:>13.3} {:>10.3} {:>14.3}",
            route.name,
            all.at(0.5),
            all.at(0.99),
            differences.at(0.5),
            differences.at(0.99),
            firsts.at(0.5)
        );
        added.push((route.name, differences.at(0.5)));
    }
    print_ratios("adds", &added, true);
}

/// Sends small conversations over 16 connections at the same time, through each route in turn, and
/// prints how many requests per second each route handles.
async fn throughput(routes: &[Route], rounds: u64) {
    let mut rates = vec![Vec::new(); routes.len()];
    let (mut requests, mut bytes) = (0, 0);
    for round in 0..rounds {
        let work: Vec<_> = (0..CONNECTIONS).map(|_| small_requests()).collect();
        requests = work.iter().map(Vec::len).sum();
        bytes = work.iter().flatten().map(|(_, body)| body.len()).sum();
        for offset in 0..routes.len() {
            let route = (usize::try_from(round).unwrap() + offset) % routes.len();
            sleep(PAUSE * 20).await;
            let took = send_at_once(&routes[route], work.clone()).await;
            rates[route].push(per_second(requests, took));
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
    for (route, rates) in routes.iter().zip(rates) {
        let rates = Series::of(rates);
        let (median, least, most) = (rates.at(0.5), rates.at(0.0), rates.at(1.0));
        println!("{:14} {median:>9.0} {least:>9.0} {most:>9.0}", route.name);
        medians.push((route.name, median));
    }
    print_ratios("does", &medians, false);
}

/// Sends the requests of all connections through one route. Returns the time that took, without
/// the time to open the connections.
async fn send_at_once(route: &Route, work: Vec<Vec<(Conversation, Bytes)>>) -> Duration {
    let mut ready = Vec::new();
    for requests in work {
        ready.push((Connection::open(route).await, requests));
    }
    let start = Instant::now();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|(mut connection, requests)| {
            tokio::spawn(async move {
                for (conversation, body) in requests {
                    connection.send(&conversation, body).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

/// The requests that one connection sends in a round of the throughput benchmark.
fn small_requests() -> Vec<(Conversation, Bytes)> {
    let mut requests = Vec::new();
    for _ in 0..CONVERSATIONS_PER_ROUND {
        let mut conversation = Conversation::of_length(Api::Chat, SMALL_BYTES);
        for _ in 0..SMALL_TURNS {
            let body = conversation.body(false);
            requests.push((conversation.without_history(), body));
            conversation.grow(20);
        }
    }
    requests
}

/// Prints how the memory of `midcourse proxy` grows with the number of requests. Half of the
/// connections use the Chat Completions API, the other half the Messages API.
async fn memory(stub: &Stub) {
    let Some(route) = midcourse(stub) else { return };
    route.warm_up().await;
    let process = route.process.as_ref().unwrap();
    println!("{:>10} {:>12} {:>9} {:>12}", "requests", "resident, MB", "peak, MB", "requests/s");
    println!("{:>10} {:>12.1} {:>9.1}", 0, process.resident_mb(), process.peak_resident_mb());
    let mut done = 0;
    for reading in MEMORY_READINGS {
        let start = Instant::now();
        let left = Arc::new(AtomicU64::new(reading - done));
        let tasks: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let api = if number % 2 == 0 { Api::Chat } else { Api::Messages };
                tokio::spawn(converse(route.address_only(), api, Arc::clone(&left)))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = per_second(usize::try_from(reading - done).unwrap(), start.elapsed());
        done = reading;
        sleep(PAUSE * 100).await;
        let (now, peak) = (process.resident_mb(), process.peak_resident_mb());
        println!("{done:>10} {now:>12.1} {peak:>9.1} {rate:>12.0}");
    }
}

/// Sends one conversation after the other until no requests are left to send. `left` is their
/// number, which all connections share.
async fn converse(route: Route, api: Api, left: Arc<AtomicU64>) {
    let mut connection = Connection::open(&route).await;
    loop {
        let mut conversation = Conversation::of_length(api, SMALL_BYTES);
        for _ in 0..SMALL_TURNS {
            let decrement = |left: u64| left.checked_sub(1);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_err() {
                return;
            }
            connection.send(&conversation, conversation.body(false)).await;
            conversation.grow(20);
        }
    }
}

/// Sorted measurements.
struct Series(Vec<f64>);

impl Series {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }

    /// The measurement at a quantile from 0 to 1; 0.5 is the median.
    fn at(&self, quantile: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index from a quantile"
        )]
        let index = ((self.0.len() - 1) as f64 * quantile) as usize;
        self.0[index]
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64()
}

/// Prints the ratio between midcourse and each other proxy.
fn print_ratios(verb: &str, figures: &[(&str, f64)], less_is_better: bool) {
    let Some((_, ours)) = figures.iter().find(|(name, _)| *name == "midcourse") else { return };
    for (name, theirs) in figures {
        match *name {
            "direct" | "midcourse" | "unread" => {}
            _ if less_is_better => {
                println!("{name} {verb} {:.1} x what midcourse {verb}", theirs / ours);
            }
            _ => println!("midcourse {verb} {:.1} x what {name} {verb}", ours / theirs),
        }
    }
}
