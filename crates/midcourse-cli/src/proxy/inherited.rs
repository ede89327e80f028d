//! The proxy process of `midcourse run`: serves the connections that `run` passes to it.
//!
//! If `run` is gone while processes of its command still use the port, this process accepts
//! connections itself, until those processes are gone too.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::channel::{Channel, Message};
use super::processes::{self, Found};
use super::server::Server;
use super::{stop_signal, tunnel};

/// How often to look whether processes of the command are left.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// On systems where processes cannot be listed: how long the port stays open after the last
/// request.
const MAX_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves until a signal to stop arrives, or until `run` and the processes of its command are gone.
pub(super) async fn serve(server: Arc<Server>, channel: Channel, launch_id: String) -> Result<()> {
    let (sender, messages) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("from-run".to_owned()).spawn(move || {
        while let Ok(Some(message)) = channel.receive() {
            if sender.send(message).is_err() {
                return;
            }
        }
    })?;
    tokio::select! {
        () = handle(&server, messages, &launch_id) => {}
        () = stop_signal() => {}
    }
    Ok(())
}

/// Handles messages until `midcourse run` has ended. Then accepts connections until the processes
/// of its command have ended too.
pub(super) async fn handle(
    server: &Arc<Server>,
    mut messages: mpsc::UnboundedReceiver<Message>,
    launch_id: &str,
) {
    let mut listener = None;
    // Never becomes true: tunnels in this process are not stopped early, because no other process
    // could take them over.
    let (_keep, never) = watch::channel(false);
    while let Some(message) = messages.recv().await {
        match message {
            Message::Listener(received) => listener = Some(received),
            Message::Connection(stream, read) => {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    server.serve(stream, read);
                }
            }
            Message::Tunnel(client, server) => {
                if let (Ok(mut client), Ok(mut server)) =
                    (TcpStream::from_std(client), TcpStream::from_std(server))
                {
                    let never = never.clone();
                    tokio::spawn(async move {
                        tunnel::copy(&mut client, &mut server, &never).await;
                    });
                }
            }
            Message::CommandEnded => server.command_ended().await,
        }
    }
    // `run` has ended or was killed.
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true).ok()?;
        tokio::net::TcpListener::from_std(listener).ok()
    });
    let Some(listener) = listener else { return };
    tokio::select! {
        () = Arc::clone(server).accept(listener) => {}
        () = last_process_ended(server, launch_id) => {}
    }
}

/// Returns when no process of the command is left.
async fn last_process_ended(server: &Server, launch_id: &str) {
    loop {
        match processes::find(launch_id) {
            Found::None => return,
            Found::Unknown if server.idle_for() > MAX_IDLE => return,
            Found::Some | Found::Unknown => tokio::time::sleep(CHECK_INTERVAL).await,
        }
    }
}
