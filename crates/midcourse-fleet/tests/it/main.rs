//! Tests of a fleet with a real Postgres. Where there is none, they print that they are skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod activity;
mod chaos;
mod concurrency;
mod contract;
mod hostile;
mod memory;
mod proxy;
mod readers;
mod runs;
mod security;
mod sessions;
mod ship;
mod staging;
mod tls;
mod world;
