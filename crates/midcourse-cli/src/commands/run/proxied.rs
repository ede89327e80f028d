//! The proxy of a launch, a separate process that runs as long as the command.
//!
//! `midcourse run` opens the listening socket and passes it to the proxy. So if the proxy dies and
//! is restarted, its address stays the same and no connection is refused. If the proxy cannot be
//! restarted, `midcourse run` forwards the requests itself, without recording. The proxy has its
//! own process group, because signals from the terminal are meant for the command.

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

/// A proxy that ends sooner than this counts as a failed start.
const MIN_UPTIME: Duration = Duration::from_secs(2);

/// After this many failed starts in a row, `midcourse run` stops restarting the proxy.
const MAX_FAILED_STARTS: usize = 3;

/// How long the proxy may take to record the last requests when it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// Environment variables that name the user's own HTTP proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"];

/// Environment variables that list the servers to reach without the user's HTTP proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A running proxy process, restarted whenever it dies.
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
    // Inside another `midcourse run`, the proxy of that run is enough.
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
    /// Opens the socket for the proxy. Fails if a model server named in the environment cannot be
    /// used.
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
            // Azure clients fail if AZURE_OPENAI_ENDPOINT and the base URL are both set.
            if variable == newer && is_set("AZURE_OPENAI_ENDPOINT") && !is_set(newer) {
                continue;
            }
            command.env(variable, &value);
            if variable == newer && is_set(older) {
                command.env(older, value);
            }
        }
        // Keep requests to midcourse's proxy from going through the user's HTTP proxy.
        if PROXY_VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            let values = NO_PROXY_VARIABLES.map(|name| std::env::var(name).ok());
            // Clients differ in which of the two variables they read, so both get the same value.
            let value =
                values.into_iter().flatten().find(|value| !value.is_empty()).unwrap_or_default();
            for name in NO_PROXY_VARIABLES {
                let comma = if value.is_empty() { "" } else { "," };
                command.env(name, format!("{value}{comma}{}", self.address.ip()));
            }
        }
    }

    /// Stops the proxy after it has recorded the last requests. Returns false if the proxy had
    /// failed before and could not be restarted.
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
        // Hold the lock until the process is started, so that `stop` cannot overlook it.
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

    /// Restarts the proxy whenever it ends.
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

    /// Waits until the proxy has ended. Polls, so that the lock is free for `stop` in between.
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

/// The socket, for use as the standard input of the proxy.
#[cfg(unix)]
fn as_stdin(listener: &TcpListener) -> io::Result<Stdio> {
    Ok(std::os::fd::OwnedFd::from(listener.try_clone()?).into())
}

#[cfg(not(unix))]
fn as_stdin(_: &TcpListener) -> io::Result<Stdio> {
    Err(io::Error::other("a socket cannot be passed to a process on this system"))
}
