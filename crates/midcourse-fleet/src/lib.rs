//! One Postgres for the runs of many machines: shipping to it, reading from it, and archives.
//!
//! Each machine keeps its own store, which is the outbox. Nothing here is on the path of an agent. The
//! command `midcourse` is the only user; programs that embed midcourse need nothing of this crate.

#[cfg(feature = "archive")]
pub mod archive;
