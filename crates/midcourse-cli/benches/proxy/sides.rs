//! The ways to the model: direct, through midcourse, through its peers.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::conversation::{Api, Conversation};
use crate::stub::Stub;
use crate::{SMALL, SMALL_TURNS};

/// A way to the model.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// What stands before the path of each API.
    pub(crate) chat: String,
    pub(crate) messages: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) process: Option<Process>,
}

/// The sides that are there, each of them answering and warm.
pub(crate) async fn sides(stub: &Stub) -> Vec<Side> {
    let mut sides = vec![Side::at("direct", stub.address)];
    sides.extend(midcourse(stub));
    sides.extend(litellm(stub));
    sides.extend(portkey(stub));
    for side in &sides {
        side.wait_for_it().await;
    }
    sides
}

pub(crate) fn midcourse(stub: &Stub) -> Option<Side> {
    let binary = std::env::var("MIDCOURSE_BENCH_BINARY").ok();
    let Some(binary) = binary.or(option_env!("CARGO_BIN_EXE_midcourse").map(str::to_owned)) else {
        println!("there is no binary of midcourse: left out");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = clean(Path::new(&binary), &folder);
    command.env("MIDCOURSE_HOME", folder.path().join("midcourse"));
    command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream", &stub.url()]);
    let mut process = Process::start(command.stdout(Stdio::piped()), folder);
    let (anthropic, openai) = (process.line(), process.line());
    let (address, messages) = base_url(&anthropic, "export ANTHROPIC_BASE_URL=http://");
    let (_, chat) = base_url(&openai, "export OPENAI_BASE_URL=http://");
    // The path of this base ends where that of OpenAI's own does, behind its version.
    let side = Side::at("midcourse", address);
    Some(Side { chat, messages: format!("{messages}/v1"), process: Some(process), ..side })
}

/// The address and the path of a base URL that was printed behind these words.
pub(crate) fn base_url(line: &str, words: &str) -> (SocketAddr, String) {
    assert!(line.starts_with(words), "midcourse said {line:?}");
    let (address, path) = line.trim().trim_start_matches(words).split_once('/').unwrap();
    (address.parse().unwrap(), format!("/{path}"))
}

/// As quick as its documentation says it can be: no database, no callbacks, no retries, no log.
pub(crate) fn litellm(stub: &Stub) -> Option<Side> {
    let Some(environment) = std::env::var_os("MIDCOURSE_LITELLM") else {
        println!("MIDCOURSE_LITELLM is not set: LiteLLM is left out");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    // YAML, too, reads JSON.
    let model = json!({"model": "openai/stub", "api_base": format!("{}/v1", stub.url()),
        "api_key": "dummy"});
    let settings = json!({
        "model_list": [{"model_name": "stub", "litellm_params": model}],
        "litellm_settings": {"callbacks": [], "num_retries": 0, "request_timeout": 30},
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
    });
    std::fs::write(&config, settings.to_string()).unwrap();
    // It does not start without a key; this one is made up here and lives as long as the process.
    let key = format!("sk-{:032x}{:032x}", random(), random());
    let address = free_address();
    let mut command = clean(&PathBuf::from(environment).join("bin/litellm"), &folder);
    command
        .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--num_workers", "1", "--telemetry", "False", "--keepalive_timeout", "600"])
        .arg("--config")
        .arg(config)
        .env("LITELLM_MASTER_KEY", &key)
        .env("LITELLM_LOG", "ERROR")
        .env("LITELLM_MODE", "PRODUCTION")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let process = Process::start(&mut command, folder);
    let headers = vec![("authorization", format!("Bearer {key}"))];
    Some(Side { headers, process: Some(process), ..Side::at("LiteLLM", address) })
}

pub(crate) fn portkey(stub: &Stub) -> Option<Side> {
    let Some(installed) = std::env::var_os("MIDCOURSE_PORTKEY") else {
        println!("MIDCOURSE_PORTKEY is not set: Portkey is left out");
        return None;
    };
    // It would listen at every address of the machine, and has no option against it.
    let loopback = "data:text/javascript,import net from 'node:net';\
        const listen = net.Server.prototype.listen;\
        net.Server.prototype.listen = function (port, ...more) {\
        return listen.call(this, port, '127.0.0.1', ...more.filter(it => it instanceof Function)) }";
    let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
    let mut command = clean(Path::new("node"), &folder);
    command
        .args(["--import", loopback])
        .arg(
            PathBuf::from(installed).join("node_modules/@portkey-ai/gateway/build/start-server.js"),
        )
        .args([&format!("--port={}", address.port()), "--headless"])
        .env("NODE_ENV", "production")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let process = Process::start(&mut command, folder);
    let headers = vec![
        ("x-portkey-provider", "openai".to_owned()),
        ("x-portkey-custom-host", format!("{}/v1", stub.url())),
        ("authorization", "Bearer dummy".to_owned()),
    ];
    Some(Side { headers, process: Some(process), ..Side::at("Portkey", address) })
}

impl Side {
    pub(crate) fn at(name: &'static str, address: SocketAddr) -> Self {
        let (chat, messages) = ("/v1".to_owned(), "/v1".to_owned());
        let headers = vec![("authorization", "Bearer dummy".to_owned())];
        Self { name, address, chat, messages, headers, process: None }
    }

    /// The same side, without the process behind it.
    pub(crate) fn address_only(&self) -> Self {
        let (chat, messages) = (self.chat.clone(), self.messages.clone());
        Self { chat, messages, headers: self.headers.clone(), ..Self::at(self.name, self.address) }
    }

    pub(crate) fn path(&self, api: Api) -> String {
        match api {
            Api::Chat => format!("{}/chat/completions", self.chat),
            Api::Messages => format!("{}/messages", self.messages),
        }
    }

    /// Waits until it listens, and then asks it some things, so that it has loaded what it needs.
    pub(crate) async fn wait_for_it(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{} does not start", self.name);
            sleep(Duration::from_millis(100)).await;
        }
        let mut connection = Connection::open(self).await;
        let mut conversation = Conversation::of_length(Api::Chat, SMALL);
        for _ in 0..SMALL_TURNS {
            connection.ask(&conversation, conversation.body(false)).await;
            conversation.grow(20);
        }
    }
}

/// A program that knows nothing of this machine but where programs are.
pub(crate) fn clean(program: &Path, home: &TempDir) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", home.path()).current_dir(home).stdin(Stdio::null());
    command
}

