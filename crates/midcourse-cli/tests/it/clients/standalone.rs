//! `midcourse proxy`, started by hand.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A proxy that is up.
pub(crate) struct Proxy {
    child: Child,
    /// What it printed: names of variables, and where it is reached.
    variables: Vec<(String, String)>,
}

impl Proxy {
    /// Starts one in front of a model, with midcourse's data in a folder.
    pub(crate) fn start(model: SocketAddr, home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        // Time enough on a busy machine.
        command.args(["proxy", "--upstream", &format!("http://{model}"), "--budget-ms", "60000"]);
        command.env_clear().env("MIDCOURSE_HOME", home).current_dir("/");
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

    /// Where it is reached by those who look into a variable: the server, and the path there.
    pub(crate) fn address(&self, variable: &str) -> (SocketAddr, &str) {
        let (_, url) = self.variables.iter().find(|(name, _)| name == variable).unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let (server, path) = address.split_at(address.find('/').unwrap());
        (server.parse().unwrap(), path)
    }

    /// Lets it write what is left.
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
