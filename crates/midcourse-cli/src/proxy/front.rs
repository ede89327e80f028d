//! The listening side of the proxy, in the process of `midcourse run`.
//!
//! It accepts every connection. A CONNECT request to a host that is not a model API becomes a blind
//! tunnel (bytes are copied unread) right here, so that no crash of the proxy process can break a
//! download of the agent. Every other connection is passed to the proxy process.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use super::channel::{Channel, Message};
use super::connect::{ESTABLISHED, Head, Target, UNREACHABLE, is_authorized, read_head};
use super::model_hosts::ModelHosts;
use super::timeouts::Timeouts;
use super::tunnel::{self, Ended};
use super::waiting::{Visitor, Waiting};

/// How long to wait before accepting connections again when the system has no free sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Numbers of connections by host.
pub(crate) type HostCounts = BTreeMap<String, u64>;

/// The running accept loop.
pub(crate) struct Front {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
    open_tunnels: Arc<Mutex<Vec<(TcpStream, TcpStream)>>>,
    blind_hosts: Arc<Mutex<HostCounts>>,
    /// Whether connections to model hosts go through a blind tunnel too.
    is_blind: watch::Sender<bool>,
}

struct Acceptor {
    token: blake3::Hash,
    timeouts: Timeouts,
    hosts: ModelHosts,
    to_proxy: mpsc::Sender<Message>,
    stop: watch::Receiver<bool>,
    is_blind: watch::Receiver<bool>,
    open_tunnels: Arc<Mutex<Vec<(TcpStream, TcpStream)>>>,
    blind_hosts: Arc<Mutex<HostCounts>>,
}

impl Front {
    /// Starts to accept connections on a thread of its own.
    pub(crate) fn start(
        listener: TcpListener,
        token: &str,
        hosts: ModelHosts,
        channel: Channel,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (stop, stop_receiver) = watch::channel(false);
        let (is_blind, is_blind_receiver) = watch::channel(false);
        let open_tunnels = Arc::<Mutex<Vec<_>>>::default();
        let blind_hosts = Arc::<Mutex<_>>::default();
        let (to_proxy, messages) = mpsc::channel::<Message>();
        // Sending blocks while the proxy does not receive. A thread of its own sends, because the
        // accept loop must not block.
        thread::Builder::new().name("to-proxy".to_owned()).spawn(move || {
            for message in messages {
                let _ = channel.send(&message);
            }
        })?;
        let acceptor = Arc::new(Acceptor {
            token: blake3::hash(token.as_bytes()),
            timeouts: Timeouts::from_environment(),
            hosts,
            to_proxy,
            stop: stop_receiver,
            is_blind: is_blind_receiver,
            open_tunnels: Arc::clone(&open_tunnels),
            blind_hosts: Arc::clone(&blind_hosts),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("front".to_owned()).spawn(move || {
            runtime.block_on(acceptor.accept(listener));
        })?;
        Ok(Self { stop, thread, open_tunnels, blind_hosts, is_blind })
    }

    /// Sets whether connections to model hosts are tunneled too, without reading their traffic.
    pub(crate) fn set_blind(&self, is_blind: bool) {
        self.is_blind.send_replace(is_blind);
    }

    /// Stops accepting. Returns the tunnels that are in use, each with the connections of its client
    /// and its server.
    pub(crate) fn stop(self) -> Vec<(TcpStream, TcpStream)> {
        self.stop.send_replace(true);
        let _ = self.thread.join();
        let mut open = self.open_tunnels.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut open)
    }

    /// The hosts to which there were blind tunnels, and how many.
    pub(crate) fn blind_hosts(&self) -> HostCounts {
        self.blind_hosts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Acceptor {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let mut tasks = tokio::task::JoinSet::new();
        let mut stop = self.stop.clone();
        let waiting = Waiting::default();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = listener.accept() => accepted,
            };
            while tasks.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let visitor = waiting.enter();
                    tasks.spawn(Arc::clone(&self).handle(stream, visitor));
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
        // Every task ends now, because `stop` is true.
        while tasks.join_next().await.is_some() {}
    }

    async fn handle(self: Arc<Self>, stream: tokio::net::TcpStream, visitor: Arc<Visitor>) {
        let mut stop = self.stop.clone();
        let read = tokio::select! {
            read = read_head(&stream) => read,
            _ = stop.wait_for(|stop| *stop) => return,
            () = visitor.evicted() => return,
            () = visitor.is_late(self.timeouts.head) => return,
        };
        // The connection is in good hands, or goes to the proxy process, which has a limit too.
        drop(visitor);
        let Ok((head, bytes)) = read else { return };
        match head {
            Head::Connect { target, credentials, length }
                if is_authorized(credentials.as_deref(), &self.token)
                    && (*self.is_blind.borrow()
                        || !self.hosts.contain(&target.host, target.port)) =>
            {
                self.tunnel(stream, &target, bytes.get(length..).unwrap_or_default()).await;
            }
            _ => {
                if let Ok(stream) = stream.into_std() {
                    let _ = self.to_proxy.send(Message::Connection(stream, bytes));
                }
            }
        }
    }

    async fn tunnel(&self, mut client: tokio::net::TcpStream, target: &Target, early: &[u8]) {
        let mut stop = self.stop.clone();
        let dialed = tokio::select! {
            dialed = target.dial() => dialed,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Ok(mut server) = dialed else {
            let _ = client.write_all(UNREACHABLE).await;
            return;
        };
        self.count(&target.host);
        if client.write_all(ESTABLISHED).await.is_err() || server.write_all(early).await.is_err() {
            return;
        }
        if tunnel::copy(&mut client, &mut server, &self.stop).await == Ended::Stopped
            && let (Ok(client), Ok(server)) = (client.into_std(), server.into_std())
        {
            let mut open = self.open_tunnels.lock().unwrap_or_else(PoisonError::into_inner);
            open.push((client, server));
        }
    }

    fn count(&self, host: &str) {
        /// Maximum number of hosts that are counted one by one.
        const MAX_HOSTS: usize = 1_000;
        let mut hosts = self.blind_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() < MAX_HOSTS || hosts.contains_key(host) {
            *hosts.entry(host.to_owned()).or_default() += 1;
        }
    }
}
