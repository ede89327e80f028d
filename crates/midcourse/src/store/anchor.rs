//! Heads of runs, which the user may keep outside of the store, and comparing the store with them.
//!
//! The hash chain of a run shows that a record was changed, but whoever may write to the store can
//! compute a new chain, cut off the end of a run, or delete it. A head that was copied to a place
//! where that person cannot write shows it: the chain of the run must still contain that link.

use midcourse_core::RunId;
use serde::{Deserialize, Serialize};

use super::Store;
use super::append;
use super::chain::Link;
use super::error::StoreError;

/// The last link of a run's hash chain at some moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Id of the run.
    pub run_id: RunId,
    /// How many records the run had.
    pub records: u64,
    /// The link, in hexadecimal digits.
    pub link: String,
}

impl Head {
    /// Whether this is the head of a run with this many records and this last link.
    pub(super) fn is(&self, records: u64, link: &Link) -> bool {
        self.records == records && self.link == hex(link)
    }
}

impl Store {
    /// The head of a run; `None` if the run is not stored.
    pub fn head(&self, run_id: &RunId) -> Result<Option<Head>, StoreError> {
        let head = append::run_head(&self.connection, run_id.as_str())?;
        Ok(head.map(|head| Head {
            run_id: run_id.clone(),
            records: u64::try_from(head.next_seq).unwrap_or_default(),
            link: hex(&head.link),
        }))
    }
}

fn hex(link: &Link) -> String {
    blake3::Hash::from_bytes(*link.as_bytes()).to_hex().to_string()
}
