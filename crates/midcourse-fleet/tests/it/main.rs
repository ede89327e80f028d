//! Tests of the fleet with a real Postgres, and of archives. Where there is no Postgres, they print that
//! they are skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod activity;
#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_import;
mod chaos;
mod concurrency;
mod contract;
mod hostile;
mod memory;
mod owner;
mod proxy;
#[cfg(feature = "archive")]
mod random_store;
mod readers;
mod refused;
mod runs;
mod security;
mod sessions;
mod ship;
mod staging;
mod tidy;
mod tls;
mod world;
