//! The routes to the model that the benchmark compares: directly, through `midcourse proxy`, and
//! through the proxies LiteLLM and Portkey.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use crate::conversation::{Api, Conversation};
use crate::stub::Stub;
use crate::{SMALL_BYTES, SMALL_TURNS};

/// A way to the model: directly, or through one of the proxies that are compared.
pub(crate) struct Route {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// The URL path before `/chat/completions`.
    pub(crate) chat: String,
    /// The URL path before `/messages`.
    pub(crate) messages: String,
    /// Appended to the path. midcourse forwards paths that it does not know without reading them.
    pub(crate) suffix: &'static str,
    pub(crate) tls: Option<Tls>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) process: Option<Process>,
}

/// How a client reaches the stub over TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    /// For a route through midcourse: the request with which the client asks midcourse to connect
    /// it to the stub.
    pub(crate) connect: Option<String>,
}

/// Starts all proxies that are installed, and warms them up with some requests.
pub(crate) async fn routes(stub: &Stub) -> Vec<Route> {
    let mut routes = vec![Route::at("direct", stub.address)];
    if let Some(midcourse) = midcourse(stub) {
        let unread = Route { name: "unread", suffix: "/unread", ..midcourse.address_only() };
        routes.push(midcourse);
        routes.push(unread);
    }
    routes.extend(litellm(stub));
    routes.extend(portkey(stub));
    for route in &routes {
        route.warm_up().await;
    }
    routes
}

/// The routes over TLS: directly, and through the proxy of `midcourse run --proxy=intercept`.
pub(crate) async fn tls_routes(stub: &Stub) -> Vec<Route> {
    let tls = Tls { connector: connector(stub.authority.as_bytes()), connect: None };
    let mut routes = vec![Route { tls: Some(tls), ..Route::at("direct", stub.tls_address) }];
    routes.extend(intercepted(stub));
    for route in &routes {
        route.warm_up().await;
    }
    routes
}

fn connector(authorities: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authorities).flatten());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Starts `midcourse run` with a shell that prints the address of midcourse's proxy and the file
/// with the certificates that it trusts, and then waits.
fn intercepted(stub: &Stub) -> Option<Route> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = isolated(Path::new(&binary()?), &folder);
    let (authority, config) = (folder.path().join("stub.pem"), folder.path().join("config.toml"));
    let host = format!("localhost:{}", stub.tls_address.port());
    std::fs::write(&authority, &stub.authority).unwrap();
    std::fs::write(&config, format!("[proxy]\nmodel_hosts = [\"{host}\"]\n")).unwrap();
    command
        .env("MIDCOURSE_HOME", folder.path().join("midcourse"))
        .env("SSL_CERT_FILE", authority)
        .args(["run", "--proxy=intercept", "--config"])
        .arg(config)
        .args(["--", "sh", "-c", r#"echo "$HTTPS_PROXY"; echo "$SSL_CERT_FILE"; cat"#])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = Process::start(&mut command, folder);
    let (proxy, roots) = (process.line(), process.line());
    let (credentials, address) =
        proxy.trim().trim_start_matches("http://").split_once('@').unwrap();
    let connector = connector(&std::fs::read(roots.trim()).unwrap());
    let connect = format!(
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {}\r\n\r\n",
        BASE64_STANDARD.encode(credentials)
    );
    let tls = Some(Tls { connector, connect: Some(connect) });
    let address = address.trim_end_matches('/').parse().unwrap();
    Some(Route { tls, process: Some(process), ..Route::at("midcourse", address) })
}

fn binary() -> Option<String> {
    let binary = std::env::var("MIDCOURSE_BENCH_BINARY").ok();
    let binary = binary.or(option_env!("CARGO_BIN_EXE_midcourse").map(str::to_owned));
    if binary.is_none() {
        println!("skipping midcourse: there is no binary");
    }
    binary
}

pub(crate) fn midcourse(stub: &Stub) -> Option<Route> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = isolated(Path::new(&binary()?), &folder);
    command.env("MIDCOURSE_HOME", folder.path().join("midcourse"));
    command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream", &stub.url()]);
    let mut process = Process::start(command.stdout(Stdio::piped()), folder);
    let (anthropic, openai) = (process.line(), process.line());
    let (address, messages) = base_url(&anthropic, "export ANTHROPIC_BASE_URL=http://");
    let (_, chat) = base_url(&openai, "export OPENAI_BASE_URL=http://");
    // The base URL for OpenAI includes `/v1`, the one for Anthropic does not.
    let route = Route::at("midcourse", address);
    Some(Route { chat, messages: format!("{messages}/v1"), process: Some(process), ..route })
}

/// The address and the path of the URL in a line that `midcourse proxy` printed. The line begins
/// with `prefix`.
pub(crate) fn base_url(line: &str, prefix: &str) -> (SocketAddr, String) {
    assert!(line.starts_with(prefix), "midcourse printed {line:?}");
    let (address, path) = line.trim().trim_start_matches(prefix).split_once('/').unwrap();
    (address.parse().unwrap(), format!("/{path}"))
}

