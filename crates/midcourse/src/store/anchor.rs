//! Heads of runs. A head is the last link of a run's hash chain. The user can save it outside of
//! the store and later compare the store with it.
//!
//! The hash chain of a run reveals a changed record. But anyone who can write to the store can
//! compute a new chain, cut off the end of a run, or delete the run. A head that was saved in a
//! place where that person cannot write reveals this: the run's chain no longer contains the saved
//! link.

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
        self.records == records && self.link == link.to_string()
    }
}

impl Store {
    /// The head of a run; `None` if the run is not stored.
    pub fn head(&self, run_id: &RunId) -> Result<Option<Head>, StoreError> {
        let head = append::run_head(&self.connection, run_id.as_str())?;
        Ok(head.map(|head| Head {
            run_id: run_id.clone(),
            records: u64::try_from(head.next_seq).unwrap_or_default(),
            link: head.link.to_string(),
        }))
    }
}
