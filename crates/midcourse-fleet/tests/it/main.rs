//! Tests of a fleet with a real Postgres. Where there is none, they print that they are skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod contract;
mod memory;
mod runs;
mod security;
mod ship;
mod staging;
mod world;
