//! The proxy that `midcourse run` starts: a separate process that runs as long as the command.
//!
//! `midcourse run` opens the listening socket and passes it to the proxy. So if the proxy dies and
//! is restarted, its address stays the same and no connection is refused. If the proxy cannot be
//! restarted, `midcourse run` forwards the requests itself, without recording. The proxy has a
//! process group of its own, so that signals from the terminal, which are meant for the command, do
//! not reach the proxy.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use midcourse::{DATA_DIR_VARIABLE, DataDir};

use crate::hosts::Host;
use crate::proxy::{self, Upstreams};

/// If the proxy ends within this time after its start, the start counts as failed.
const MIN_UPTIME: Duration = Duration::from_secs(2);

/// After this many failed starts in a row, the proxy is not restarted again.
const MAX_FAILED_STARTS: usize = 3;

/// How long the proxy may take to record the last requests when it is stopped. After that it is
/// killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// Environment variables that contain the address of the user's own HTTP proxy, if there is one.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"];

/// Environment variables that list the servers to reach without the user's HTTP proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxy for one command. `start` starts its process, which is then restarted whenever it ends,
/// until `stop` is called.
pub(super) struct Proxied {
    address: SocketAddr,
    supervisor: Arc<Supervisor>,
}

struct Supervisor {
    program: PathBuf,
    data_dir: DataDir,
    token: String,
    listener: TcpListener,
    upstreams: Upstreams,
    child: Mutex<Option<Child>>,
    is_stopping: AtomicBool,
    has_given_up: AtomicBool,
}

/// Whether a command gets a proxy if the user gives neither `--proxy` nor `--no-proxy`.
pub(super) fn is_default(host: Option<Host>) -> bool {
    // If the variables already contain the address of a midcourse proxy, this process was started
    // by another `midcourse run`, whose proxy is enough.
    let has_proxy = |(name, _, _): &(&str, &str, &str)| {
        std::env::var(name).is_ok_and(|url| proxy::is_proxy(&url))
    };
    if proxy::BASE_URLS.iter().any(has_proxy) {
        return false;
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    host.is_none_or(|host| host.uses_proxy(is_set))
}

impl Proxied {
    /// Opens the socket for the proxy, but does not start the proxy yet. Fails if an environment
    /// variable such as `OPENAI_BASE_URL` contains an address that the proxy cannot forward to.
    pub(super) fn prepare(data_dir: &DataDir) -> Result<Self> {
        let upstreams = Upstreams::find(&[], |name| std::env::var(name).ok())?;
        let listener =
            TcpListener::bind("127.0.0.1:0").context("cannot open a port on 127.0.0.1")?;
        as_stdin(&listener)?;
        let address = listener.local_addr()?;
        let supervisor = Arc::new(Supervisor {
            program: std::env::current_exe()?,
            data_dir: data_dir.clone(),
            token: proxy::new_token(),
            listener,
            upstreams,
            child: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
        });
        Ok(Self { address, supervisor })
    }

    /// Starts the proxy process, and a thread that restarts it whenever it ends.
    pub(super) fn start(&self, launch_id: &str) -> Result<()> {
        self.supervisor.spawn(launch_id)?;
        let (supervisor, launch_id) = (Arc::clone(&self.supervisor), launch_id.to_owned());
        thread::Builder::new().spawn(move || supervisor.supervise(&launch_id))?;
        Ok(())
    }

    /// Sets the environment variables that send a command's model requests to the proxy.
    pub(super) fn set_variables(&self, command: &mut Command) {
        let (newer, older) = proxy::BASE_URL_ALIAS;
        let is_set = |name| std::env::var_os(name).is_some();
        for (variable, value) in proxy::variables(self.address, &self.supervisor.token) {
            // Clients for Azure fail if AZURE_OPENAI_ENDPOINT and OPENAI_BASE_URL are both set. So
            // if only the first is set, do not set the second.
            if variable == newer && is_set("AZURE_OPENAI_ENDPOINT") && !is_set(newer) {
                continue;
            }
            command.env(variable, &value);
            if variable == newer && is_set(older) {
                command.env(older, value);
            }
        }
        // If the user has an HTTP proxy, requests to midcourse's proxy must not go through it.
        if PROXY_VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            let values = NO_PROXY_VARIABLES.map(|name| std::env::var(name).ok());
            // Some clients read NO_PROXY and others no_proxy, so set both to the same value.
            let value =
                values.into_iter().flatten().find(|value| !value.is_empty()).unwrap_or_default();
            for name in NO_PROXY_VARIABLES {
                let comma = if value.is_empty() { "" } else { "," };
                command.env(name, format!("{value}{comma}{}", self.address.ip()));
            }
        }
    }

    /// Stops the proxy, which first records the last requests. Returns false if the proxy had ended
    /// before and could not be restarted, so that later requests were not recorded.
    pub(super) fn stop(self) -> bool {
        self.supervisor.is_stopping.store(true, Ordering::SeqCst);
        self.supervisor.terminate();
        let begun = Instant::now();
        // The supervisor thread waits for the process to end and then clears `child`.
        while self.supervisor.child().is_some() && begun.elapsed() < STOP_TIMEOUT {
            thread::sleep(Duration::from_millis(2));
        }
        if let Some(child) = self.supervisor.child().as_mut() {
            let _ = child.kill();
        }
        !self.supervisor.has_given_up.load(Ordering::SeqCst)
    }
}

