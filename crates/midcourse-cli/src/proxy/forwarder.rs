//! Forwards connections without recording, in the process of `midcourse run`, while its proxy
//! process keeps crashing.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use midcourse::DataDir;
use tokio::sync::mpsc;

use super::channel::{Channel, Message};
use super::server::Server;
use super::upstream::{Redirect, Upstreams};
use super::{inherited, serve};
use crate::log::Log;

/// A thread that forwards connections. It keeps the connections that it has begun to forward, even
/// after a new proxy process has taken over.
pub(crate) struct Forwarder {
    connections: mpsc::UnboundedSender<Message>,
}

impl Forwarder {
    pub(crate) fn start(token: &str, redirects: &[Redirect], data_dir: &DataDir) -> Result<Self> {
        let log = Arc::new(Log::new(Some(data_dir), "proxy"));
        let upstreams = Upstreams::of_redirects(redirects);
        let server = Server::new(token, &upstreams, None, Duration::ZERO, Arc::clone(&log))?;
        let server = Arc::new(server.with_tunnels());
        let (connections, messages) = mpsc::unbounded_channel();
        thread::Builder::new().name("forwarder".to_owned()).spawn(move || {
            let served = serve(async {
                inherited::handle(&server, messages, "").await;
                Ok(())
            });
            if let Err(error) = served {
                log.write(&format!("the proxy stopped forwarding requests: {error:#}"));
            }
        })?;
        Ok(Self { connections })
    }

    /// Takes connections from the channel for this long.
    pub(crate) fn receive_for(&self, time: Duration, channel: &Channel) {
        let begun = Instant::now();
        while let Some(rest) = time.checked_sub(begun.elapsed()) {
            if !channel.is_readable_within(rest) {
                continue;
            }
            let message = channel.receive().ok().flatten();
            if message.and_then(|message| self.connections.send(message).ok()).is_none() {
                // The channel or the thread has failed. Sleep instead of retrying in a busy loop.
                return thread::sleep(rest);
            }
        }
    }
}
