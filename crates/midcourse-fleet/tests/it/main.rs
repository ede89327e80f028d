//! Tests of the fleet with a real Postgres, and of archives. Where there is no Postgres, they print that
//! they are skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_import;
mod contract;
mod memory;
#[cfg(feature = "archive")]
mod random_store;
mod runs;
mod ship;
mod tidy;
mod world;
