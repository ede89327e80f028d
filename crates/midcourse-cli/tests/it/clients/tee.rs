//! Forwards bytes between a client and a server unchanged, and keeps what the client sent.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::http::{self, Request};

/// The bytes that the client sent, one list per connection.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

pub(crate) struct Tee {
    pub(crate) address: SocketAddr,
    sent: Sent,
}

impl Tee {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Sent::default();
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client's connection is closed.
                let _ = join(client, server, &kept);
            }
        });
        Self { address, sent }
    }

    /// The requests that the client sent, parsed.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let sent = self.sent.lock().unwrap();
        let of_connection = |bytes: &Vec<u8>| {
            let mut rest = bytes.as_slice();
            std::iter::from_fn(move || http::read(&mut rest).unwrap()).collect::<Vec<_>>()
        };
        sent.iter().flat_map(of_connection).collect()
    }
}

fn join(client: TcpStream, server: SocketAddr, sent: &Sent) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
    let number = {
        let mut sent = sent.lock().unwrap();
        sent.push(Vec::new());
        sent.len() - 1
    };
    let kept = Arc::clone(sent);
    std::thread::spawn(move || {
        copy(from_client, server, |bytes| {
            kept.lock().unwrap()[number].extend_from_slice(bytes);
        })
    });
    std::thread::spawn(move || copy(from_server, client, |_| {}));
    Ok(())
}

/// Copies bytes until `from` ends, and then closes `to`.
fn copy(mut from: TcpStream, mut to: TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        keep(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
