//! ATIF, the Agent Trajectory Interchange Format of Harbor: one JSON document per run, with its
//! subagents (docs/atif.md).
//!
//! `steps` turns records into steps, `document` writes the other fields. ATIF has no place for
//! everything that a record contains, so each step also has the records that it was made of, in
//! `extra.midcourse`, without the texts that are in the step itself (`moved`). `read` restores these
//! records, and makes events of the documents of other programs.

mod content;
mod document;
mod moved;
mod read;
mod step;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use document::{Header, closing, opening};
pub(crate) use read::{reader, recognises};
pub(crate) use steps::StepBuilder;

/// Name of the field in `extra` that has midcourse's own data.
const OWN: &str = "midcourse";

/// Version of the data in `extra.midcourse`.
const OWN_FORMAT: u64 = 1;

/// Maximum number of levels of subagents: a subagent, its subagents, and so on.
pub(crate) const MAX_SUBAGENT_LEVELS: usize = 16;

/// A version of ATIF that midcourse writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_7,
    V1_8,
}

impl Version {
    const fn schema_version(self) -> &'static str {
        match self {
            Self::V1_7 => "ATIF-v1.7",
            Self::V1_8 => "ATIF-v1.8",
        }
    }
}
