//! Taking turns: short processes that want to write at once queue for a lock file first.
//!
//! A step is worked out before its transaction and done anew if another process was faster; many
//! at once would do most of their work for nothing, and the unlucky one never come through. The
//! lock is a courtesy, not what keeps the store right: whoever cannot get it in time goes on
//! without it, and whoever dies with it lets it go.

use std::fs::{File, OpenOptions, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::Home;

const PAUSE: Duration = Duration::from_micros(500);

/// A process's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _file: Option<File>,
}

impl Turn {
    /// Waits for a turn, at most for so long.
    pub(super) fn wait(home: &Home, at_most: Duration) -> Self {
        let begun = Instant::now();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let Ok(file) = options.open(home.folder().join("turn.lock")) else {
            return Self { _file: None };
        };
        loop {
            match file.try_lock() {
                Ok(()) => return Self { _file: Some(file) },
                Err(TryLockError::WouldBlock) if begun.elapsed() < at_most => thread::sleep(PAUSE),
                Err(_) => return Self { _file: None },
            }
        }
    }
}
