//! Tells the user which traffic the proxy can and cannot read: with single lines while the command
//! runs, and with counts at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use midcourse::DataDir;

use super::refusals;
use crate::log::Log;
use crate::proxy::{HostCounts, Notice};
use crate::terminal::warn;

/// If nothing could be read this long after the start, the user is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait for the last notices when the command has ended.
const LAST_NOTICES: Duration = Duration::from_millis(200);

/// Maximum number of hosts and paths that are counted.
const MAX_COUNTED: usize = 200;

/// What is known about the traffic of this use of `midcourse run`.
pub(super) struct Watch {
    seen: Mutex<Seen>,
    changed: Condvar,
    is_on_terminal: bool,
    log: Log,
    data_dir: DataDir,
    /// The file name of the program, to remember that it refuses midcourse's certificates.
    program: String,
}

#[derive(Default)]
struct Seen {
    /// Whether midcourse could read a model request.
    has_read: bool,
    /// Requests that could not be read, by host and path, with the reason if it is known.
    unread: BTreeMap<(String, String), (u64, String)>,
    /// Numbers of connections to hosts that are not known as model hosts.
    tunnels: HostCounts,
    not_opened: BTreeMap<String, String>,
    told: BTreeSet<String>,
    /// Number of proxy processes whose notices are being read.
    followed: usize,
    is_recorded: bool,
    /// Whether a program refused midcourse's certificate.
    is_refused: bool,
}

impl Watch {
    /// `is_full_screen` says that the command draws on the whole terminal. Then notices go to the
    /// log only.
    pub(super) fn new(data_dir: &DataDir, program: &str, is_full_screen: bool) -> Arc<Self> {
        let is_on_terminal = io::stderr().is_terminal() && !is_full_screen;
        Arc::new(Self {
            seen: Mutex::default(),
            changed: Condvar::new(),
            is_on_terminal,
            log: Log::of_notices(data_dir),
            data_dir: data_dir.clone(),
            program: program.to_owned(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the notices of a proxy process on a thread of its own.
    pub(super) fn follow(
        self: &Arc<Self>,
        notices: impl io::Read + Send + 'static,
    ) -> io::Result<()> {
        let watch = Arc::clone(self);
        watch.seen().followed += 1;
        thread::Builder::new().name("notices".to_owned()).spawn(move || {
            for line in BufReader::new(notices).lines().map_while(Result::ok) {
                if let Ok(notice) = serde_json::from_str(&line) {
                    watch.add(notice);
                }
            }
            watch.seen().followed -= 1;
            watch.changed.notify_all();
        })?;
        Ok(())
    }

    fn add(&self, notice: Notice) {
        let mut seen = self.seen();
        match notice {
            Notice::Watching { api, host } => {
                seen.has_read = true;
                drop(seen);
                self.tell(&format!("watching: {api} at {host}"));
            }
            Notice::Unread { host, path, why } => {
                let key = (host.clone(), path.clone());
                let is_new = !seen.unread.contains_key(&key);
                if !is_new || seen.unread.len() < MAX_COUNTED {
                    let (count, _) = seen.unread.entry(key).or_insert((0, why.clone()));
                    *count = count.saturating_add(1);
                }
                drop(seen);
                if is_new && !why.is_empty() {
                    self.tell(&format!("not reading requests to {host}{path}: {why}"));
                }
            }
            Notice::NotOpened { host, why } => {
                seen.not_opened.insert(host.clone(), why.clone());
                drop(seen);
                self.tell(&format!("not reading requests to {host}: {why}"));
            }
            Notice::Recorded => {
                seen.is_recorded = true;
                drop(seen);
                self.changed.notify_all();
            }
            Notice::Refused { host } => {
                let why = "the program does not trust midcourse's certificate".to_owned();
                seen.not_opened.insert(host.clone(), why);
                seen.is_refused = true;
                drop(seen);
                self.tell(&format!(
                    "a program does not trust midcourse's certificate for {host}; its requests pass \
                     unread"
                ));
            }
        }
    }

    /// Tells the user if there was traffic and nothing could be read.
    pub(super) fn tell_if_nothing_is_read(&self) {
        let seen = self.seen();
        let report = if seen.has_read { None } else { seen.report() };
        drop(seen);
        if let Some(report) = report {
            self.tell(&format!("nothing is recorded so far; {report}"));
        }
    }

    /// Prints a line if the user can see it at once; otherwise writes it to the log. Does nothing
    /// if the same line was told before.
    fn tell(&self, line: &str) {
        if !self.seen().told.insert(line.to_owned()) {
            return;
        }
        if self.is_on_terminal {
            warn(line);
        } else {
            self.log.write(line);
        }
    }

    pub(super) fn set_tunnels(&self, tunnels: HostCounts) {
        self.seen().tunnels = tunnels;
    }

    /// Waits until the proxy has recorded everything, or until the timeout.
    pub(super) fn wait_until_recorded(&self, timeout: Duration) {
        let seen = self.seen();
        drop(self.changed.wait_timeout_while(seen, timeout, |seen| !seen.is_recorded));
    }

    /// Why nothing was recorded, if requests passed that could not be read.
    pub(super) fn report(&self) -> Option<String> {
        // The proxy process may have ended, but its last notices are still on their way.
        let seen = self.seen();
        let is_open = |seen: &mut Seen| seen.followed > 0 && !seen.is_recorded;
        drop(self.changed.wait_timeout_while(seen, LAST_NOTICES, is_open));
        let seen = self.seen();
        // If requests were read, the agent trusts the certificate, and only a program that it
        // started does not.
        if seen.is_refused && !seen.has_read {
            refusals::remember(&self.data_dir, &self.program);
            let report = seen.report()?;
            return Some(format!(
                "{report}. The next `midcourse run` leaves {} alone",
                self.program
            ));
        }
        if seen.has_read { None } else { seen.report() }
    }
}

impl Seen {
    /// What passed unread, with counts. `None` if nothing did.
    fn report(&self) -> Option<String> {
        const MAX_SHOWN: usize = 4;
        let unread: u64 = self.unread.values().map(|(count, _)| count).sum();
        let tunnels: u64 = self.tunnels.values().sum();
        let mut parts = Vec::new();
        if unread > 0 {
            let mut counts: Vec<_> = self.unread.iter().collect();
            counts.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
            let shown = counts.iter().take(MAX_SHOWN).map(|((host, path), (count, why))| {
                let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
                format!("{count} to {host}{path}{why}")
            });
            parts.push(format!("requests: {}", shown.collect::<Vec<_>>().join(", ")));
        }
        for (host, why) in &self.not_opened {
            parts.push(format!("connections to {host}: {why}"));
        }
        if tunnels > 0 {
            let mut counts: Vec<_> = self.tunnels.iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let shown =
                counts.iter().take(MAX_SHOWN).map(|(host, count)| format!("{count} to {host}"));
            let shown = shown.collect::<Vec<_>>().join(", ");
            parts.push(format!("connections to hosts that are no known model API: {shown}"));
        }
        (!parts.is_empty()).then(|| format!("passed unread: {}", parts.join("; ")))
    }
}
