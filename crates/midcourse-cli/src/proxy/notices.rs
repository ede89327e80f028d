//! What the proxy process tells `midcourse run` while the agent works: one JSON line per notice, on
//! the proxy's standard output. `run` shows some of them to the user and counts the rest.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Something that the user may want to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// The first model request to this host that midcourse can read.
    Watching { api: String, host: String },
    /// A request to a model host that midcourse cannot read. Sent for every such request.
    Unread { host: String, path: String, why: String },
    /// TLS connections to this model host cannot be decrypted and pass unread.
    NotOpened { host: String, why: String },
    /// The client refused the certificate of this host.
    Refused { host: String },
    /// The command has ended, and everything until then is recorded.
    Recorded,
}

/// The sending side, in the proxy process.
#[derive(Default)]
pub(super) struct Notices {
    is_enabled: bool,
    sent: Mutex<HashSet<Notice>>,
}

impl Notices {
    /// Notices that are printed to standard output, where `midcourse run` reads them.
    pub(super) fn to_stdout() -> Self {
        Self { is_enabled: true, sent: Mutex::default() }
    }

    /// Sends a notice, unless the same one was sent before.
    pub(super) fn send_once(&self, notice: Notice) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_enabled && sent.insert(notice.clone()) {
            drop(sent);
            self.send(&notice);
        }
    }

    pub(super) fn unread(&self, host: &str, path: &str, why: &str) {
        let (host, path, why) = (host.to_owned(), path.to_owned(), why.to_owned());
        self.send(&Notice::Unread { host, path, why });
    }

    fn send(&self, notice: &Notice) {
        let Some(mut line) = serde_json::to_string(notice).ok().filter(|_| self.is_enabled) else {
            return;
        };
        line.push('\n');
        // Fails if `midcourse run` is gone; then nobody wants to know.
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}
