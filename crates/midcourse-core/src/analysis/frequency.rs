//! Counts how often each tool was called and each error occurred, in bounded memory: the first 64
//! different tools or errors have a count each, all further ones share one count.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::text::{ErrorSignature, FailureKind};

/// How many different names are counted individually; all further names share one count.
pub const MAX_COUNTED_NAMES: usize = 64;

/// How often each name occurred, for up to `MAX_COUNTED_NAMES` different names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// Each name with its count, sorted by name.
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

    /// How often a name occurred; 0 for a name that is not counted individually.
    pub fn count(&self, name: &str) -> u64 {
        self.names
            .binary_search_by(|(known, _)| known.as_str().cmp(name))
            .ok()
            .and_then(|at| self.names.get(at))
            .map_or(0, |(_, count)| *count)
    }

    /// How often names occurred that have no count of their own, all of these names together.
    pub const fn other(&self) -> u64 {
        self.other
    }

    /// How many different names have a count of their own.
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name has occurred.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Each name with its count, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

/// An error and how often it occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCount {
    /// Signature of the error's first occurrence. Errors that have no count of their own share one
    /// item, whose signature is empty.
    pub signature: ErrorSignature,
    /// Number of occurrences in the whole run.
    pub count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ErrorFrequency {
    /// Each error with its count, sorted by digest.
    known: Vec<(ErrorSignature, u64)>,
    other: u64,
}

impl ErrorFrequency {
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
                kind: FailureKind::Other,
            };
            counts.push(ErrorCount { signature, count: self.other });
        }
        counts
    }
}
