//! Blind tunnels: copy bytes between two connections without reading them.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

/// Size of the buffer for each direction. Large enough that a fast download is not slowed down.
pub(super) const BUFFER_LEN: usize = 64 * 1024;

/// How copying ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both sides closed their connections, or one of them failed.
    Closed,
    /// `stop` became true. No byte is lost: what was read was also written.
    Stopped,
}

/// Copies in both directions until both sides have closed, or until `stop` becomes true.
pub(super) async fn copy(
    client: &mut TcpStream,
    server: &mut TcpStream,
    stop: &watch::Receiver<bool>,
) -> Ended {
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let copied = tokio::try_join!(
        copy_one_way(client_read, server_write, stop.clone()),
        copy_one_way(server_read, client_write, stop.clone()),
    );
    match copied {
        Ok((Ended::Closed, Ended::Closed)) | Err(_) => Ended::Closed,
        Ok(_) => Ended::Stopped,
    }
}

async fn copy_one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<Ended> {
    let mut buffer = vec![0; BUFFER_LEN];
    loop {
        let read = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(Ended::Stopped),
            read = from.read(&mut buffer) => read?,
        };
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            to.shutdown().await?;
            return Ok(Ended::Closed);
        };
        to.write_all(bytes).await?;
    }
}
