//! Counting by name in bounded room: exact for the first names, together for the rest.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::text::{ErrorClass, ErrorSignature};

/// Names that are counted one by one; the calls of all later names are counted together.
pub const MAX_COUNTED_NAMES: usize = 64;

/// How often each name came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// Sorted by name.
    names: Vec<(CompactString, u64)>,
    other: u64,
}

impl Frequency {
    pub(super) fn add(&mut self, name: &str) {
        match self.names.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => {
                if let Some((_, count)) = self.names.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) if self.names.len() < MAX_COUNTED_NAMES => {
                self.names.insert(at, (CompactString::from(name), 1));
            }
            Err(_) => self.other += 1,
        }
    }

    /// How often a name came; 0 for one that is counted with the others.
    pub fn count(&self, name: &str) -> u64 {
        self.names
            .binary_search_by(|(known, _)| known.as_str().cmp(name))
            .ok()
            .and_then(|at| self.names.get(at))
            .map_or(0, |(_, count)| *count)
    }

    /// How often all names came that are not counted one by one.
    pub const fn other(&self) -> u64 {
        self.other
    }

    /// How many names are counted one by one.
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Each name and how often it came, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

/// One error and how often it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCount {
    /// The error.
    pub signature: ErrorSignature,
    /// How often it came in the whole run.
    pub count: u64,
}

/// How often each error came, by signature.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ErrorMemory {
    /// Sorted by digest.
    known: Vec<(ErrorSignature, u64)>,
    other: u64,
}

impl ErrorMemory {
    pub(super) fn add(&mut self, signature: ErrorSignature) {
        match self.known.binary_search_by_key(&signature.digest, |(known, _)| known.digest) {
            Ok(at) => {
                if let Some((_, count)) = self.known.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) if self.known.len() < MAX_COUNTED_NAMES => {
                self.known.insert(at, (signature, 1));
            }
            Err(_) => self.other += 1,
        }
    }

    pub(super) fn by_count(&self) -> Vec<ErrorCount> {
        let mut counts: Vec<_> = self
            .known
            .iter()
            .map(|(signature, count)| ErrorCount { signature: *signature, count: *count })
            .collect();
        counts.sort_by_key(|error| std::cmp::Reverse(error.count));
        if self.other > 0 {
            let signature = ErrorSignature {
                digest: Default::default(),
                template: Default::default(),
                line: None,
                class: ErrorClass::Other,
            };
            counts.push(ErrorCount { signature, count: self.other });
        }
        counts
    }
}
