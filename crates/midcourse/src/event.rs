//! Events: what a host (the program that midcourse is plugged into) reports about a run.
//!
//! The same thing may be reported twice, for example by a hook and by the proxy. So an event has,
//! where possible, a fact key: a text that identifies what happened. Events with the same key and
//! payload kind are stored as one record. An event also has a decision point: the moment of the
//! agent's turn at which a message about the event can still be shown to the agent. When an event
//! is stored, it gets its seq: its position in the run.

use std::fmt::Write as _;

use compact_str::CompactString;
use midcourse_core::{
    AgentMessage, DecisionPoint, RunId, RunIdentity, TRAJECTORY_SCHEMA_VERSION, Timestamp,
    TrajectoryPayload,
};
use serde::{Deserialize, Serialize};

use crate::label::Label;

/// Something that happened in a run, as a host reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run in which this happened.
    pub run: RunIdentity,
    /// The host that reports the event, and the channel by which it arrives.
    pub source: Source,
    /// When the event happened or, if that is unknown, when it was reported.
    pub at: Timestamp,
    /// Identifies what happened among events of the same payload kind in this run: a second event
    /// with the same key is a duplicate. `None` if nothing identifies the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<FactKey>,
    /// Whether this event is a duplicate if the run's latest event is equal and from the same
    /// source. Meant for events without a fact key: if a hook is installed twice, it reports each
    /// of them twice in a row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dedupe_consecutive: bool,
    /// The id of a provisional run, which holds events that arrived before the real id of this run
    /// was known. Its records move into this run before the event is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopts: Option<RunId>,
    /// The decision point at which a message about this event can still reach the agent. `None` if
    /// it is too late for a message: the engine then analyses the event, but returns no message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_point: Option<DecisionPoint>,
    /// The schema version that the payload was written with.
    pub schema_version: u32,
    /// What happened.
    pub payload: TrajectoryPayload,
}

impl Event {
    /// Creates an event with the current schema version. Its fact key is derived from the payload,
    /// and its decision point is `None`.
    pub fn new(
        run: RunIdentity,
        source: Source,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Self {
        Self {
            run,
            source,
            at,
            fact: FactKey::of(&payload),
            dedupe_consecutive: false,
            adopts: None,
            decision_point: None,
            schema_version: TRAJECTORY_SCHEMA_VERSION,
            payload,
        }
    }

    /// Creates an event that keeps input from a host which could not be decoded. Bytes that are not
    /// UTF-8 are written as `\xNN`.
    pub fn unread(run: RunIdentity, source: Source, at: Timestamp, bytes: &[u8]) -> Self {
        let mut raw = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            raw.push_str(chunk.valid());
            for byte in chunk.invalid() {
                // Writing to a string cannot fail.
                let _ = write!(raw, "\\x{byte:02x}");
            }
        }
        let payload = TrajectoryPayload::Unread { host: source.host().to_owned(), raw };
        Self::new(run, source, at, payload)
    }

    /// Whether the event starts a run, continues one, or is a new message from the user.
    pub const fn begins_something(&self) -> bool {
        match &self.payload {
            TrajectoryPayload::RunStarted { .. } | TrajectoryPayload::Resumed => true,
            TrajectoryPayload::MessageAppended { message } => {
                matches!(message, AgentMessage::User { .. })
            }
            _ => false,
        }
    }

    /// Sets the fact key. A second event of the same payload kind with this key is a duplicate.
    #[must_use]
    pub fn with_fact(mut self, fact: impl Into<FactKey>) -> Self {
        self.fact = Some(fact.into());
        self
    }

    /// Sets the decision point: the moment at which a message about this event can still be shown
    /// to the agent.
    #[must_use]
    pub const fn at_decision_point(mut self, point: DecisionPoint) -> Self {
        self.decision_point = Some(point);
        self
    }

    /// Makes this event a duplicate if the run's latest event is equal and from the same source.
    #[must_use]
    pub const fn deduped(mut self) -> Self {
        self.dedupe_consecutive = true;
        self
    }

    /// Moves the records of a provisional run into this event's run before the event is stored. Use
    /// this when events were stored under a temporary id before the run's real id was known.
    #[must_use]
    pub fn adopting(mut self, provisional: RunId) -> Self {
        self.adopts = Some(provisional);
        self
    }
}

