//! A team with a people file and projects, and a server that runs.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::events::TempStore;
use crate::ui::Reply;

/// A people file, and the data directories that are served as projects.
pub(super) struct Team {
    pub(super) folder: tempfile::TempDir,
    projects: Vec<String>,
}

impl Team {
    pub(super) fn new(projects: &[(&str, &TempStore)]) -> Self {
        let projects = projects
            .iter()
            .map(|(name, store)| format!("{name}={}", store.data_dir().path().display()));
        Self { folder: tempfile::tempdir().unwrap(), projects: projects.collect() }
    }

    pub(super) fn people(&self) -> PathBuf {
        self.folder.path().join("people.toml")
    }

    /// Runs `midcourse serve COMMAND … --people FILE`, and returns what it prints.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .arg("serve")
            .args(arguments)
            .arg("--people")
            .arg(self.people())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Adds a person and returns the token.
    pub(super) fn add(&self, name: &str, projects: &[&str]) -> String {
        let projects = projects.iter().flat_map(|project| ["--project", project]);
        let arguments: Vec<&str> = ["add", name].into_iter().chain(projects).collect();
        self.run(&arguments).trim().to_owned()
    }

    /// `midcourse serve` for this team on a free port of 127.0.0.1.
    pub(super) fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.arg("serve").arg("--people").arg(self.people());
        for project in &self.projects {
            command.arg(format!("--local-project={project}"));
        }
        if !options.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(options).env("MIDCOURSE_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }
}

/// A server that runs.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    /// The port of `--metrics-listen`.
    pub(super) metrics_port: Option<u16>,
}

impl Server {
    pub(super) fn start(team: &Team, options: &[&str]) -> Self {
        let mut command = team.command(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut port = || {
            let mut line = String::new();
            printed.read_line(&mut line).unwrap();
            let port = line.trim().rsplit(':').next().and_then(|rest| rest.split('/').next());
            port.and_then(|port| port.parse().ok())
        };
        let listening = port();
        let metrics_port = if options.contains(&"--metrics-listen") { port() } else { None };
        Self { child, port: listening.unwrap_or_default(), metrics_port }
    }

    /// Kills the server, and returns its log.
    pub(super) fn stop(mut self) -> String {
        self.child.kill().unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }

    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server has ended by itself, and returns whether it reported success.
    pub(super) fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    pub(super) fn get(&self, path: &str, headers: &[&str]) -> Reply {
        self.get_at(&format!("127.0.0.1:{}", self.port), path, headers)
    }

    /// Asks for another name than that of the address.
    pub(super) fn get_at(&self, host: &str, path: &str, headers: &[&str]) -> Reply {
        let head = head("GET", path, host, headers);
        send(self.port, &format!("{head}\r\n"))
    }

    /// Sends a form as the own page does.
    pub(super) fn post(&self, path: &str, form: &str, headers: &[&str]) -> Reply {
        let origin = format!("origin: http://127.0.0.1:{}", self.port);
        let headers: Vec<&str> = headers.iter().copied().chain([origin.as_str()]).collect();
        self.post_exactly(path, form, &headers)
    }

    /// Sends a form with no other headers than these.
    pub(super) fn post_exactly(&self, path: &str, form: &str, headers: &[&str]) -> Reply {
        let host = format!("127.0.0.1:{}", self.port);
        send(self.port, &post_request(path, form, &host, headers))
    }

    pub(super) fn sign_in(&self, token: &str) -> Reply {
        self.post("/sign-in", &format!("token={token}"), &[])
    }

    /// Signs in, and returns the header line of the session.
    pub(super) fn session(&self, token: &str) -> String {
        format!("cookie: {}", self.sign_in(token).session())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn post_request(path: &str, form: &str, host: &str, headers: &[&str]) -> String {
    let kind = "content-type: application/x-www-form-urlencoded";
    let length = format!("content-length: {}", form.len());
    let headers: Vec<&str> = headers.iter().copied().chain([kind, length.as_str()]).collect();
    format!("{}\r\n{form}", head("POST", path, host, &headers))
}

pub(super) fn head(method: &str, path: &str, host: &str, headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}")
}

pub(super) fn send(port: u16, request: &str) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    // A server that refuses a body may close the connection before it has read all of it.
    let _ = stream.read_to_end(&mut text);
    Reply::parse(&String::from_utf8(text).unwrap())
}

/// A text as a part of a path, or as a value in a form.
pub(super) fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}
