//! One Postgres for the runs of many machines: shipping to it, reading from it, and archives.
//!
//! Each machine keeps its own store, which is the outbox. Nothing here is on the path of an agent. The
//! command `midcourse` is the only user; programs that embed midcourse need nothing of this crate.

#[cfg(feature = "archive")]
pub mod archive;
mod copy_folder;
mod error;
mod follower;
mod heads;
mod local_copy;
mod reader;
pub mod schema;
mod ship;
mod target;
mod words;

pub use copy_folder::remove_copies;
pub use error::FleetError;
pub use follower::{Changed, Follower};
pub use heads::{ShippedHeads, shipped_heads};
pub use local_copy::LocalCopy;
pub use reader::{FleetReader, IdPart, ReadRun, RunReader};
pub use ship::{BatchLimit, Level, Progress, Refused, ShipSettings, Shipper, unshipped_runs};
pub use target::FleetTarget;

/// A connection to a fleet, for the functions in [`schema`].
pub use postgres::Client;
