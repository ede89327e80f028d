//! Tests of a fleet with a real Postgres. Where there is none, they print that they are skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod runs;
mod ship;
mod world;
