//! Tests of `midcourse ui` over plain HTTP: who may ask, what the answers contain, and what live events
//! bring. `tests/browser` tests the page in a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use midcourse::{DataDir, Store};
use serde_json::Value;

use crate::events::{TempStore, tool_ended, tool_started, user_message};

/// A running viewer.
struct Viewer {
    child: Child,
    printed: BufReader<ChildStdout>,
    port: u16,
    link: String,
}

/// A response over plain HTTP.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        assert!(self.body.starts_with('{'), "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The session that the reply gives to a browser.
    pub(crate) fn session(&self) -> String {
        self.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

impl Viewer {
    fn start(data_dir: &DataDir, port: u16, run: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .arg("ui")
            .args(run)
            .args(["--no-open", "--port", &port.to_string()])
            .env("MIDCOURSE_HOME", data_dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let link = next_link(&mut printed);
        let port = link.split([':', '/']).nth(4).unwrap().parse().unwrap();
        Self { child, printed, port, link }
    }

    fn send(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        Reply::parse(&text)
    }

    /// Asks with these header lines, and with the host that a browser would name.
    fn get(&self, path: &str, headers: &[&str]) -> Reply {
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let host = format!("host: 127.0.0.1:{}\r\n", self.port);
        self.send(&format!("GET {path} HTTP/1.1\r\n{host}connection: close\r\n{headers}\r\n"))
    }

    /// Opens the link, and returns the header line of the session.
    fn open(&self) -> String {
        let path = self.link.split_once("/open/").unwrap().1;
        format!("cookie: {}", self.get(&format!("/open/{path}"), &[]).session())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_link(printed: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert!(line.starts_with("http://127.0.0.1:"), "{line}");
    line.trim().to_owned()
}

const PATHS: [&str; 14] = [
    "/",
    "/run/r",
    "/run/r/0",
    "/compare/r/r",
    "/assets/app.js",
    "/assets/none",
    "/api/runs",
    "/api/runs/r",
    "/api/runs/r/outline",
    "/api/runs/r/entries",
    "/api/runs/r/report",
    "/api/search?words=a",
    "/api/events",
    "/none",
];

#[test]
fn every_request_needs_the_session_that_the_link_gives_once() {
    let place = TempStore::new();
    place.open().append(user_message("r", "Fix it")).unwrap();
    let mut viewer = Viewer::start(&place.data_dir(), 0, &["r"]);
    for path in PATHS {
        let reply = viewer.get(path, &[]);
        assert_eq!(reply.status, 401, "{path}");
        assert!(reply.body.contains("midcourse ui"), "{}", reply.body);
        assert!(!reply.body.contains("Fix it"), "{}", reply.body);
    }
    assert_eq!(viewer.get("/open/0000", &[]).status, 401);
    let code = viewer.link.split_once("/open/").unwrap().1.to_owned();
    let opened = viewer.get(&format!("/open/{code}"), &[]);
    assert_eq!((opened.status, opened.header("location")), (303, Some("/run/r")));
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&code), "{cookie}");
    assert_eq!(viewer.get(&format!("/open/{code}"), &[]).status, 401, "a link works once");
    // For another browser there is another link.
    let next = next_link(&mut viewer.printed);
    assert!(!next.contains(&code), "{next}");

    let session = format!("cookie: {}", opened.session());
    for path in PATHS.into_iter().filter(|path| !path.contains("events")) {
        let reply = viewer.get(path, &[&session]);
        let expected = if path.contains("none") { 404 } else { 200 };
        assert_eq!(reply.status, expected, "{path}: {}", reply.body);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn other_sites_other_names_and_writes_are_refused() {
    let place = TempStore::new();
    let viewer = Viewer::start(&place.data_dir(), 0, &[]);
    let session = viewer.open();
    let host = format!("host: 127.0.0.1:{}", viewer.port);
    let ask = |method: &str, lines: &[&str]| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let close = "connection: close\r\n";
        viewer.send(&format!("{method} /api/runs HTTP/1.1\r\n{close}{lines}\r\n")).status
    };
    assert_eq!(ask("GET", &[&host, &session]), 200);
    assert_eq!(ask("GET", &[&host, &session, "sec-fetch-site: same-origin"]), 200);
    assert_eq!(ask("GET", &["host: viewer.example", &session]), 403);
    assert_eq!(ask("GET", &[&host, &session, "sec-fetch-site: cross-site"]), 403);
    assert_eq!(ask("GET", &[&host, &session, "origin: http://site.example"]), 403);
    assert_eq!(ask("POST", &[&host, &session, "content-length: 0"]), 405);
    assert_eq!(ask("OPTIONS", &[&host, "origin: http://site.example"]), 403);
}

/// Reads server-sent events until one of this kind comes, and returns its id and data.
fn next_event(stream: &mut BufReader<TcpStream>, kind: &str) -> (String, Value) {
    let (mut event, mut id, mut data) = (String::new(), String::new(), String::new());
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended");
        if let Some(text) = line.strip_prefix("event: ") {
            event = text.trim().to_owned();
        } else if let Some(text) = line.strip_prefix("id: ") {
            id = text.trim().to_owned();
        } else if let Some(text) = line.strip_prefix("data: ") {
            data = text.to_owned();
        } else if line.trim().is_empty() && event == kind {
            return (id, serde_json::from_str(&data).unwrap());
        }
    }
}

fn listen(viewer: &Viewer, path: &str, headers: &[&str]) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", viewer.port)).unwrap();
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

fn append(store: &mut Store, events: impl IntoIterator<Item = midcourse::Event>) {
    for event in events {
        store.append(event).unwrap();
    }
}

#[test]
fn a_run_grows_live_and_goes_on_after_a_restart() {
    let place = TempStore::new();
    let mut store = place.open();
    append(&mut store, [user_message("r", "Fix it")]);
    let viewer = Viewer::start(&place.data_dir(), 0, &[]);
    let session = viewer.open();
    let outline = viewer.get("/api/runs/r/outline", &[&session]).json();
    assert_eq!(outline["seq"], serde_json::json!([0]));
    let cursor = outline["cursor"].as_str().unwrap();

    let mut events = listen(&viewer, &format!("/api/events?run=r&cursor={cursor}"), &[&session]);
    append(&mut store, [tool_started("r", "c1")]);
    let (_, started) = next_event(&mut events, "outline");
    assert_eq!(started["seq"], serde_json::json!([1]));
    assert_eq!(started["state"], serde_json::json!([3]), "the call has no result yet");
    append(&mut store, [tool_ended("r", "c1", "done")]);
    let (id, ended) = next_event(&mut events, "outline");
    assert_eq!((&ended["seq"], &ended["state"]), (&started["seq"], &serde_json::json!([0])));
    let (_, run) = next_event(&mut events, "run");
    assert_eq!((&run["run_id"], &run["calls"]), (&"r".into(), &1.into()));

    let port = viewer.port;
    drop(viewer);
    append(&mut store, [tool_started("r", "c2")]);
    let viewer = Viewer::start(&place.data_dir(), port, &[]);
    let last = format!("last-event-id: {id}");
    let path = format!("/api/events?run=r&cursor={cursor}");
    let mut events = listen(&viewer, &path, &[&session, &last]);
    let (_, missed) = next_event(&mut events, "outline");
    assert_eq!(missed["seq"], serde_json::json!([3]), "only what is new");

    let mut table = listen(&viewer, "/api/events", &[&session]);
    next_event(&mut table, "ready");
    append(&mut store, [user_message("other", "Another task")]);
    // The run is there at once, whenever the stream began.
    let rows = loop {
        let rows = viewer.get("/api/runs", &[&session]).json();
        if rows["total"] == 2 {
            break rows;
        }
    };
    assert_eq!(rows["runs"].as_array().unwrap().len(), 2);
    append(&mut store, [tool_started("other", "c1")]);
    let (_, run) = next_event(&mut table, "run");
    assert_eq!(run["task"], "Another task");
}

#[test]
fn ids_of_any_form_are_found() {
    let place = TempStore::new();
    let mut store = place.open();
    let ids = ["a/b", "..", ".", "~x", "a%2Fb", "ä ?#&\"<"];
    append(&mut store, ids.map(|id| user_message(id, id)));
    let viewer = Viewer::start(&place.data_dir(), 0, &[]);
    let session = viewer.open();
    let segments = ["a%2Fb", "~..", "~.", "~~x", "a%252Fb", "%C3%A4%20%3F%23%26%22%3C"];
    for (id, segment) in ids.into_iter().zip(segments) {
        let reply = viewer.get(&format!("/api/runs/{segment}"), &[&session]);
        assert_eq!(reply.json()["run"]["run_id"], id, "{segment}");
        let reply = viewer.get(&format!("/api/runs/{segment}/entries/0"), &[&session]);
        assert_eq!(reply.json()["seq"], 0, "{segment}");
    }
    assert_eq!(viewer.get("/api/runs/none", &[&session]).status, 404);
    assert_eq!(viewer.get("/api/runs/a%2Fb/entries/x", &[&session]).status, 400);
    assert_eq!(viewer.get("/api/runs?sort=shoe", &[&session]).status, 400);
}
