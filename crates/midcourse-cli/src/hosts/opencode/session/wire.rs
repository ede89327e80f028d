//! Sessions, messages and parts of messages, as far as they are used.

use midcourse::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::decode::TokensWire;

/// A row of the database, a file of the storage folder or a part of an exported document. Rows have
/// the field `table`, and most of their contents in `data`.
#[derive(Deserialize)]
pub(super) struct PieceWire<'a> {
    table: Option<String>,
    pub(super) id: Option<String>,
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<String>,
    #[serde(rename = "messageID")]
    pub(super) message_id: Option<String>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    role: Option<String>,
    directory: Option<String>,
    /// The messages of an exported session.
    #[serde(borrow)]
    pub(super) messages: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Session,
    Message,
    Part,
    Unknown,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Part => "part",
            Self::Unknown => "(unknown)",
        }
    }
}

impl PieceWire<'_> {
    pub(super) fn kind(&self) -> Kind {
        match self.table.as_deref() {
            Some("session") => Kind::Session,
            Some("message") => Kind::Message,
            Some("part") => Kind::Part,
            Some(_) => Kind::Unknown,
            None if self.message_id.is_some() => Kind::Part,
            None if self.role.is_some() => Kind::Message,
            None if self.directory.is_some() => Kind::Session,
            None => Kind::Unknown,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ExportedWire<'a> {
    #[serde(borrow)]
    pub(super) info: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct SessionWire {
    #[serde(rename = "parentID", alias = "parent_id")]
    pub(super) parent_id: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) version: Option<String>,
    pub(super) time: Option<TimeWire>,
}

#[derive(Deserialize)]
pub(super) struct MessageWire {
    #[serde(default)]
    pub(super) role: String,
    #[serde(rename = "modelID")]
    pub(super) model_id: Option<String>,
    pub(super) time: Option<TimeWire>,
    pub(super) tokens: Option<TokensWire>,
    /// Why the response ended; missing if it has not.
    pub(super) finish: Option<String>,
    pub(super) error: Option<ErrorWire>,
}

#[derive(Deserialize)]
pub(super) struct ErrorWire {
    name: Option<String>,
    #[serde(default)]
    data: Value,
}

impl ErrorWire {
    pub(super) fn text(self) -> String {
        let message = self.data.get("message").and_then(Value::as_str).map(ToOwned::to_owned);
        message.or(self.name).unwrap_or_default()
    }
}

#[derive(Deserialize)]
pub(super) struct PartWire {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) synthetic: bool,
    #[serde(rename = "callID")]
    pub(super) call_id: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) state: Option<StateWire>,
}

#[derive(Deserialize)]
pub(super) struct StateWire {
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) input: Value,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) metadata: Value,
    pub(super) time: Option<TimeWire>,
}

/// Times in milliseconds since 1970.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct TimeWire {
    #[serde(deserialize_with = "time")]
    pub(super) created: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) start: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) end: Option<Timestamp>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let time = Value::deserialize(deserializer)?;
    Ok(time.as_u64().map(Timestamp::from_unix_ms))
}
