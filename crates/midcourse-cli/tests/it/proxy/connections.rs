//! Connections without a request: other programs cannot starve the agent with them, and the proxy
//! closes them after some time, but never while a request or its response is in progress.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, mpsc};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::json;

use super::intercepted::{HOST, Session, ordinary, shell};
use super::server::{Server, completion, send_json};
use super::{Chat, Proxy, configured, read_reply};

/// Limits that are long enough for a client on a busy machine and short for a test.
const SHORT: [(&str, &str); 2] =
    [("MIDCOURSE_PROXY_HEAD_TIMEOUT_MS", "1000"), ("MIDCOURSE_PROXY_IDLE_TIMEOUT_MS", "1000")];

/// How many files a process may have open by default.
const DEFAULT_FILES: u64 = 1024;

fn is_closed(mut stream: &TcpStream) -> bool {
    // Blocks as long as the connection is open.
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

/// Opens more connections than a process may have open files by default. Half of them send the
/// beginning of a request.
fn idle_connections(address: SocketAddr) -> Vec<TcpStream> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let connect = |number| {
        let mut stream = TcpStream::connect(address).unwrap();
        let begun: &[u8] = if number % 2 == 0 { b"" } else { b"GET / HTTP/1.1\r\nx: " };
        stream.write_all(begun).unwrap();
        stream
    };
    (0..1_100).map(connect).collect()
}

fn limit_files(process: u32) {
    let limit = Rlimit { current: Some(DEFAULT_FILES), maximum: Some(DEFAULT_FILES) };
    let process = Pid::from_raw(process.try_into().unwrap());
    prlimit(process, Resource::Nofile, limit).unwrap();
}

#[test]
fn connections_without_the_token_cannot_starve_the_agent() {
    let server = Server::of_json(|_| json!({"data": []}));
    let proxy = Proxy::start(&server, "");
    limit_files(proxy.child.id());
    let connections = idle_connections(proxy.address);
    let reply = proxy.send("GET", "/openai/models", "", b"");
    assert!(reply.head.starts_with("HTTP/1.1 200"), "{reply:?}");
    assert!(is_closed(&connections[0]), "the oldest connection was closed");
}

#[test]
fn connections_without_the_token_cannot_starve_an_intercepted_agent() {
    let world = ordinary();
    let session = Session::start(&world);
    limit_files(session.process());
    let address = session.proxy().rsplit('@').next().unwrap().parse().unwrap();
    let connections = idle_connections(address);
    let (head, _) = session.open(HOST).chat(&Chat::new("go").body());
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(is_closed(&connections[0]), "the oldest connection was closed");
    drop(connections);
    assert_eq!(session.end().1, Some(0));
}

#[test]
fn a_connection_without_a_request_is_closed() {
    let server = Server::of_json(|_| json!({"data": []}));
    let proxy = Proxy::start_at(configured(""), &format!("http://{}", server.address), &SHORT);
    let silent = proxy.connect();
    let mut begun = proxy.connect();
    begun.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
    let mut refused = proxy.connect();
    refused.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(is_closed(&silent) && is_closed(&begun));
    // A refused request gets its response before the proxy closes the connection.
    assert!(read_reply(refused).head.starts_with("HTTP/1.1 403"));
    let mut used = proxy.connect();
    write!(used, "GET {}/openai/models HTTP/1.1\r\nhost: x\r\n\r\n", proxy.prefix).unwrap();
    let reply = read_reply(used);
    assert!(reply.head.starts_with("HTTP/1.1 200") && reply.is_whole, "{reply:?}");
}

#[test]
fn run_closes_a_connection_without_a_request() {
    let world = ordinary();
    let folder = tempfile::tempdir().unwrap();
    let session = Session::start_with(&world, folder, &["--proxy=intercept"], &shell(":"), |run| {
        run.envs(SHORT);
    });
    let address: SocketAddr = session.proxy().rsplit('@').next().unwrap().parse().unwrap();
    let silent = TcpStream::connect(address).unwrap();
    let mut begun = TcpStream::connect(address).unwrap();
    begun.write_all(b"CONNECT x").unwrap();
    assert!(is_closed(&silent) && is_closed(&begun));
    assert_eq!(session.end().1, Some(0));
}

#[test]
fn a_request_in_progress_may_take_longer_than_the_limits() {
    let (arrived, has_arrived) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
    let server = Server::start(move |_, request, out| {
        let is_stream = request.head.contains("/stream");
        if is_stream {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").unwrap();
        }
        if request.head.starts_with("GET") {
            arrived.lock().unwrap().send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        if is_stream {
            out.write_all(b"half").unwrap();
        } else {
            send_json(out, 200, &completion(Some("late"), None));
        }
    });
    let proxy = Proxy::start_at(configured(""), &format!("http://{}", server.address), &SHORT);
    let begin = |request: &str, rest: &str| {
        let mut stream = proxy.connect();
        let request = request.replace(" /", &format!(" {}/", proxy.prefix));
        let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        stream
    };
    let [stream, poll] = ["GET /openai/stream", "GET /openai/poll"].map(|request| {
        let stream = begin(request, "\r\n");
        has_arrived.recv().unwrap();
        stream
    });
    let body = Chat::new("go").body().to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let begun = format!("content-length: {}\r\n\r\n{first}", body.len());
    let mut upload = begin("POST /openai/chat/completions", &begun);
    // Wait until both limits have passed: the proxy closes these connections only then.
    assert!(is_closed(&proxy.connect()));
    assert!(is_closed(&proxy.connect()));
    upload.write_all(second.as_bytes()).unwrap();
    let late = completion(Some("late"), None).to_string();
    assert_eq!(read_reply(upload).body, late.as_bytes());
    release.send(()).unwrap();
    release.send(()).unwrap();
    assert_eq!(read_reply(stream).body, b"halfhalf");
    assert_eq!(read_reply(poll).body, late.as_bytes());
}
