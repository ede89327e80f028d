//! How long a client's connection to the proxy may stay open without a request.
//!
//! Neither limit applies while a request is forwarded or its response streams, however long that
//! takes.

use std::time::Duration;

/// The environment variables that set other limits, in milliseconds.
const HEAD_VARIABLE: &str = "MIDCOURSE_PROXY_HEAD_TIMEOUT_MS";
const IDLE_VARIABLE: &str = "MIDCOURSE_PROXY_IDLE_TIMEOUT_MS";

#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// How long a new connection may take to send a request with the access token.
    pub(super) head: Duration,
    /// How long a client that has the token may keep a connection open between two requests. Longer
    /// than the idle timeouts of servers and clients, so that the proxy does not close first.
    pub(super) idle: Duration,
}

impl Timeouts {
    pub(super) fn from_environment() -> Self {
        let milliseconds = |name| std::env::var(name).ok()?.parse().ok().map(Duration::from_millis);
        Self {
            head: milliseconds(HEAD_VARIABLE).unwrap_or(Duration::from_secs(60)),
            idle: milliseconds(IDLE_VARIABLE).unwrap_or(Duration::from_secs(60 * 60)),
        }
    }
}
