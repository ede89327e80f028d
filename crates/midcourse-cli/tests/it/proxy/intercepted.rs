//! `midcourse run --proxy=intercept`: the command connects to the same hosts as without midcourse,
//! but through midcourse's proxy. The proxy opens (decrypts) connections to model APIs and tunnels
//! all others, that is, passes them on unread.
//!
//! The command in these tests is a shell that prints its environment variables. The test takes the
//! proxy's URL and the trusted certificates from them, and plays the client itself.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::server::completion;
use super::world::{Behaviour, Connection, World, client_config, json_response};
use super::{Chat, command, deliveries, log, runs};

pub(super) const HOST: &str = "api.openai.com";

/// A command that runs under `midcourse run` until the test ends it.
pub(super) struct Session {
    child: Child,
    folder: TempDir,
    variables: HashMap<String, String>,
}

/// A shell script that prints its environment variables, waits for the end of its input, and then
/// runs `script`.
pub(super) fn shell(script: &str) -> String {
    format!("env; echo END; cat >/dev/null; {script}")
}

impl Session {
    pub(super) fn start(world: &World) -> Self {
        Self::start_at(world.proxy, &world.authority())
    }

    /// Starts a command whose connections go to this corporate proxy and its authority.
    pub(super) fn start_at(proxy: SocketAddr, authority: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::spawn(proxy, authority, folder, &["--proxy=intercept"], &shell(":"), |_| {})
    }

    pub(super) fn start_with(
        world: &World,
        folder: TempDir,
        options: &[&str],
        script: &str,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        Self::spawn(world.proxy, &world.authority(), folder, options, script, change)
    }

