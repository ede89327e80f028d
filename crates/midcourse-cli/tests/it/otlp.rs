//! `midcourse export --to otlp`: a server on the loopback interface receives the spans. Spans are sent
//! once, also if the server is busy, refuses some of them, or the command is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use midcourse::{Event, RunOutcome, TrajectoryPayload};
use serde_json::Value;

use crate::archive::everything;
use crate::events::{TempStore, at, hook, root, tool_ended, tool_started, user_message};

/// What the server replies to a request.
enum Reply {
    Status(&'static str),
    /// 200 with this body.
    Body(&'static [u8]),
    /// No reply: the command is killed after the server has the spans.
    Kill,
}

/// An OTLP endpoint that gives one reply after the other, and then accepts everything.
struct Endpoint {
    url: String,
    /// Ids of the spans in each request.
    requests: Receiver<Vec<String>>,
    children: Sender<Child>,
}

impl Endpoint {
    fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, requests) = channel();
        let (children, to_kill) = channel::<Child>();
        std::thread::spawn(move || {
            let mut replies = replies.into_iter();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(body) = read_request(&mut stream) {
                    let _ = send.send(span_ids(&body));
                    let reply = match replies.next().unwrap_or(Reply::Body(b"")) {
                        Reply::Kill => {
                            let mut child = to_kill.recv().unwrap();
                            child.kill().unwrap();
                            child.wait().unwrap();
                            break;
                        }
                        Reply::Status(status) => (status, &b"{\"detail\":\"why\"}"[..]),
                        Reply::Body(body) => ("200 OK", body),
                    };
                    let (status, body) = reply;
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: {length}\r\n\r\n"
                    );
                    let stream = stream.get_mut();
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(body).unwrap();
                }
            }
        });
        Self { url, requests, children }
    }

    /// The spans of all requests since the last call.
    fn received(&self) -> Vec<String> {
        self.requests.try_iter().flatten().collect()
    }
}

/// The body of the next request; `None` at the end of the connection.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    let mut line = String::new();
    while stream.read_line(&mut line).ok()? > 0 {
        if line == "\r\n" {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            return Some(body);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    None
}

/// The ids of the spans in a request: field 2 of field 2 of field 2 of field 1.
fn span_ids(body: &[u8]) -> Vec<String> {
    let mut found = vec![body.to_vec()];
    for number in [1, 2, 2, 2] {
        found = found.iter().flat_map(|message| fields(message, number)).collect();
    }
    found.iter().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

/// The fields with this number that are bytes, in a protobuf message.
fn fields(mut message: &[u8], number: u64) -> Vec<Vec<u8>> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = message.split_first().unwrap();
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)).unwrap(),
            other => unreachable!("wire type {other}"),
        };
        let (value, rest) = message.split_at(length);
        if tag >> 3 == number {
            found.push(value.to_vec());
        }
        message = rest;
    }
    found
}

