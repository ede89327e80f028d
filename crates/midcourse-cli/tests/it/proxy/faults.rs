//! The proxy with a failing disk, or with a store that it cannot write. Requests arrive unchanged,
//! responses come back, and the log says what happened.

use std::process::Command;

use midcourse::{DataDir, Store, TrajectoryPayload, is_kept_in_memory};
use rusqlite::Connection;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::server::{Server, completion};
use super::{Chat, Proxy, configured};
use crate::events::{findings, test_settings};
use simulated_disk::{Disk, Fault};

/// An agent behind a proxy whose data directory is on a simulated disk.
struct Agent {
    disk: Disk,
    server: Server,
    proxy: Proxy,
    chat: Chat,
}

impl Agent {
    /// `max_wait` is how long, in milliseconds, a request may wait for its messages.
    fn start(disk: Disk, max_wait: &str) -> Self {
        let server = Server::of_json(|_| completion(Some("ok"), None));
        let upstream = format!("http://{}", server.address);
        let proxy = Proxy::start_with(configured(""), &upstream, |command| {
            disk.record(command)
                .env("MIDCOURSE_HOME", home(&disk).path())
                .env("MIDCOURSE_PROXY_MAX_WAIT_MS", max_wait);
        });
        Self { disk, server, proxy, chat: Chat::new("go") }
    }

    /// Sends the conversation. Checks that the same bytes arrive and that the response comes back.
    fn ask(&self) {
        let body = self.chat.body();
        assert!(self.proxy.chat(&body).is_whole);
        assert_eq!(self.server.bodies().pop().unwrap(), body.to_string());
    }

    /// Adds a call to the conversation and sends it.
    fn call(&mut self, id: &str) {
        self.chat.call(id, &format!("make {id}"), "made");
        self.ask();
    }

    /// Stops the proxy. Returns the ids of the stored results, each once, and the log.
    fn end(self) -> (Vec<String>, String) {
        let home = home(&self.disk);
        self.proxy.stop();
        let log = std::fs::read_to_string(home.log_file()).unwrap_or_default();
        (stored(&home), log)
    }
}

fn home(disk: &Disk) -> DataDir {
    DataDir::at(disk.root().join("home"))
}

fn stored(home: &DataDir) -> Vec<String> {
    let mut store = Store::open(home, test_settings()).unwrap();
    store.ingest_spilled().unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let runs = store.runs(usize::MAX).unwrap();
    let records = runs.iter().flat_map(|run| store.trajectory(run.run_id.as_str()).unwrap());
    let ended = records.filter_map(|record| match record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, .. } => Some(tool_call_id.to_string()),
        _ => None,
    });
    let mut ended: Vec<String> = ended.collect();
    ended.sort();
    ended
}

/// Checks that requests pass while the disk has these faults, and that everything is stored after
/// the disk works again. `is_kept` checks that the events are kept elsewhere meanwhile. Returns the
/// log.
fn check(faults: &[Fault], is_kept: impl Fn(&DataDir) -> bool) -> String {
    let mut agent = Agent::start(Disk::new(), "60000");
    agent.call("a");
    agent.disk.inject(faults);
    agent.call("b");
    agent.call("c");
    // A request is forwarded before it is recorded, so its events may not be there yet.
    while !is_kept(&home(&agent.disk)) {
        std::thread::yield_now();
    }
    agent.disk.heal();
    agent.call("d");
    let (ended, log) = agent.end();
    assert_eq!(ended, ["a", "b", "c", "d"], "{log}");
    log
}

fn is_spilled(home: &DataDir) -> bool {
    std::fs::read_dir(home.spill_folder()).is_ok_and(|mut folder| folder.next().is_some())
}

#[test]
fn requests_pass_on_a_full_disk_and_are_kept_in_memory() {
    check(&[Fault::no_space()], is_kept_in_memory);
}

#[test]
fn requests_pass_on_a_read_only_disk_and_are_kept_in_memory() {
    check(&[Fault::read_only()], is_kept_in_memory);
}

