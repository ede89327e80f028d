//! What a server and this process have used.

use postgres_server::Server;

use crate::times::times;

/// What the server and this process have used so far.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    server_cpu: f64,
    client_cpu: f64,
    wal: f64,
}

/// What was used between two moments: seconds of processor time, and bytes of the write-ahead log.
pub(crate) struct Usage {
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
    pub(crate) wal: f64,
}

impl Used {
    pub(crate) fn now(server: &Server) -> Self {
        let wal = server.psql("postgres", "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn");
        let own = std::process::id();
        Self {
            server_cpu: server_cpu(server),
            client_cpu: times(own).map_or(0.0, |(_, own, _)| own),
            wal: wal.parse().unwrap(),
        }
    }

    pub(crate) fn since(self, before: Self) -> Usage {
        Usage {
            server_cpu: self.server_cpu - before.server_cpu,
            client_cpu: self.client_cpu - before.client_cpu,
            wal: self.wal - before.wal,
        }
    }
}

/// The processor time of all processes of the server, including those that have ended.
fn server_cpu(server: &Server) -> f64 {
    let pid = std::fs::read_to_string(server.folder().join("pid")).unwrap();
    let postmaster: u32 = pid.trim().parse().unwrap();
    let mut total = times(postmaster).map_or(0.0, |(_, own, ended)| own + ended);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((parent, own, _)) = pid.and_then(times)
            && parent == postmaster
        {
            total += own;
        }
    }
    total
}
