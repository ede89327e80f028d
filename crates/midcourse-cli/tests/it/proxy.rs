//! Tests of `midcourse proxy`, which stands between an agent and its model. A test sends HTTP
//! requests to the proxy as an agent would, plays the model with a scripted server, and then reads
//! the store in which the proxy recorded the run.

mod connections;
mod conversations;
mod credentials;
mod deliveries;
mod every_api;
mod failures;
mod faults;
mod forwarding;
mod headers;
mod hooks;
mod http2;
mod installed_proxy;
mod intercepted;
mod rewritten;
mod server;
mod supervised;
mod tls;
mod world;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use midcourse::{DataDir, Store};
use midcourse::{TrajectoryPayload, TrajectoryRecord};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events::{findings, test_settings};
use server::Server;

/// A running proxy.
pub(crate) struct Proxy {
    child: Child,
    address: SocketAddr,
    /// The first part of every URL path. It contains the secret token that the proxy requires.
    prefix: String,
    /// The proxy's home folder and working directory. The data directory, to which the proxy
    /// records, is the folder `midcourse` in it.
    pub(crate) folder: TempDir,
}

/// An HTTP response of the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The status line and the headers.
    pub(crate) head: String,
    /// The body; if it was sent in chunks, without the lines that give their sizes.
    pub(crate) body: Vec<u8>,
    /// Whether the body was received completely.
    pub(crate) is_whole: bool,
}

impl Proxy {
    /// Starts a proxy that forwards to `server`. `config` is the text of the user's configuration
    /// file.
    pub(crate) fn start(server: &Server, config: &str) -> Self {
        Self::start_in(configured(config), server.address)
    }

    pub(crate) fn start_in(folder: TempDir, upstream: SocketAddr) -> Self {
        Self::start_at(folder, &format!("http://{upstream}"), &[])
    }

    pub(crate) fn start_at(folder: TempDir, upstream: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_with(folder, upstream, |command| {
            command.envs(variables.iter().copied());
        })
    }

    /// Starts a proxy after `change` has changed its command.
    fn start_with(folder: TempDir, upstream: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = command(&folder);
        command
            .args(["proxy", "--upstream", upstream])
            // The proxy holds a request back until its messages are ready, for at most this long. A
            // minute is enough even on a busy machine.
            .env("MIDCOURSE_PROXY_MAX_WAIT_MS", "60000")
            .stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let url = line.strip_prefix("export ANTHROPIC_BASE_URL=http://").unwrap();
        let (address, path) = url.split_once('/').unwrap();
        let prefix = format!("/{}", path.strip_suffix("/anthropic").unwrap());
        Self { child, address: address.parse().unwrap(), prefix, folder }
    }

    /// Sends a request and reads the response. `path` is the part of the path after the token.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let head = format!("{method} {}{path} HTTP/1.1\r\n{headers}", self.prefix);
        write!(stream, "{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len())
            .unwrap();
        stream.write_all(body).unwrap();
        read_reply(stream)
    }

    /// Sends a request of OpenAI's Chat Completions API.
    pub(crate) fn chat(&self, body: &Value) -> Reply {
        self.send("POST", "/openai/chat/completions", "host: x\r\n", body.to_string().as_bytes())
    }

    /// Sends a request of Anthropic's Messages API.
    pub(crate) fn messages(&self, body: &Value) -> Reply {
        self.send("POST", "/anthropic/v1/messages", "host: x\r\n", body.to_string().as_bytes())
    }

