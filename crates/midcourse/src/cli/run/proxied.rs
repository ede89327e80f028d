//! The proxy of a launch: a process of its own, for as long as the command runs.
//!
//! The socket is ours and is handed to it, so its address stays the same and nobody is refused while
//! it is started again. Where it cannot be started any more, we pass requests on ourselves and
//! record nothing. It is in a process group of its own: what the terminal sends is for the command.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use midcourse::{HOME_VARIABLE, Home, Host, Launch};

use crate::cli::proxy::{self, Upstreams};

/// How soon a proxy that dies has not got to work, and how often in a row that may be.
const SOON: Duration = Duration::from_secs(2);
const TRIES: usize = 3;

/// How long a proxy has to record what is left.
const FINISHING: Duration = Duration::from_secs(6);

/// Variables that send requests through a proxy of the user's, and those that make exceptions.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"];
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A proxy that is kept running.
pub(super) struct Proxied {
    address: SocketAddr,
    token: String,
    keeper: Arc<Keeper>,
}

struct Keeper {
    us: PathBuf,
    home: Home,
    launch: String,
    token: String,
    listener: TcpListener,
    child: Mutex<Option<Child>>,
    is_over: AtomicBool,
}

/// Whether a command is to have a proxy, unless the user says so.
pub(super) fn is_wanted(host: Option<Host>) -> bool {
    fn is_set(name: &&str) -> bool {
        std::env::var_os(name).is_some_and(|value| !value.is_empty())
    }
    match host {
        None => true,
        // With a login of its own it goes where it always goes.
        Some(Host::ClaudeCode) => {
            let elsewhere = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"];
            ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].iter().any(is_set)
                && !elsewhere.iter().any(is_set)
        }
        // It speaks an API that the proxy only passes on.
        Some(Host::Codex | Host::Demo) => false,
    }
}

impl Proxied {
    pub(super) fn start(home: &Home, launch: &Launch) -> Result<Self> {
        // What is wrong with the addresses is found here, where somebody reads it.
        let upstreams = Upstreams::find(&[], |name| std::env::var(name).ok())?;
        let listener = TcpListener::bind("127.0.0.1:0").context("no port can be had")?;
        let address = listener.local_addr()?;
        let token = proxy::new_token();
        let keeper = Arc::new(Keeper {
            us: std::env::current_exe()?,
            home: home.clone(),
            launch: launch.id.clone(),
            token: token.clone(),
            listener,
            child: Mutex::new(None),
            is_over: AtomicBool::new(false),
        });
        keeper.spawn()?;
        let kept = Arc::clone(&keeper);
        thread::Builder::new().spawn(move || kept.keep(upstreams))?;
        Ok(Self { address, token, keeper })
    }

    /// Points a command at the proxy.
    pub(super) fn put_into(&self, command: &mut Command) {
        for (variable, value) in proxy::variables(self.address, &self.token) {
            command.env(variable, &value);
            let (newer, older) = proxy::OLDER_NAME;
            if variable == newer && std::env::var_os(older).is_some() {
                command.env(older, value);
            }
        }
        // Else its requests to us would go through the user's proxy.
        if PROXIES.iter().any(|name| std::env::var_os(name).is_some()) {
            for name in EXCEPTIONS {
                let known = std::env::var(name).unwrap_or_default();
                let comma = if known.is_empty() { "" } else { "," };
                command.env(name, format!("{known}{comma}{}", self.address.ip()));
            }
        }
    }

    /// Lets it record what is left, and ends it.
    pub(super) fn stop(self) {
        self.keeper.is_over.store(true, Ordering::SeqCst);
        self.keeper.tell_to_stop();
        let begun = Instant::now();
        // It is the keeper who waits for it, and takes it away.
        while self.keeper.child().is_some() && begun.elapsed() < FINISHING {
            thread::sleep(Duration::from_millis(2));
        }
        if let Some(child) = self.keeper.child().as_mut() {
            let _ = child.kill();
        }
    }
}

impl Keeper {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self) -> io::Result<()> {
        let mut command = Command::new(&self.us);
        command
            .args(["proxy", "--inherited", "--launch", &self.launch])
            .env(proxy::TOKEN_VARIABLE, &self.token)
            .env(HOME_VARIABLE, self.home.folder())
            .stdin(handed_over(&self.listener)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        *self.child() = Some(command.spawn()?);
        Ok(())
    }

    /// Starts it again whenever it ends.
    fn keep(&self, upstreams: Upstreams) {
        let mut tries = 0;
        loop {
            let begun = Instant::now();
            self.wait();
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            tries = if begun.elapsed() < SOON { tries + 1 } else { 0 };
            if tries >= TRIES || self.spawn().is_err() {
                break;
            }
        }
        if let Ok(listener) = self.listener.try_clone() {
            proxy::pass_on(listener, self.token.clone(), upstreams, &self.home);
        }
    }

    /// Waits until it has ended. It is looked at again and again, because whoever stops it needs it,
    /// too.
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
    fn tell_to_stop(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = self.child().as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    #[cfg(not(unix))]
    fn tell_to_stop(&self) {
        if let Some(child) = self.child().as_mut() {
            let _ = child.kill();
        }
    }
}

/// The socket as somebody's standard input.
#[cfg(unix)]
fn handed_over(listener: &TcpListener) -> io::Result<Stdio> {
    Ok(std::os::fd::OwnedFd::from(listener.try_clone()?).into())
}

#[cfg(not(unix))]
fn handed_over(_: &TcpListener) -> io::Result<Stdio> {
    Err(io::Error::other("a socket cannot be handed over on this system"))
}
