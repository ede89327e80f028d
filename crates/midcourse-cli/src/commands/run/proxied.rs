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

use crate::hosts::Host;
use crate::launch::Launch;
use anyhow::{Context as _, Result};
use midcourse::{DATA_DIR_VARIABLE, DataDir};

use crate::proxy::{self, Upstreams};

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
    keeper: Arc<Keeper>,
}

struct Keeper {
    us: PathBuf,
    home: DataDir,
    token: String,
    listener: TcpListener,
    upstreams: Upstreams,
    child: Mutex<Option<Child>>,
    is_over: AtomicBool,
    is_given_up: AtomicBool,
}

/// Whether a command is to have a proxy, unless the user says so.
pub(super) fn is_wanted(host: Option<Host>) -> bool {
    fn is_set(name: &&str) -> bool {
        std::env::var_os(name).is_some_and(|value| !value.is_empty())
    }
    // One proxy is enough.
    let is_proxied = |(name, _, _): &(&str, &str, &str)| {
        std::env::var(name).is_ok_and(|url| proxy::is_proxy(&url))
    };
    if proxy::ADDRESSES.iter().any(is_proxied) {
        return false;
    }
    match host {
        None => true,
        // With a login of its own it goes where it always goes.
        Some(Host::ClaudeCode) => {
            let elsewhere =
                ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
            ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].iter().any(is_set)
                && !elsewhere.iter().any(is_set)
        }
        // It speaks an API that the proxy only passes on.
        Some(Host::Codex | Host::Demo) => false,
    }
}

impl Proxied {
    /// Has everything ready that can fail for the user's reasons.
    pub(super) fn prepare(home: &DataDir) -> Result<Self> {
        let upstreams = Upstreams::find(&[], |name| std::env::var(name).ok())?;
        let listener = TcpListener::bind("127.0.0.1:0").context("no port can be had")?;
        handed_over(&listener)?;
        let address = listener.local_addr()?;
        let keeper = Arc::new(Keeper {
            us: std::env::current_exe()?,
            home: home.clone(),
            token: proxy::new_token(),
            listener,
            upstreams,
            child: Mutex::new(None),
            is_over: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
        });
        Ok(Self { address, keeper })
    }

    /// Starts it, on the terms of a launch.
    pub(super) fn start(&self, launch: &Launch) -> Result<()> {
        self.keeper.spawn(&launch.id)?;
        let (keeper, launch) = (Arc::clone(&self.keeper), launch.id.clone());
        thread::Builder::new().spawn(move || keeper.keep(&launch))?;
        Ok(())
    }

    /// Points a command at the proxy.
    pub(super) fn put_into(&self, command: &mut Command) {
        let (newer, older) = proxy::OLDER_NAME;
        let is_set = |name| std::env::var_os(name).is_some();
        for (variable, value) in proxy::variables(self.address, &self.keeper.token) {
            // Clients of Azure refuse to have two addresses.
            if variable == newer && is_set("AZURE_OPENAI_ENDPOINT") && !is_set(newer) {
                continue;
            }
            command.env(variable, &value);
            if variable == newer && is_set(older) {
                command.env(older, value);
            }
        }
        // Else its requests to us would go through the user's proxy.
        if PROXIES.iter().any(|name| std::env::var_os(name).is_some()) {
            let set = EXCEPTIONS.map(|name| std::env::var(name).ok());
            // Either may be the one that counts, so both say the same.
            let known =
                set.into_iter().flatten().find(|known| !known.is_empty()).unwrap_or_default();
            for name in EXCEPTIONS {
                let comma = if known.is_empty() { "" } else { "," };
                command.env(name, format!("{known}{comma}{}", self.address.ip()));
            }
        }
    }

    /// Lets it record what is left, and ends it; returns whether it was there until now.
    pub(super) fn stop(self) -> bool {
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
        !self.keeper.is_given_up.load(Ordering::SeqCst)
    }
}

impl Keeper {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, launch: &str) -> io::Result<()> {
        // Whoever stops it waits for this.
        let mut child = self.child();
        if self.is_over.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut command = Command::new(&self.us);
        command
            .args(["proxy", "--inherited", "--launch", launch])
            .env(proxy::TOKEN_VARIABLE, &self.token)
            .env(DATA_DIR_VARIABLE, self.home.path())
            .stdin(handed_over(&self.listener)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        *child = Some(command.spawn()?);
        Ok(())
    }

    /// Starts it again whenever it ends.
    fn keep(&self, launch: &str) {
        let mut tries = 0;
        loop {
            let begun = Instant::now();
            self.wait();
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            tries = if begun.elapsed() < SOON { tries + 1 } else { 0 };
            if tries >= TRIES || self.spawn(launch).is_err() {
                break;
            }
        }
        self.is_given_up.store(true, Ordering::SeqCst);
        if let Ok(listener) = self.listener.try_clone() {
            proxy::pass_on(listener, self.token.clone(), self.upstreams.clone(), &self.home);
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
