//! Ids of traces and spans. They follow from the ids of runs and calls, so that exporting a run again
//! gives the same ids.

pub(super) type SpanId = [u8; 8];

/// The trace of a run and its subagents, by the id of the run that a user started.
pub(crate) fn trace_id(root_run: &str) -> [u8; 16] {
    let mut id = [0; 16];
    hash(&["trace", root_run]).fill(&mut id);
    id
}

pub(super) fn span_id(parts: &[&str]) -> SpanId {
    let mut id = [0; 8];
    hash(parts).fill(&mut id);
    id
}

/// A hash of the parts. Each part is hashed with its length, so that two lists of parts with the same
/// bytes differ.
fn hash(parts: &[&str]) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or_default().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize_xof()
}