/// LiteLLM, configured to be as fast as its documentation allows: no database, callbacks, retries
/// or log.
pub(crate) fn litellm(stub: &Stub) -> Option<Route> {
    let Some(environment) = std::env::var_os("MIDCOURSE_LITELLM") else {
        println!("skipping LiteLLM: MIDCOURSE_LITELLM is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    // The file has to be YAML; JSON is valid YAML.
    let model = json!({"model": "openai/stub", "api_base": format!("{}/v1", stub.url()),
        "api_key": "dummy"});
    let settings = json!({
        "model_list": [{"model_name": "stub", "litellm_params": model}],
        "litellm_settings": {"callbacks": [], "num_retries": 0, "request_timeout": 30},
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
    });
    std::fs::write(&config, settings.to_string()).unwrap();
    // LiteLLM does not start without a key, so it gets a random one.
    let key = format!("sk-{:032x}{:032x}", random(), random());
    let address = free_address();
    let mut command = isolated(&PathBuf::from(environment).join("bin/litellm"), &folder);
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
    Some(Route { headers, process: Some(process), ..Route::at("LiteLLM", address) })
}

pub(crate) fn portkey(stub: &Stub) -> Option<Route> {
    let Some(installed) = std::env::var_os("MIDCOURSE_PORTKEY") else {
        println!("skipping Portkey: MIDCOURSE_PORTKEY is not set");
        return None;
    };
    // Portkey listens on all network interfaces and has no option to change that. This code, which
    // Node loads first, makes it listen on 127.0.0.1 only.
    let loopback = "data:text/javascript,import net from 'node:net';\
        const listen = net.Server.prototype.listen;\
        net.Server.prototype.listen = function (port, ...more) {\
        return listen.call(this, port, '127.0.0.1', ...more.filter(it => it instanceof Function)) }";
    let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
    let mut command = isolated(Path::new("node"), &folder);
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
    Some(Route { headers, process: Some(process), ..Route::at("Portkey", address) })
}

impl Route {
    pub(crate) fn at(name: &'static str, address: SocketAddr) -> Self {
        let (chat, messages) = ("/v1".to_owned(), "/v1".to_owned());
        let headers = vec![("authorization", "Bearer dummy".to_owned())];
        Self { name, address, chat, messages, suffix: "", tls: None, headers, process: None }
    }

    /// A copy without the proxy's process. Dropping the copy does not kill the process.
    pub(crate) fn address_only(&self) -> Self {
        let (chat, messages) = (self.chat.clone(), self.messages.clone());
        let headers = self.headers.clone();
        let (suffix, tls) = (self.suffix, self.tls.clone());
        Self { chat, messages, suffix, tls, headers, ..Self::at(self.name, self.address) }
    }

    pub(crate) fn path(&self, api: Api) -> String {
        let path = match api {
            Api::Chat => format!("{}/chat/completions", self.chat),
            Api::Messages => format!("{}/messages", self.messages),
        };
        path + self.suffix
    }

    /// Waits until the route accepts connections, then warms it up with some requests.
    pub(crate) async fn warm_up(&self) {
        let start = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            assert!(start.elapsed() < Duration::from_secs(120), "{} does not start", self.name);
            sleep(Duration::from_millis(100)).await;
        }
        let mut connection = Connection::open(self).await;
        let mut conversation = Conversation::of_length(Api::Chat, SMALL_BYTES);
        for _ in 0..SMALL_TURNS {
            connection.send(&conversation, conversation.body(false)).await;
            conversation.grow(20);
        }
    }
}

/// A command that inherits only `PATH` from this process's environment. Its home folder and working
/// directory are `home`.
pub(crate) fn isolated(program: &Path, home: &TempDir) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", home.path()).current_dir(home).stdin(Stdio::null());
    command
}

pub(crate) fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}

/// The process of a proxy and its temporary home folder. Dropping this kills the process.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
    pub(crate) _folder: TempDir,
}

impl Process {
    pub(crate) fn start(command: &mut Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout, _folder: folder }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        self.status("VmRSS:")
    }

    pub(crate) fn peak_resident_mb(&self) -> f64 {
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

/// A connection to a route. It is used for many requests; if it was closed, `send` opens a new one.
pub(crate) struct Connection {
    pub(crate) route: Route,
    pub(crate) sender: SendRequest<Full<Bytes>>,
}

/// The time from sending a request to the first and to the last byte of its response.
pub(crate) struct Timing {
    pub(crate) first_byte: Duration,
    pub(crate) last_byte: Duration,
}

impl Connection {
    pub(crate) async fn open(route: &Route) -> Self {
        Self { route: route.address_only(), sender: connect(route).await }
    }

    /// Sends a request. Fails unless the response contains the conversation's next step.
    pub(crate) async fn send(&mut self, conversation: &Conversation, body: Bytes) -> Timing {
        if self.sender.ready().await.is_err() {
            self.sender = connect(&self.route).await;
        }
        let mut request = Request::post(self.route.path(conversation.api))
            .header("host", self.route.address.to_string())
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01");
        for (name, value) in &self.route.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).unwrap();
        let start = Instant::now();
        let response = self.sender.send_request(request).await.unwrap();
        let (head, mut body) = response.into_parts();
        let (mut first_byte, mut text) = (None, Vec::new());
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap_or_default();
            if !data.is_empty() {
                first_byte.get_or_insert_with(|| start.elapsed());
            }
            text.extend_from_slice(&data);
        }
        let last_byte = start.elapsed();
        let (text, next) = (String::from_utf8_lossy(&text), conversation.step.next().to_string());
        let name = self.route.name;
        assert!(head.status.is_success() && text.contains(&next), "{name}: {head:?} {text}");
        Timing { first_byte: first_byte.unwrap_or(last_byte), last_byte }
    }
}

async fn connect(route: &Route) -> SendRequest<Full<Bytes>> {
    let mut stream = TcpStream::connect(route.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let Some(Tls { connector, connect }) = &route.tls else { return handshake(stream).await };
    if let Some(connect) = connect {
        stream.write_all(connect.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            response.push(stream.read_u8().await.unwrap());
        }
        assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
    }
    let name = ServerName::try_from("localhost").unwrap();
    handshake(connector.connect(name, stream).await.unwrap()).await
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> SendRequest<Full<Bytes>> {
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}