/// A record that was exported from another store or written by another program.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRecord {
    /// The seq that the record had in the other store, if it had one.
    pub seq: Option<u64>,
    /// The number of secrets that the other store redacted in this record.
    pub redactions: u32,
    /// The record as an event. If the other store had conflicting versions of the record, each
    /// follows as an event of its own.
    pub events: Vec<Event>,
    /// What a person said about the record in the other store. A label of the whole run comes with
    /// one of its records, which is usually the first.
    pub labels: Vec<Label>,
}

impl From<Event> for ForeignRecord {
    /// An event that no other store has numbered.
    fn from(event: Event) -> Self {
        Self { seq: None, redactions: 0, labels: Vec::new(), events: vec![event] }
    }
}

/// Where an event comes from: the host, and the channel by which the event reached midcourse. If
/// the same source reports one event twice with different content, the second report is a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    host: CompactString,
    channel: Channel,
}

impl Source {
    /// Creates a source from the name of a host, such as `claude-code`, and the channel by which
    /// its events arrive.
    pub fn new(host: &str, channel: Channel) -> Self {
        Self { host: host.into(), channel }
    }

    /// The name of the program that midcourse is plugged into, or of the model API behind the
    /// proxy.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How the event reached midcourse.
    pub const fn channel(&self) -> Channel {
        self.channel
    }
}

/// How an event reached midcourse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A hook of a coding agent.
    Hook,
    /// The transcript that a coding agent keeps, read by a hook.
    Transcript,
    /// The proxy between an agent and its model.
    Proxy,
    /// A program that embeds this crate, or pipes its events into `midcourse record`.
    Library,
    /// A file that was imported.
    Import,
    /// midcourse itself, which records the run's configuration and deadline.
    Settings,
    /// The engine, which records its messages for the agent and what followed them.
    Engine,
    /// The store, which adds gap markers (how many events were lost), and a first record for a
    /// parent run of which no event has arrived.
    Store,
}

impl Channel {
    const ALL: [Self; 8] = [
        Self::Hook,
        Self::Transcript,
        Self::Proxy,
        Self::Library,
        Self::Import,
        Self::Settings,
        Self::Engine,
        Self::Store,
    ];

    /// The name of the channel in stored and exported data, the same in all releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Transcript => "transcript",
            Self::Proxy => "proxy",
            Self::Library => "library",
            Self::Import => "import",
            Self::Settings => "settings",
            Self::Engine => "engine",
            Self::Store => "store",
        }
    }

    /// The channel with this stored name; `None` if this release has no such channel.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.as_str() == name)
    }
}

/// A text that identifies what happened. Two events of one run with the same key and payload kind
/// report the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactKey(CompactString);

impl FactKey {
    /// The key that follows from a payload: the id of the payload's tool call, or `run` for a kind
    /// of event that happens once in a run. `None` for other payloads.
    pub fn of(payload: &TrajectoryPayload) -> Option<Self> {
        match payload {
            TrajectoryPayload::RunStarted { .. } | TrajectoryPayload::ProxyAttached => {
                Some("run".into())
            }
            // An empty id does not identify a call.
            other => {
                let id = other.call_id().filter(|id| !id.as_str().is_empty());
                id.map(|id| id.as_str().into())
            }
        }
    }

    /// The key as stored in the database.
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

    use super::{Channel, Event, Source};

    #[test]
    fn bytes_that_are_not_utf8_are_kept_as_escapes() {
        let source = Source::new("codex", Channel::Hook);
        let event = Event::unread(
            RunIdentity::root("r"),
            source,
            Timestamp::default(),
            b"a\0\xff\xfez\xc3",
        );
        let TrajectoryPayload::Unread { host, raw } = event.payload else { unreachable!() };
        assert_eq!((host.as_str(), raw.as_str()), ("codex", "a\0\\xff\\xfez\\xc3"));
    }

    #[test]
    fn channels_read_back_by_their_names() {
        for channel in Channel::ALL {
            assert_eq!(Channel::from_name(channel.as_str()), Some(channel));
        }
        assert_eq!(Channel::from_name("pigeon"), None);
    }
}
