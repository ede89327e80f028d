//! Events: what a host reports, before the store gives it a place in its run.
//!
//! An event knows its run, who reports it and which fact it is, but not its seq: that is assigned
//! in the transaction that stores it. Two sources that see one tool call report one fact.

use std::fmt::Write as _;

use compact_str::CompactString;
use midcourse_core::{
    AgentMessage, DecisionPoint, RunId, RunIdentity, Timestamp, TrajectoryPayload,
};
use serde::{Deserialize, Serialize};

/// Something a host reports about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run.
    pub run: RunIdentity,
    /// Who reports it.
    pub source: Source,
    /// When it was noticed.
    pub at: Timestamp,
    /// Which fact it is, where that can be told. A fact is recorded once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<FactKey>,
    /// Whether the same words from the same source right behind themselves are one fact: a hook
    /// that is installed twice reports everything twice, and not everything has an id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_echo: bool,
    /// A run that held what came before this run was known; its records move here first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopts: Option<RunId>,
    /// The decision point at which a message about this event can still reach the agent; `None` if
    /// none can, so the engine only takes the event in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_point: Option<DecisionPoint>,
    /// The schema the payload was written with.
    pub schema_version: u32,
    /// What happened.
    pub payload: TrajectoryPayload,
}

impl Event {
    /// An event of the current schema; which fact it is follows from the payload.
    pub fn new(
        run: RunIdentity,
        source: Source,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Self {
        let fact = FactKey::of(&payload);
        let schema_version = midcourse_core::TRAJECTORY_SCHEMA_VERSION;
        Self {
            run,
            source,
            at,
            fact,
            may_echo: false,
            adopts: None,
            decision_point: None,
            schema_version,
            payload,
        }
    }

    /// Bytes of a host that could not be read, kept whole: bytes that are no text stand as `\xNN`.
    pub fn unread(run: RunIdentity, source: Source, at: Timestamp, bytes: &[u8]) -> Self {
        let mut raw = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            raw.push_str(chunk.valid());
            for byte in chunk.invalid() {
                // Writing to a string does not fail.
                let _ = write!(raw, "\\x{byte:02x}");
            }
        }
        let payload = TrajectoryPayload::Unread { host: source.host().to_owned(), raw };
        Self::new(run, source, at, payload)
    }

    /// Whether something begins with it: a run, a sitting, the work on a prompt.
    pub const fn begins_something(&self) -> bool {
        match &self.payload {
            TrajectoryPayload::RunStarted { .. } | TrajectoryPayload::Resumed => true,
            TrajectoryPayload::MessageAppended { message } => {
                matches!(message, AgentMessage::User { .. })
            }
            _ => false,
        }
    }

    /// The same event, as this fact.
    #[must_use]
    pub fn with_fact(mut self, fact: impl Into<FactKey>) -> Self {
        self.fact = Some(fact.into());
        self
    }

    /// The same event, about which a message can be delivered at this point.
    #[must_use]
    pub const fn at_decision_point(mut self, point: DecisionPoint) -> Self {
        self.decision_point = Some(point);
        self
    }

    /// The same event, which is one fact if it comes twice in a row.
    #[must_use]
    pub const fn once_in_a_row(mut self) -> Self {
        self.may_echo = true;
        self
    }

    /// The same event, bringing along the records of a provisional run.
    #[must_use]
    pub fn adopting(mut self, provisional: RunId) -> Self {
        self.adopts = Some(provisional);
        self
    }
}

/// A record that was stored elsewhere, on its way into this store.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRecord {
    /// The place that it had there.
    pub seq: Option<u64>,
    /// Secrets that were taken out of it there.
    pub redactions: u32,
    /// The record as an event, and what its source said differently.
    pub events: Vec<Event>,
}

/// Who reports an event: the host, and the way it came (`claude-code/hook`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Source(CompactString);

impl Source {
    /// A host and the way its events come in.
    pub fn new(host: &str, way: &str) -> Self {
        Self(compact_str::format_compact!("{host}/{way}"))
    }

    /// The host.
    pub fn host(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The way its events come.
    pub fn way(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, way)| way)
    }

    /// The source as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Source {
    fn from(source: &str) -> Self {
        Self(source.into())
    }
}

/// Tells one fact of a kind from the others in its run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactKey(CompactString);

impl FactKey {
    /// The key that the payload itself carries: a call's id; a run begins once, and a proxy
    /// attaches to it once.
    pub fn of(payload: &TrajectoryPayload) -> Option<Self> {
        match payload {
            TrajectoryPayload::RunStarted { .. } | TrajectoryPayload::ProxyAttached => {
                Some("run".into())
            }
            // An empty id names no call.
            other => {
                let id = other.call_id().filter(|id| !id.as_str().is_empty());
                id.map(|id| id.as_str().into())
            }
        }
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: AsRef<str>> From<T> for FactKey {
    fn from(key: T) -> Self {
        Self(key.as_ref().into())
    }
}

#[cfg(test)]
mod tests {
    use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload};

    use super::{Event, Source};

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        let source = Source::new("codex", "hook");
        let event = Event::unread(
            RunIdentity::root("r"),
            source,
            Timestamp::default(),
            b"a\0\xff\xfez\xc3",
        );
        let TrajectoryPayload::Unread { host, raw } = event.payload else { unreachable!() };
        assert_eq!((host.as_str(), raw.as_str()), ("codex", "a\0\\xff\\xfez\\xc3"));
    }
}
