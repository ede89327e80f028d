//! `midcourse proxy`, started without `midcourse run`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Proxy {
    child: Child,
    /// The environment variables that the proxy printed for agents: names and the proxy's URLs.
    variables: Vec<(String, String)>,
}

impl Proxy {
    /// Starts a proxy that forwards to the server `model` and records into `data_dir`.
    pub(crate) fn start(model: SocketAddr, data_dir: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        // The proxy holds a request back until its messages are ready, for at most this long. A
        // minute is enough even on a busy machine, so the tests find each message where it belongs.
        command.args(["proxy", "--upstream", &format!("http://{model}"), "--max-wait-ms", "60000"]);
        command.env_clear().env("MIDCOURSE_HOME", data_dir).current_dir("/");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let variables = [(); 2].map(|()| {
            let line = lines.next().unwrap().unwrap();
            let (name, value) = line.strip_prefix("export ").unwrap().split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        });
        Self { child, variables: variables.into() }
    }

    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// The socket address and the path of the URL in one of the printed variables.
    pub(crate) fn address(&self, variable: &str) -> (SocketAddr, &str) {
        let (_, url) = self.variables.iter().find(|(name, _)| name == variable).unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let (server, path) = address.split_at(address.find('/').unwrap());
        (server.parse().unwrap(), path)
    }

    /// Asks the proxy to stop and waits until it has stored everything and ended.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