fn command(place: &TempStore, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(args).env("MIDCOURSE_HOME", place.data_dir().path());
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn midcourse(place: &TempStore, args: &[&str]) -> Output {
    command(place, args).output().unwrap()
}

/// Sends the run `r`. Returns what the command printed, and its error.
fn send(place: &TempStore, endpoint: &Endpoint, more: &[&str]) -> (bool, String) {
    let mut args = vec!["export", "r", "--to", "otlp", "--endpoint", &endpoint.url];
    args.extend(more);
    let output = midcourse(place, &args);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

fn recently(mut event: Event) -> Event {
    event.at = midcourse::now();
    event
}

fn end_run(place: &TempStore) {
    let end =
        TrajectoryPayload::RunEnded { outcome: RunOutcome::Completed, new_messages: Vec::new() };
    place.open().append(recently(Event::new(root("r"), hook(), at(60), end))).unwrap();
}

/// A run that has not ended, with two calls.
fn open_run() -> TempStore {
    let place = TempStore::new();
    let mut store = place.open();
    store.append(recently(user_message("r", "make it build"))).unwrap();
    for call in ["a", "b"] {
        store.append(recently(tool_started("r", call))).unwrap();
        store.append(recently(tool_ended("r", call, "done"))).unwrap();
    }
    place
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids
}

#[test]
fn an_export_sends_only_what_is_new() {
    let (place, endpoint) = (open_run(), Endpoint::new(Vec::new()));
    let (is_ok, text) = send(&place, &endpoint, &[]);
    assert!(is_ok && text.contains("Sent 2 spans"), "{text}");
    assert!(text.contains("2 spans are still open"), "{text}");
    let mut all = endpoint.received();
    let (_, text) = send(&place, &endpoint, &[]);
    assert!(text.contains("Nothing new"), "{text}");
    place.open().append(recently(tool_started("r", "c"))).unwrap();
    send(&place, &endpoint, &[]);
    all.extend(endpoint.received());
    assert_eq!(all.len(), 3, "the message, and the calls a and b");
    end_run(&place);
    send(&place, &endpoint, &[]);
    all.extend(endpoint.received());
    assert_eq!(all.len(), 5, "the call c, and the run");
    // The run goes on after it seemed to be over.
    place.open().append(recently(tool_started("r", "d"))).unwrap();
    end_run(&place);
    send(&place, &endpoint, &[]);
    all.extend(endpoint.received());
    assert_eq!(all.len(), 7, "the call d, and what followed the end of the run");
    let (_, text) = send(&place, &endpoint, &[]);
    assert!(text.contains("Nothing new"), "{text}");
    assert_eq!(endpoint.received(), [""; 0]);
    send(&place, &endpoint, &["--again"]);
    let all = sorted(all);
    assert_eq!(sorted(endpoint.received()), all, "the same spans, with the same ids");
    let other = Endpoint::new(Vec::new());
    send(&place, &other, &[]);
    assert!(!other.received().is_empty(), "another endpoint has a cursor of its own");
    let mut unique = all.clone();
    unique.dedup();
    assert_eq!(unique, all);
}

#[test]
fn open_spans_are_sent_if_asked_for_and_not_again() {
    let (place, endpoint) = (open_run(), Endpoint::new(Vec::new()));
    send(&place, &endpoint, &["--unfinished"]);
    assert_eq!(endpoint.received().len(), 4, "the message, both calls and the run");
    let (_, text) = send(&place, &endpoint, &[]);
    assert!(text.contains("Nothing new"), "{text}");
}

#[test]
fn a_busy_endpoint_is_asked_again() {
    let replies =
        vec![Reply::Status("503 Service Unavailable"), Reply::Status("429 Too Many Requests")];
    let (place, endpoint) = (open_run(), Endpoint::new(replies));
    end_run(&place);
    let (is_ok, text) = send(&place, &endpoint, &[]);
    assert!(is_ok && text.contains("Sent 4 spans"), "{text}");
    let received = endpoint.received();
    assert_eq!(received.len(), 12, "three times the same");
    assert_eq!(received[..4], received[8..]);
}

#[test]
fn spans_that_the_endpoint_refused_are_an_error_and_not_sent_again() {
    // Field 1, partial success: 3 spans rejected, "too old".
    let reply = Reply::Body(b"\x0a\x0b\x08\x03\x12\x07too old");
    let (place, endpoint) = (open_run(), Endpoint::new(vec![reply]));
    end_run(&place);
    let (is_ok, text) = send(&place, &endpoint, &[]);
    assert!(!is_ok && text.contains("refused 3 of these spans: too old"), "{text}");
    assert!(text.contains("--again"), "{text}");
    let (is_ok, text) = send(&place, &endpoint, &[]);
    assert!(is_ok && text.contains("Nothing new"), "{text}");
}

#[test]
fn after_a_kill_the_same_spans_are_sent_again() {
    let (place, endpoint) = (open_run(), Endpoint::new(vec![Reply::Kill]));
    end_run(&place);
    let args = ["export", "r", "--to", "otlp", "--endpoint", &endpoint.url];
    endpoint.children.send(command(&place, &args).spawn().unwrap()).unwrap();
    // The endpoint has these spans, but the command has not written the cursor.
    let before = endpoint.requests.recv().unwrap();
    let (is_ok, text) = send(&place, &endpoint, &[]);
    assert!(is_ok, "{text}");
    assert_eq!(endpoint.received(), before);
}

#[test]
fn errors_say_what_to_do_and_show_no_secrets() {
    for (status, hint) in [
        ("401 Unauthorized", "--header 'authorization=Bearer TOKEN'"),
        ("404 Not Found", "no OTLP endpoint at this address"),
        ("500 Internal Server Error", "see the log of the endpoint"),
        ("400 Bad Request", "check the address and the headers"),
    ] {
        let (place, endpoint) = (open_run(), Endpoint::new(vec![Reply::Status(status)]));
        let (is_ok, text) = send(&place, &endpoint, &["--header", "authorization=Bearer hush"]);
        assert!(!is_ok && text.contains(status) && text.contains(hint), "{text}");
        assert!(text.contains("why") && !text.contains("hush"), "{text}");
        let (is_ok, _) = send(&place, &endpoint, &[]);
        assert!(is_ok, "the next export sends what is missing");
        assert_eq!(endpoint.received().len(), 4, "twice the same two spans");
    }
    let place = open_run();
    let output = midcourse(&place, &["export", "r", "--to", "otlp"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("--endpoint URL"), "{text}");
}

#[test]
fn a_deleted_run_is_forgotten() {
    let (place, endpoint) = (open_run(), Endpoint::new(Vec::new()));
    send(&place, &endpoint, &["--unfinished"]);
    let cursors = place.data_dir().path().join("otlp-cursors");
    assert_eq!(std::fs::read_dir(&cursors).unwrap().count(), 1);
    assert!(midcourse(&place, &["delete", "r", "--yes"]).status.success());
    assert_eq!(std::fs::read_dir(&cursors).unwrap().count(), 0);
}

#[test]
fn a_file_with_spans_imports_without_loss() {
    let (original, copy) = (TempStore::new(), TempStore::new());
    everything(&mut original.open());
    let file = original.data_dir().path().join("spans.jsonl");
    let path = file.to_str().unwrap();
    let output = midcourse(&original, &["export", "r", "--to", "otlp", "-o", path]);
    assert!(output.status.success(), "{output:?}");
    let output = midcourse(&copy, &["import", path, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((counts["unreadable"].as_u64(), counts["renumbered"].as_u64()), (Some(0), Some(0)));
    let export = |place| midcourse(place, &["export", "r", "--tree"]).stdout;
    assert_eq!(export(&copy), export(&original));
    assert!(copy.findings().is_empty());
}