pub(crate) fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A number that nobody guesses while the benchmark runs.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}

/// A process that ends with its side, and the folder that is its home.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) said: Option<BufReader<ChildStdout>>,
    pub(crate) _folder: TempDir,
}

impl Process {
    pub(crate) fn start(command: &mut Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let said = child.stdout.take().map(BufReader::new);
        Self { child, said, _folder: folder }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        self.status("VmRSS:")
    }

    pub(crate) fn most_resident_mb(&self) -> f64 {
        self.status("VmHWM:")
    }

    pub(crate) fn status(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection that is kept.
pub(crate) struct Connection {
    pub(crate) side: Side,
    pub(crate) sender: SendRequest<Full<Bytes>>,
}

/// When the first byte of an answer was there, and when the last.
pub(crate) struct Answered {
    pub(crate) first: Duration,
    pub(crate) whole: Duration,
}

impl Connection {
    pub(crate) async fn open(side: &Side) -> Self {
        Self { side: side.address_only(), sender: connect(side.address).await }
    }

    /// Sends this state of a conversation; what comes back must be the next step of it.
    pub(crate) async fn ask(&mut self, conversation: &Conversation, body: Bytes) -> Answered {
        if self.sender.ready().await.is_err() {
            self.sender = connect(self.side.address).await;
        }
        let mut request = Request::post(self.side.path(conversation.api))
            .header("host", self.side.address.to_string())
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01");
        for (name, value) in &self.side.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).unwrap();
        let begun = Instant::now();
        let response = self.sender.send_request(request).await.unwrap();
        let (head, mut body) = response.into_parts();
        let (mut first, mut said) = (None, Vec::new());
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap_or_default();
            if !data.is_empty() {
                first.get_or_insert_with(|| begun.elapsed());
            }
            said.extend_from_slice(&data);
        }
        let whole = begun.elapsed();
        let (said, next) = (String::from_utf8_lossy(&said), conversation.step.next().to_string());
        let name = self.side.name;
        assert!(head.status.is_success() && said.contains(&next), "{name}: {head:?} {said}");
        Answered { first: first.unwrap_or(whole), whole }
    }
}

pub(crate) async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}