impl Supervisor {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, launch_id: &str) -> io::Result<()> {
        // Hold the lock until the process is started. Otherwise `stop` could run in between, find
        // no process to stop, and leave the new process running.
        let mut child = self.child();
        if self.is_stopping.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        command
            .args(["proxy", "--inherited", "--launch", launch_id])
            .env(proxy::TOKEN_VARIABLE, &self.token)
            .env(DATA_DIR_VARIABLE, self.data_dir.path())
            .stdin(as_stdin(&self.listener)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        *child = Some(command.spawn()?);
        Ok(())
    }

    /// Restarts the proxy whenever it ends. After too many failed starts, forwards the requests in
    /// this process instead, without recording them.
    fn supervise(&self, launch_id: &str) {
        let mut failed_starts = 0;
        loop {
            let begun = Instant::now();
            self.wait();
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            failed_starts = if begun.elapsed() < MIN_UPTIME { failed_starts + 1 } else { 0 };
            if failed_starts >= MAX_FAILED_STARTS || self.spawn(launch_id).is_err() {
                break;
            }
        }
        self.has_given_up.store(true, Ordering::SeqCst);
        if let Ok(listener) = self.listener.try_clone() {
            proxy::forward_only(
                listener,
                self.token.clone(),
                self.upstreams.clone(),
                &self.data_dir,
            );
        }
    }

    /// Waits until the proxy has ended. Checks this every 20 ms instead of blocking, because a
    /// blocking wait would hold the lock that `stop` needs.
    fn wait(&self) {
        loop {
            match self.child().as_mut().map(Child::try_wait) {
                Some(Ok(None)) => {}
                _ => break,
            }
            thread::sleep(Duration::from_millis(20));
        }
        *self.child() = None;
    }

    #[cfg(unix)]
    fn terminate(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = self.child().as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    #[cfg(not(unix))]
    fn terminate(&self) {
        if let Some(child) = self.child().as_mut() {
            let _ = child.kill();
        }
    }
}

/// A copy of the listening socket, to pass to the proxy as its standard input.
#[cfg(unix)]
fn as_stdin(listener: &TcpListener) -> io::Result<Stdio> {
    Ok(std::os::fd::OwnedFd::from(listener.try_clone()?).into())
}

#[cfg(not(unix))]
fn as_stdin(_: &TcpListener) -> io::Result<Stdio> {
    Err(io::Error::other("a socket cannot be passed to a process on this system"))
}
