//! Why a message is delivered. The record of the delivery contains this as data.

use serde::{Deserialize, Deserializer, Serialize};

use crate::cause::{Cause, MAX_EVIDENCE_SEQS, Rung};
use crate::subject::Subject;

/// Why a message is delivered: its cause, its number in the series about that cause, and evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// What the message is about.
    pub cause: Cause,
    /// Number of the message in the series about its cause.
    pub rung: Rung,
    /// Sequence numbers of the records that show the cause, at most [`MAX_EVIDENCE_SEQS`].
    #[serde(default, deserialize_with = "newest_evidence")]
    pub evidence: Vec<u64>,
    /// What the calls in the evidence did; `None` if the message is not about calls.
    #[serde(default)]
    pub subject: Option<Subject>,
}

/// Reads stored evidence. If there are more than `MAX_EVIDENCE_SEQS` sequence numbers, only the
/// last ones, which are the newest, are kept.
fn newest_evidence<'de, D: Deserializer<'de>>(evidence: D) -> Result<Vec<u64>, D::Error> {
    let mut evidence = Vec::deserialize(evidence)?;
    evidence.drain(..evidence.len().saturating_sub(MAX_EVIDENCE_SEQS));
    Ok(evidence)
}