#[test]
fn requests_pass_and_are_spilled_while_the_store_cannot_grow() {
    let log = check(&[Fault::no_space().on("*store.db-wal")], is_spilled);
    assert!(log.contains("the disk is full; spilled them"), "{log}");
}

#[test]
fn requests_pass_and_are_spilled_while_syncs_fail() {
    let log = check(&[Fault::sync_error().on("*store.db-wal")], is_spilled);
    assert!(log.contains("the store failed: disk I/O error; spilled them"), "{log}");
}

#[test]
fn requests_do_not_wait_for_a_slow_disk_and_are_recorded() {
    let mut agent = Agent::start(Disk::new(), "20");
    agent.call("a");
    agent.disk.inject(&[Fault::slow_sync()]);
    agent.call("b");
    agent.call("c");
    agent.disk.heal();
    agent.call("d");
    let (ended, log) = agent.end();
    assert_eq!(ended, ["a", "b", "c", "d"], "{log}");
}

#[test]
fn requests_pass_and_are_spilled_while_another_process_locks_the_store() {
    let mut agent = Agent::start(Disk::new(), "20");
    agent.call("a");
    let home = home(&agent.disk);
    let locker = loop {
        let locker = Connection::open(home.store_file()).unwrap();
        if locker.execute_batch("BEGIN IMMEDIATE").is_ok() {
            break locker;
        }
    };
    agent.call("b");
    while !is_spilled(&home) {
        std::thread::yield_now();
    }
    agent.call("c");
    locker.execute_batch("COMMIT").unwrap();
    let (ended, log) = agent.end();
    assert_eq!(ended, ["a", "b", "c"], "{log}");
    assert!(log.contains("locked by another process; spilled them"), "{log}");
}

#[test]
fn requests_pass_and_are_spilled_while_the_store_has_a_newer_schema() {
    let disk = Disk::new();
    let home = home(&disk);
    drop(Store::open(&home, test_settings()).unwrap());
    let set_schema = |version: u32| {
        let other = Connection::open(home.store_file()).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
    };
    set_schema(99);
    let mut agent = Agent::start(disk, "60000");
    // Start with an empty conversation. The proxy would not spill one with a history, because it
    // may belong to a run in the store.
    agent.ask();
    agent.call("a");
    agent.call("b");
    while !is_spilled(&home) {
        std::thread::yield_now();
    }
    agent.proxy.stop();
    set_schema(3);
    assert_eq!(stored(&home), ["a", "b"]);
    let log = std::fs::read_to_string(home.log_file()).unwrap();
    assert!(log.contains("schema 99") && log.contains("spilled them"), "{log}");
}

/// A process that opens a pipe to read from it may block for ever.
#[test]
fn requests_pass_if_a_file_of_the_data_directory_is_a_pipe() {
    for name in ["store.db", "hook.log", "losses", "midcourse.toml"] {
        let server = Server::of_json(|_| completion(Some("ok"), None));
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("midcourse");
        std::fs::create_dir(&data_dir).unwrap();
        let pipe = data_dir.join(name);
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let proxy = Proxy::start_in(folder, server.address);
        let body = Chat::new("go").body();
        assert!(proxy.chat(&body).is_whole, "{name}");
        assert_eq!(server.bodies(), [body.to_string()], "{name}");
        proxy.stop();
    }
}

/// At this limit, every write to a file fails and raises a signal, which by default kills the
/// process.
#[test]
fn requests_pass_at_the_limit_of_file_sizes() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let mut chat = Chat::new("go");
    assert!(proxy.chat(&chat.body()).is_whole);
    let limit = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&proxy.child)), Resource::Fsize, limit).unwrap();
    for id in ["a", "b"] {
        chat.call(id, "make", "made");
        assert!(proxy.chat(&chat.body()).is_whole, "{id}");
        assert_eq!(server.bodies().pop().unwrap(), chat.body().to_string(), "{id}");
    }
    proxy.stop();
}