    fn spawn(
        proxy: SocketAddr,
        authority: &Path,
        folder: TempDir,
        options: &[&str],
        script: &str,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut run = command(&folder);
        run.arg("run")
            .args(options)
            .args(["--", "sh", "-c", script])
            .env("HTTPS_PROXY", format!("http://{proxy}"))
            .env("SSL_CERT_FILE", authority)
            // The proxy holds a request back until its messages are ready, for at most this long. A
            // minute is enough even on a busy machine.
            .env("MIDCOURSE_PROXY_MAX_WAIT_MS", "60000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut run);
        let mut child = run.spawn().unwrap();
        let mut variables = HashMap::new();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        while let Some(line) = lines.next().map(Result::unwrap).filter(|line| line != "END") {
            if let Some((name, value)) = line.split_once('=') {
                variables.insert(name.to_owned(), value.to_owned());
            }
        }
        Self { child, folder, variables }
    }

    pub(super) fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    pub(super) fn roots(&self) -> PathBuf {
        self.variable("SSL_CERT_FILE").into()
    }

    pub(super) fn proxy(&self) -> &str {
        self.variable("HTTPS_PROXY")
    }

    /// Connects to `host` as the command would: through the proxy and with the trusted certificates
    /// that its environment variables name.
    pub(super) fn open(&self, host: &str) -> Connection {
        Connection::open(self.proxy(), host, &self.roots()).unwrap()
    }

    /// The process id of `midcourse run`.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The process id of the proxy: the child of `midcourse run` that is called `midcourse` too.
    fn proxy_process(&self) -> String {
        let parent = self.child.id().to_string();
        let children = Command::new("pgrep").args(["-P", &parent, "midcourse"]).output().unwrap();
        String::from_utf8(children.stdout).unwrap().trim().to_owned()
    }

    /// Ends the command. Returns the folder, the exit code and the standard error of `run`.
    pub(super) fn end(mut self) -> (TempDir, Option<i32>, String) {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        (self.folder, output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

pub(super) fn ordinary() -> World {
    World::start(Behaviour::Ordinary, |_, _| json_response(&completion(Some("ok"), None)))
}

#[test]
fn the_command_asks_the_same_host_with_the_same_bytes() {
    let world = ordinary();
    let session = Session::start(&world);
    let mut client = session.open(HOST);
    assert!(client.is_signed_by("midcourse run"));
    let body = Chat::new("go").body().to_string();
    for path in ["/v1/chat/completions?x=1", "/v1/files"] {
        let (head, text) = client.post(path, &body);
        assert!(head.starts_with("HTTP/1.1 200 Fine\r\n"), "{head}");
        assert!(head.contains("\r\nX-Odd-Case: kept\r\n"), "{head}");
        assert_eq!(text, completion(Some("ok"), None).to_string());
        let asked = world.asked();
        let last = asked.last().unwrap();
        assert_eq!((last.host.as_str(), last.body.as_slice()), (HOST, body.as_bytes()));
        let expected = format!(
            "POST {path} HTTP/1.1\r\nHost: {HOST}\r\nauthorization: Bearer K\r\nX-Client: odd\r\n\
             Connection: keep-alive\r\nContent-Type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        assert_eq!(last.head, expected);
    }
    assert_eq!(
        world.connects(),
        [format!("{HOST}:443")],
        "one connection for each of the client's"
    );
    drop(client);
    let (folder, code, err) = session.end();
    assert_eq!(code, Some(0));
    let runs = runs(&folder);
    assert_eq!(runs.len(), 1, "{err}");
    for file in std::fs::read_dir(folder.path().join("midcourse")).unwrap().flatten() {
        let stored = std::fs::read(file.path()).unwrap_or_default();
        assert!(!stored.windows(8).any(|bytes| bytes == b"Bearer K"), "{}", file.path().display());
    }
}

#[test]
fn no_address_changes_and_other_variables_are_kept() {
    let world = ordinary();
    let session = Session::start_with(
        &world,
        tempfile::tempdir().unwrap(),
        &["--proxy=intercept"],
        &shell(":"),
        |run| {
            run.env("NO_PROXY", "intra.example").env("HTTP_PROXY", "http://plain.example:1");
            run.env("PIP_CERT", world.authority()).env_remove("SSL_CERT_FILE");
            run.env("NODE_EXTRA_CA_CERTS", world.authority());
        },
    );
    assert_eq!(session.variable("OPENAI_BASE_URL"), "");
    assert_eq!(session.variable("ANTHROPIC_BASE_URL"), "");
    assert_eq!(session.variable("HTTP_PROXY"), "http://plain.example:1");
    assert_eq!(session.variable("http_proxy"), "");
    assert_eq!(session.proxy(), session.variable("https_proxy"));
    for name in ["NO_PROXY", "no_proxy"] {
        assert_eq!(session.variable(name), "intra.example,localhost,127.0.0.1,::1");
    }
    let corporate = std::fs::read_to_string(world.authority()).unwrap();
    for name in ["PIP_CERT", "NODE_EXTRA_CA_CERTS"] {
        let file = std::fs::read_to_string(session.variable(name)).unwrap();
        assert!(file.starts_with(corporate.trim_end()), "{name}: {file}");
        assert!(file.len() > corporate.len() + 100, "{name} has midcourse's authority too");
    }
    assert_eq!(session.variable("AWS_CA_BUNDLE"), "");
    assert_eq!(session.end().1, Some(0));
}

#[test]
fn other_hosts_are_tunnelled_blindly() {
    let world = ordinary();
    let session = Session::start(&world);
    for host in ["github.com", "api.openai.com.evil.example", "chatgpt.com"] {
        let mut client = session.open(host);
        assert!(client.is_signed_by("corporate"), "{host}");
        client.post("/v1/chat/completions", "{}");
        assert_eq!(world.asked().last().unwrap().host, host);
    }
    let (_, code, err) = session.end();
    assert_eq!(code, Some(0));
    assert!(err.contains("nothing was recorded") && err.contains("1 to github.com"), "{err}");
}

#[test]
fn the_user_can_add_a_model_host() {
    let world = ordinary();
    let folder = super::configured("[proxy]\nmodel_hosts = ['gateway.example']\n");
    let session = Session::start_with(&world, folder, &["--proxy=intercept"], &shell(":"), |_| {});
    let mut client = session.open("gateway.example");
    assert!(client.is_signed_by("midcourse run"));
    client.chat(&Chat::new("go").body());
    drop(client);
    let (folder, ..) = session.end();
    assert_eq!(runs(&folder).len(), 1);
}

#[test]
fn a_host_that_cannot_be_opened_is_tunnelled() {
    for behaviour in [Behaviour::Untrusted, Behaviour::AsksForCertificate] {
        let world = World::start(behaviour, |_, _| json_response(&json!({})));
        let session = Session::start(&world);
        let opened = Connection::open(session.proxy(), HOST, &session.roots());
        match behaviour {
            // The connection is tunnelled, so the client sees the server's own certificate and
            // rejects it, as it would without midcourse.
            Behaviour::Untrusted => assert!(opened.is_err()),
            _ => {
                let mut client = opened.unwrap();
                assert!(client.is_signed_by("corporate"));
                client.chat(&Chat::new("go").body());
                assert_eq!(world.asked().len(), 1);
            }
        }
        let (_, code, err) = session.end();
        assert_eq!(code, Some(0));
        assert!(err.contains("passed unread") && err.contains(HOST), "{err}");
    }
}

#[test]
fn a_client_that_refuses_the_certificate_is_left_alone_from_then_on() {
    let world = ordinary();
    let session = Session::start(&world);
    let pinned = world.authority();
    assert!(Connection::open(session.proxy(), HOST, &pinned).is_err());
    // The proxy may notice the refusal only after the next connection has begun, so the test tries
    // again until a connection is tunnelled.
    let mut client = loop {
        match Connection::open(session.proxy(), HOST, &pinned) {
            Ok(client) => break client,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(client.is_signed_by("corporate"));
    client.chat(&Chat::new("go").body());
    drop(client);
    let (folder, _, err) = session.end();
    assert!(err.contains("does not trust midcourse's certificate"), "{err}");
    let remembered = folder.path().join("midcourse/refused-certificates.json");
    assert_eq!(std::fs::read_to_string(remembered).unwrap(), "[\"sh\"]");
    let run = command(&folder).args(["run", "--", "sh", "-c", "true"]).output().unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    assert!(err.contains("it refused midcourse's certificate before"), "{err}");
}

#[test]
fn a_program_that_the_agent_starts_may_refuse_the_certificate() {
    let world = ordinary();
    let session = Session::start(&world);
    session.open(HOST).chat(&Chat::new("go").body());
    // The other program offers other protocols, so it is told apart from the agent.
    let other = || {
        let config = client_config(&world.authority(), &[b"http/1.1"]);
        Connection::open_with(session.proxy(), HOST, config)
    };
    assert!(other().is_err());
    let mut client = loop {
        match other() {
            Ok(client) => break client,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(client.is_signed_by("corporate"));
    client.post("/v1/models", "{}");
    let mut agent = session.open(HOST);
    assert!(agent.is_signed_by("midcourse run"), "the agent is still recorded");
    agent.chat(&Chat::new("go on").body());
    drop((client, agent));
    let (folder, _, err) = session.end();
    assert_eq!(runs(&folder).len(), 2, "{err}");
    assert!(!folder.path().join("midcourse/refused-certificates.json").exists());
}

#[test]
fn a_client_that_checks_the_certificate_late_works_from_its_second_connection_on() {
    let world = ordinary();
    let session = Session::start(&world);
    // The client completes the handshake, then looks at the certificate and hangs up without having
    // sent a request.
    drop(session.open(HOST));
    let mut client = loop {
        let client = session.open(HOST);
        if client.is_signed_by("corporate") {
            break client;
        }
    };
    client.chat(&Chat::new("go").body());
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn only_the_token_opens_the_port() {
    let world = ordinary();
    let session = Session::start(&world);
    let address = session.proxy().rsplit('@').next().unwrap();
    for host in [HOST, "github.com"] {
        for credentials in ["", "midcourse:wrong@", "midcourse:@"] {
            let url = format!("http://{credentials}{address}");
            assert_eq!(Connection::tunnel(&url, host).0, 407, "{credentials} {host}");
        }
    }
    assert_eq!(world.connects(), [""; 0]);
}

#[test]
fn guidance_is_in_one_request_and_leaves_every_other_byte_alone() {
    let world = ordinary();
    let session = Session::start(&world);
    let mut client = session.open(HOST);
    let mut chat = Chat::new("go");
    let mut sent = Vec::new();
    for number in 0..6 {
        sent.push(chat.body().to_string());
        client.chat(&chat.body());
        chat.call(&format!("c{number}"), "make", "make: *** No rule to make target. Exit code 2");
    }
    let received: Vec<String> =
        world.asked().iter().map(|it| String::from_utf8(it.body.clone()).unwrap()).collect();
    let changed: Vec<usize> = (0..6).filter(|n| received[*n] != sent[*n]).collect();
    let [first] = changed.as_slice() else { panic!("changed: {changed:?}") };
    assert!(received[*first].contains("[midcourse run monitor]"));
    drop(client);
    let (folder, ..) = session.end();
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!(deliveries(run).len(), 1);
}

#[test]
fn tunnels_survive_the_death_of_the_proxy_and_opened_hosts_work_again() {
    let world = ordinary();
    let session = Session::start(&world);
    let mut tunnelled = session.open("github.com");
    tunnelled.post("/one", "{}");
    let mut opened = session.open(HOST);
    opened.chat(&Chat::new("go").body());
    let proxy = session.proxy_process();
    assert!(Command::new("kill").args(["-9", &proxy]).status().unwrap().success());
    tunnelled.post("/two", "{}");
    let mut again = session.open(HOST);
    assert!(again.is_signed_by("midcourse run"), "with the same authority");
    again.chat(&Chat::new("go on").body());
    assert_ne!(session.proxy_process(), proxy);
    drop((tunnelled, opened, again));
    let (folder, code, err) = session.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(!runs(&folder).is_empty(), "{}", log(&folder));
}

#[test]
fn model_hosts_are_tunnelled_if_the_proxy_keeps_dying() {
    let world = ordinary();
    let session = Session::start_with(
        &world,
        tempfile::tempdir().unwrap(),
        &["--proxy=intercept"],
        &shell(":"),
        |run| {
            run.env("MIDCOURSE_PROXY_RESTART_PAUSE_MS", "60000");
        },
    );
    let mut killed = String::new();
    for _ in 0..3 {
        let mut process = session.proxy_process();
        while process.is_empty() || process == killed {
            process = session.proxy_process();
        }
        assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
        killed = process;
    }
    let mut opened = session.open(HOST);
    assert!(opened.is_signed_by("corporate"), "the host's own certificate");
    opened.chat(&Chat::new("go").body());
    assert_eq!(world.asked().len(), 1);
    drop(opened);
    let (_, code, err) = session.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("the proxy stopped early"), "{err}");
}

#[test]
fn a_process_that_outlives_the_command_keeps_its_connections() {
    let world = ordinary();
    let folder = tempfile::tempdir().unwrap();
    // When the command ends, it leaves a background process that runs until this file exists.
    let done = folder.path().join("done");
    let background = format!("(until [ -e {} ]; do sleep 0.05; done) >&- 2>&- &", done.display());
    let session = Session::start_with(
        &world,
        folder,
        &["--proxy=intercept"],
        &shell(&format!("{background} exit 4")),
        |_| {},
    );
    let (url, roots, process) =
        (session.proxy().to_owned(), session.roots(), session.proxy_process());
    let mut open_before = Connection::open(&url, "github.com", &roots).unwrap();
    open_before.post("/one", "{}");
    let (folder, code, _) = session.end();
    assert_eq!(code, Some(4));
    open_before.post("/two", "{}");
    // The command has ended, so nothing more is recorded: connections to model hosts are now
    // tunnelled too.
    let mut later = Connection::open(&url, HOST, &roots).unwrap();
    assert!(later.is_signed_by("corporate"));
    later.chat(&Chat::new("go").body());
    assert_eq!(world.asked().len(), 3);
    drop((open_before, later));
    std::fs::write(done, "").unwrap();
    // The proxy ends when no process that the command started is left.
    while std::path::Path::new(&format!("/proc/{process}")).exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(runs(&folder).len(), 0);
}

#[test]
fn an_unreachable_host_is_an_error_of_the_proxy_and_nothing_else() {
    let world = ordinary();
    let session = Session::start_with(
        &world,
        tempfile::tempdir().unwrap(),
        &["--proxy=intercept"],
        &shell(":"),
        |run| {
            run.env("HTTPS_PROXY", "http://127.0.0.1:1");
        },
    );
    for host in [HOST, "github.com"] {
        assert_eq!(Connection::tunnel(session.proxy(), host).0, 502);
    }
    let (status, mut stream) = Connection::tunnel(session.proxy(), "github.com");
    assert_eq!(status, 502);
    let _ = stream.write_all(b"x");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    assert_eq!(session.end().1, Some(0));
}
