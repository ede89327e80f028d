//! Tests of the simulated disk.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disk;
mod sqlite;
