//! Ids of runs in the paths of URLs. An id may be any text; `page/address.js` writes ids in the same
//! way.
//!
//! Browsers remove the segments `.` and `..` from a path, even if they are percent-encoded. So `~`
//! stands before these ids, before an empty id, and before an id that begins with `~`.

use std::fmt::Write as _;

use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::Deserializer;

use super::responses::Failure;

/// The id in the path of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunIdSegment(pub(super) String);

impl<'de> Deserialize<'de> for RunIdSegment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(from_segment(&String::deserialize(deserializer)?))
    }
}

/// The id in a segment whose percent-encoding is decoded.
pub(super) fn from_segment(text: &str) -> RunIdSegment {
    RunIdSegment(text.strip_prefix('~').unwrap_or(text).to_owned())
}

/// The id of the run that a request is about, and the seq if the path has one.
pub(super) struct OfRun<T>(pub(super) String, pub(super) T);

impl<S: Send + Sync> FromRequestParts<S> for OfRun<()> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::<RunIdSegment>::from_request_parts(parts, state).await;
        let Path(RunIdSegment(run_id)) =
            path.map_err(|error| Failure::invalid(error.body_text()))?;
        Ok(Self(run_id, ()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfRun<u64> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::<(RunIdSegment, u64)>::from_request_parts(parts, state).await;
        let Path((RunIdSegment(run_id), seq)) =
            path.map_err(|error| Failure::invalid(error.body_text()))?;
        Ok(Self(run_id, seq))
    }
}

/// An id as one segment of a path.
pub(in crate::commands) fn segment(run_id: &str) -> String {
    let mut segment = String::with_capacity(run_id.len());
    if matches!(run_id, "" | "." | "..") || run_id.starts_with('~') {
        segment.push('~');
    }
    for byte in run_id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => {
                segment.push(char::from(byte));
            }
            _ => {
                let _ = write!(segment, "%{byte:02X}");
            }
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_a_path() {
        assert_eq!(segment("a-1_b~"), "a-1_b~");
        assert_eq!(segment("../a b/?#%é"), "..%2Fa%20b%2F%3F%23%25%C3%A9");
        assert_eq!([".", "..", "", "~a"].map(segment), ["~.", "~..", "~", "~~a"]);
    }

    #[test]
    fn the_mark_is_removed_once() {
        let parse = |text: &str| serde_json::from_value::<RunIdSegment>(text.into()).unwrap().0;
        assert_eq!(["~.", "~", "~~a", "a~", ".."].map(parse), [".", "", "~a", "a~", ".."]);
    }
}
