//! A lock file by which short-lived processes queue before they write.
//!
//! The engine analyses an event before the transaction that stores it, and has to do so again if
//! another process wrote to the run in between. Without a queue, many processes at once would do
//! most of this work in vain. The lock only saves work: the transaction is correct without it. A
//! process that cannot get the lock in time continues without it. If a process dies, the operating
//! system releases its lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::data_dir::DataDir;

const RETRY_INTERVAL: Duration = Duration::from_micros(500);

/// Holds the lock until this value is dropped. `_file` is `None` if the lock was not obtained.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: Option<File>,
}

impl WriterLock {
    /// Waits for the lock, at most for `timeout`, and then returns without it.
    pub(super) fn wait(data_dir: &DataDir, timeout: Duration) -> Self {
        let start = Instant::now();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let Ok(file) = options.open(data_dir.path().join("writer.lock")) else {
            return Self { _file: None };
        };
        loop {
            match file.try_lock() {
                Ok(()) => return Self { _file: Some(file) },
                Err(TryLockError::WouldBlock) if start.elapsed() < timeout => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(_) => return Self { _file: None },
            }
        }
    }
}
