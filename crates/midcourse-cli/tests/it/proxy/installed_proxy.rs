//! `midcourse proxy install`: the unit that it writes starts a proxy that works with the variables
//! that it prints.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::server::{Server, completion};

struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("my home").join(name)
    }

    fn unit(&self) -> PathBuf {
        self.file(".config/systemd/user/midcourse-proxy.service")
    }

    fn proxy(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.env_clear().env("HOME", self.file("")).env("MIDCOURSE_HOME", self.file("data"));
        command.arg("proxy").args(args).current_dir("/").stdin(Stdio::null()).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.proxy(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn error(&self, args: &[&str]) -> String {
        let output = self.proxy(args);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts what the unit starts.
    fn start(&self) -> Running {
        let unit = fs::read_to_string(self.unit()).unwrap();
        let words = |key: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            shlex::split(line).unwrap()
        };
        let words_of_command = words("ExecStart=");
        let variable = words("Environment=").remove(0);
        let (name, value) = variable.split_once('=').unwrap();
        let mut command = Command::new(&words_of_command[0]);
        command.args(&words_of_command[1..]).env_clear().env(name, value).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Running(command.spawn().unwrap())
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a chat request to a base URL and returns the status line of the response. Waits until the
/// proxy accepts connections.
fn post(url: &str) -> String {
    let (server, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let server: SocketAddr = server.parse().unwrap();
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(server) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::yield_now();
    };
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Do it."}]}"#;
    let head =
        format!("POST /{path}/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    response.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_installed_proxy_works_with_the_printed_variables_and_keeps_them() {
    let server = Server::of_json(|_| completion(Some("Done."), None));
    let user = User::new();
    let upstream = format!("openai=http://{}/v1", server.address);
    let args = ["install", "--upstream", &upstream, "--deadline", "2h", "--shadow"];
    let shown = user.ok(&[&args[..], &["--dry-run"]].concat());
    assert!(shown.starts_with("# Written by `midcourse proxy install`"), "{shown}");
    assert!(!user.unit().exists() && !user.file("data").exists());

    let output = user.ok(&args);
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with('#')).collect();
    let [line] = lines[..] else { panic!("one line for the one upstream: {output}") };
    let url = line.strip_prefix("export OPENAI_BASE_URL=").unwrap();
    assert!(url.ends_with(&format!("/openai-{}", server.address)), "{url}");
    let token = fs::read_to_string(user.file("data/proxy-token")).unwrap();
    assert!(url.contains(token.trim()));
    let unit = fs::read_to_string(user.unit()).unwrap();
    assert!(!unit.contains(token.trim()), "the token is not in the unit: {unit}");
    let mode = fs::metadata(user.file("data/proxy-token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let running = user.start();
    assert!(post(url).starts_with("HTTP/1.1 200 "));
    assert_eq!(server.received().len(), 1);
    let elsewhere = url.replace(&format!("openai-{}", server.address), "openai-api.openai.com");
    assert!(post(&elsewhere).contains("403"), "a URL for another server gets an error");
    assert!(post(&url.replace(token.trim(), "midcourse-wrong")).contains("403"));
    assert_eq!(server.received().len(), 1);
    drop(running);
    assert_eq!(user.ok(&args), output, "address and token stay");

    let output = user.ok(&["uninstall"]);
    assert!(output.contains("systemctl --user stop midcourse-proxy"), "{output}");
    for name in ["data/proxy-token", "data/proxy-address"] {
        assert!(!user.file(name).exists());
    }
    assert!(!user.unit().exists());
    assert!(user.ok(&["uninstall"]).contains("no proxy is installed"));
}

#[test]
fn what_cannot_be_installed_is_refused() {
    let user = User::new();
    assert!(user.error(&["install"]).contains("--upstream"));
    let error = user.error(&["install", "--upstream", "openai=https://me:secret@gate/v1"]);
    assert!(
        error.contains("leave user name and password out") && !error.contains("secret"),
        "{error}"
    );
    let error = user.error(&["install", "--upstream", "openai=gate"]);
    assert!(error.contains("invalid URL"), "{error}");
    fs::create_dir_all(user.unit().parent().unwrap()).unwrap();
    fs::write(user.unit(), "[Unit]\n").unwrap();
    let error = user.error(&["install", "--upstream", "openai=https://gate/v1"]);
    assert!(error.contains("has not written it"), "{error}");
    assert!(user.error(&["uninstall"]).contains("has not written it"));
    assert_eq!(fs::read_to_string(user.unit()).unwrap(), "[Unit]\n");
}