    /// The URL that an agent behind the proxy uses instead of the model API's own.
    pub(crate) fn base_url(&self, api: &str) -> String {
        format!("http://{}{}/{api}", self.address, self.prefix)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Asks the proxy to stop and waits until it has stored everything. Returns its folder.
    pub(crate) fn stop(mut self) -> TempDir {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    /// Stops the proxy and returns the records of each run, oldest run first.
    pub(crate) fn runs(self) -> Vec<Vec<TrajectoryRecord>> {
        runs(&self.stop())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A home folder in which the user's configuration file has the text `config`.
pub(crate) fn configured(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = DataDir::at(folder.path().join("midcourse")).config_file();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, config).unwrap();
    folder
}

/// The `midcourse` command with all its folders inside `folder`.
pub(crate) fn command(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command
        .env("HOME", folder.path())
        .env("MIDCOURSE_HOME", folder.path().join("midcourse"))
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .env_remove("ALL_PROXY")
        .env_remove("all_proxy")
        .env_remove("HTTPS_PROXY")
        .env_remove("https_proxy")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .env_remove("OPENAI_BASE_URL")
        .env_remove("ANTHROPIC_BASE_URL")
        .env_remove("SSL_CERT_FILE")
        .env_remove("REQUESTS_CA_BUNDLE")
        .env_remove("CURL_CA_BUNDLE")
        .env_remove("NODE_EXTRA_CA_CERTS")
        .env_remove("PIP_CERT")
        .env_remove("AWS_CA_BUNDLE")
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command
}

pub(crate) fn runs(folder: &TempDir) -> Vec<Vec<TrajectoryRecord>> {
    let home = DataDir::at(folder.path().join("midcourse"));
    let store = Store::open(&home, test_settings()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let mut runs = store.runs(usize::MAX).unwrap();
    runs.sort_by_key(|run| (run.started, run.run_id.clone()));
    runs.iter().map(|run| store.trajectory(run.run_id.as_str()).unwrap()).collect()
}

/// Checks that `midcourse replay` computes, for each stored run, the messages that the agent got
/// during the run.
pub(crate) fn replays_the_same(folder: &TempDir) {
    for run in runs(folder) {
        let id = run[0].run_id.clone().unwrap();
        let replay = command(folder).args(["replay", "--json", "--run", id.as_str()]).output();
        let replay = replay.unwrap();
        let lines = String::from_utf8(replay.stdout).unwrap();
        assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
        let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let delivered = deliveries(&run);
        assert_eq!(summary["deliveries"], delivered.len(), "{lines}");
        for (_, text) in delivered {
            assert!(lines.contains(json!(text).to_string().trim_matches('"')), "{text}\n{lines}");
        }
    }
}

pub(crate) fn log(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join("midcourse/hook.log")).unwrap_or_default()
}

/// Reads a response until the connection ends.
pub(crate) fn read_reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // Reading fails if the proxy reset the connection instead of closing it in order.
    let is_closed = stream.read_to_end(&mut bytes).is_ok();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Reply { head: String::new(), body: bytes, is_whole: false };
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let body = &bytes[end + 4..];
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    let (body, is_whole) = match length {
        Some(length) => (body.to_vec(), body.len() == length),
        None if lower.contains("transfer-encoding: chunked") => unchunked(body),
        None => (body.to_vec(), is_closed),
    };
    Reply { head, body, is_whole }
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { return (body, false) };
        body.extend_from_slice(chunk);
        rest = &rest[end + 4 + size..];
    }
}

/// The messages of a conversation in OpenAI's Chat Completions API. A test adds calls to it.
pub(crate) struct Chat(pub(crate) Vec<Value>);

impl Chat {
    pub(crate) fn new(task: &str) -> Self {
        Self(vec![
            json!({"role": "system", "content": "You are an agent."}),
            json!({"role": "user", "content": task}),
        ])
    }

    /// Adds a tool call and its result.
    pub(crate) fn call(&mut self, id: &str, command: &str, result: &str) {
        let arguments = json!({"command": command}).to_string();
        let function = json!({"name": "shell", "arguments": arguments});
        let call = json!({"id": id, "type": "function", "function": function});
        self.0.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        self.0.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }

    pub(crate) fn body(&self) -> Value {
        let tool = json!({"type": "function", "function": {"name": "shell", "parameters": {}}});
        json!({"model": "m", "messages": self.0, "tools": [tool]})
    }
}

/// Each message that the agent got in a run: `true` for guidance (about what to do next) or `false`
/// for feedback (about a tool call), and the text.
pub(crate) fn deliveries(records: &[TrajectoryRecord]) -> Vec<(bool, String)> {
    let delivery = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::FeedbackDelivered { text, .. } => Some((false, text.clone())),
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            Some((true, guidance.injection.content().to_owned()))
        }
        _ => None,
    };
    records.iter().filter_map(delivery).collect()
}

/// The payload kind of each record.
pub(crate) fn kinds(records: &[TrajectoryRecord]) -> Vec<&'static str> {
    records.iter().map(|record| record.payload.kind()).collect()
}
