//! A proxy between a shipper and Postgres that cuts connections after a given number of bytes.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::activity::Activity;

/// The direction of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Listens on a Unix socket in a folder of its own.
pub(crate) struct Proxy {
    folder: tempfile::TempDir,
    cuts: Arc<[Cut; 2]>,
}

/// After how many further bytes the connection is cut.
type Cut = Mutex<Option<usize>>;

impl Proxy {
    /// Forwards connections to the socket of a server, and reports the bytes to `activity`.
    pub(crate) fn start(server: PathBuf, activity: Arc<Activity>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let cuts: Arc<[Cut; 2]> = Arc::default();
        let shared = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { break };
                // Without a server, the client sees that the connection ends at once.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                for direction in [Direction::ToServer, Direction::ToClient] {
                    let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let (from, to) = match direction {
                        Direction::ToServer => ends,
                        Direction::ToClient => (ends.1, ends.0),
                    };
                    let (cuts, activity) = (Arc::clone(&shared), Arc::clone(&activity));
                    std::thread::spawn(move || {
                        forward(&from, &to, &cuts[direction as usize], &activity);
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { folder, cuts }
    }

    /// Cuts the connection, this or the next, after some further bytes in a direction.
    pub(crate) fn cut(&self, direction: Direction, after: usize) {
        *self.cuts[direction as usize].lock().unwrap() = Some(after);
    }

    /// Cuts no connection any more.
    pub(crate) fn heal(&self) {
        self.cuts.iter().for_each(|cut| *cut.lock().unwrap() = None);
    }

    /// The address of a database through this proxy.
    pub(crate) fn url(&self, database: &str, role: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{folder}/{database}")
    }
}

/// Forwards until an end is closed, or until the cut.
fn forward(mut from: &UnixStream, mut to: &UnixStream, cut: &Cut, activity: &Activity) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let left = {
            let mut cut = cut.lock().unwrap();
            match *cut {
                Some(after) if after <= count => {
                    *cut = None;
                    Some(after)
                }
                Some(after) => {
                    *cut = Some(after - count);
                    None
                }
                None => None,
            }
        };
        let written = to.write_all(&buffer[..left.unwrap_or(count)]);
        activity.forwarded(count);
        if written.is_err() || left.is_some() {
            break;
        }
    }
}
