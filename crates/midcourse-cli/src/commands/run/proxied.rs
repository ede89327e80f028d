//! The proxy of one use of `midcourse run` (a launch): a thread of `midcourse run` that accepts
//! connections, and a separate process that reads model traffic.
//!
//! The thread tunnels what midcourse does not read, so that a crash of the process breaks no
//! download. If the process dies, it is started again; connections wait for it meanwhile. If it
//! keeps dying, `midcourse run` forwards everything itself, without recording, and starts the
//! process again after a pause. The process has its own process group, because signals from the
//! terminal are meant for the command.

mod plan;
mod refusals;
mod restarts;
mod watch;

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

use super::Recording;
use crate::proxy::{
    self, Authority, Channel, Forwarder, Found, Front, Message, ModelHosts, Redirect,
};
pub(super) use plan::Plan;
use restarts::Restarts;
use watch::{PATIENCE, Watch};

/// How long the proxy may take to record the last requests when it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// After the command has ended, processes that it started get this much time to end too. If one of
/// them is still running then, the proxy keeps running for it.
const LINGER: Duration = Duration::from_millis(300);

/// Environment variables that list the servers to reach without an HTTP proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A running proxy.
pub(super) struct Proxied {
    address: SocketAddr,
    supervisor: Arc<Supervisor>,
    front: Arc<Mutex<Option<Front>>>,
    /// Certificate files for the command, each with its environment variable.
    trust: Vec<(&'static str, PathBuf)>,
    tells_node: bool,
}

struct Supervisor {
    program: PathBuf,
    data_dir: DataDir,
    launch_id: String,
    token: String,
    authority: Option<Authority>,
    redirects: Vec<Redirect>,
    listener: TcpListener,
    to_proxy: Channel,
    /// The proxy's end of the channel, kept open for a restarted proxy.
    at_proxy: Channel,
    watch: Arc<Watch>,
    child: Mutex<Option<Child>>,
    is_stopping: AtomicBool,
    /// Whether `midcourse run` has forwarded requests itself. Such requests are not recorded.
    has_forwarded: AtomicBool,
}

impl Proxied {
    /// Opens the port, starts the proxy process and begins to accept connections. `name` is the
    /// file name of the command's program.
    pub(super) fn start(
        plan: Plan,
        recording: &Recording,
        name: &str,
        is_full_screen: bool,
    ) -> Result<Self> {
        let Recording { data_dir, settings, folder, .. } = recording;
        let watch = Watch::new(data_dir, name, is_full_screen);
        let launch_id = settings.launch_id.clone().unwrap_or_default();
        let hosts = ModelHosts::with(&settings.config.model_hosts);
        let listener =
            TcpListener::bind("127.0.0.1:0").context("cannot open a port on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let authority = if plan.intercepts { Some(Authority::new(&launch_id)?) } else { None };
        let trust = match &authority {
            None => Vec::new(),
            Some(authority) => {
                let certificate = authority.certificate_pem(&launch_id, &hosts)?;
                let environment = |name: &str| std::env::var_os(name).map(PathBuf::from);
                proxy::write_trust_files(folder, &certificate, environment)?
            }
        };
        let (to_proxy, at_proxy) = Channel::pair()?;
        let token = proxy::new_token();
        let front_channel = Channel::from(to_proxy.try_clone()?);
        let supervisor = Arc::new(Supervisor {
            program: std::env::current_exe()?,
            data_dir: data_dir.clone(),
            launch_id,
            token,
            authority,
            redirects: plan.redirects,
            listener,
            to_proxy,
            at_proxy,
            watch,
            child: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
            has_forwarded: AtomicBool::new(false),
        });
        supervisor.spawn()?;
        let listener = supervisor.listener.try_clone()?;
        let front = Front::start(listener, &supervisor.token, hosts, front_channel)?;
        let front = Arc::new(Mutex::new(Some(front)));
        let (supervisor_too, front_too) = (Arc::clone(&supervisor), Arc::clone(&front));
        thread::Builder::new().spawn(move || supervisor_too.supervise(&front_too))?;
        let (supervisor_too, front_too) = (Arc::clone(&supervisor), Arc::clone(&front));
        thread::Builder::new().spawn(move || {
            thread::sleep(PATIENCE);
            let front = front_too.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(front) = &*front {
                supervisor_too.watch.set_tunnels(front.blind_hosts());
                supervisor_too.watch.tell_if_nothing_is_read();
            }
        })?;
        Ok(Self { address, supervisor, front, trust, tells_node: plan.tells_node })
    }

    /// Sets the environment variables that make a command use the proxy.
    pub(super) fn set_variables(&self, command: &mut Command) {
        let Supervisor { token, redirects, authority, .. } = &*self.supervisor;
        for redirect in redirects {
            command.env(redirect.variable, redirect.url(self.address, token));
        }
        if authority.is_some() {
            let url = proxy::connect_url(self.address, token);
            command.env("HTTPS_PROXY", &url).env("https_proxy", url);
            if self.tells_node {
                command.env("NODE_USE_ENV_PROXY", "1");
            }
            command.envs(self.trust.iter().map(|(variable, file)| (variable, file)));
        }
        // Servers on this machine, such as the proxy itself and servers that the agent starts, are
        // reached without an HTTP proxy.
        let values = NO_PROXY_VARIABLES.map(|name| std::env::var(name).ok());
        let value = values.into_iter().flatten().find(|it| !it.is_empty()).unwrap_or_default();
        // Clients differ in which of the two variables they read, so both get the same value.
        for name in NO_PROXY_VARIABLES {
            let comma = if value.is_empty() { "" } else { "," };
            command.env(name, format!("{value}{comma}localhost,127.0.0.1,::1"));
        }
    }

    /// If midcourse could read no model request: which traffic passed unread. Otherwise `None`.
    pub(super) fn report(&self) -> Option<String> {
        self.supervisor.watch.report()
    }

    /// Ends the proxy after it has recorded the last requests. If processes of the command are
    /// still running, the proxy keeps running for them instead. Returns false if the proxy kept
    /// failing for a while, so that requests were not recorded.
    pub(super) fn stop(&self) -> bool {
        let supervisor = &self.supervisor;
        supervisor.is_stopping.store(true, Ordering::SeqCst);
        let front = self.front.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(front) = &front {
            supervisor.watch.set_tunnels(front.blind_hosts());
        }
        let is_in_use = is_in_use(&supervisor.launch_id);
        let is_recorded = !supervisor.has_forwarded.load(Ordering::SeqCst);
        if is_in_use && supervisor.child().is_some() {
            let tunnels = front.map(Front::stop).unwrap_or_default();
            let tunnels =
                tunnels.into_iter().map(|(client, server)| Message::Tunnel(client, server));
            for message in tunnels.chain([Message::CommandEnded]) {
                // If this fails, the proxy is gone, and nothing is left to be done.
                let _ = supervisor.to_proxy.send(&message);
            }
            supervisor.watch.wait_until_recorded(STOP_TIMEOUT);
            return is_recorded;
        }
        supervisor.terminate();
        let begun = Instant::now();
        // The supervisor thread waits for the process to end and then clears `child`.
        while supervisor.child().is_some() && begun.elapsed() < STOP_TIMEOUT {
            thread::sleep(Duration::from_millis(2));
        }
        if let Some(child) = supervisor.child().as_mut() {
            let _ = child.kill();
        }
        is_recorded
    }
}

/// Whether processes of the command are still running. Gives those that are about to end, such as
/// the other commands of a pipeline, a moment.
fn is_in_use(launch_id: &str) -> bool {
    let begun = Instant::now();
    while proxy::find_processes(launch_id) == Found::Some {
        if begun.elapsed() > LINGER {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Sets whether connections to model hosts are tunneled too, without reading their traffic.
fn set_blind(front: &Mutex<Option<Front>>, is_blind: bool) {
    if let Some(front) = &*front.lock().unwrap_or_else(PoisonError::into_inner) {
        front.set_blind(is_blind);
    }
}

impl Supervisor {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        // Hold the lock until the process is started, so that `stop` cannot overlook it.
        let mut child = self.child();
        if self.is_stopping.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        command
            .args(["proxy", "--inherited", "--launch", &self.launch_id])
            .env(proxy::TOKEN_VARIABLE, &self.token)
            .env(DATA_DIR_VARIABLE, self.data_dir.path())
            .stdin(self.at_proxy.try_clone()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        match &self.authority {
            Some(authority) => command.env(proxy::AUTHORITY_VARIABLE, authority.key_pem()),
            None => command.env_remove(proxy::AUTHORITY_VARIABLE),
        };
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut started = command.spawn()?;
        if let Some(notices) = started.stdout.take() {
            self.watch.follow(notices)?;
        }
        *child = Some(started);
        drop(child);
        self.to_proxy.send(&Message::Listener(self.listener.try_clone()?))
    }

    /// Restarts the proxy whenever it ends. While the proxy keeps failing, forwards connections in
    /// this process.
    fn supervise(self: &Arc<Self>, front: &Mutex<Option<Front>>) {
        let mut restarts = Restarts::from_environment();
        let mut forwarder = None;
        loop {
            let begun = Instant::now();
            self.wait();
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            if let Some(pause) = restarts.pause_after(begun.elapsed()) {
                self.has_forwarded.store(true, Ordering::SeqCst);
                set_blind(front, true);
                self.forward_for(pause, &mut forwarder);
                set_blind(front, false);
            }
            // If this fails, `wait` returns at once, which counts as a failed start.
            let _ = self.spawn();
        }
    }

    /// Accepts and forwards connections in this process for the time `pause`. The forwarder goes on
    /// serving those that are still open afterwards.
    fn forward_for(&self, pause: Duration, forwarder: &mut Option<Forwarder>) {
        if forwarder.is_none() {
            *forwarder = Forwarder::start(&self.token, &self.redirects, &self.data_dir).ok();
        }
        match forwarder {
            Some(forwarder) => forwarder.receive_for(pause, &self.at_proxy),
            None => thread::sleep(pause),
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

    fn terminate(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = self.child().as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
