//! Recognises in an imported session file what hooks, the proxy or the library recorded while the run
//! was going on.
//!
//! Most events have a key that both reports share, such as a call id. Messages of the user and the
//! model, compactions and descriptions of the run have none: they are recognised by their content.
//! Equal messages are counted, so that the second of two equal prompts is still added if only one
//! was recorded.

use std::collections::HashMap;

use midcourse_core::{AgentMessage, TrajectoryPayload, UserContent};
use rusqlite::{Connection, params};

use serde::Deserialize as _;

use super::append::run_head;
use super::error::StoreError;
use super::prepare::PreparedEvent;
use super::read;

/// What was recorded of one run while it was going on.
#[derive(Debug, Default)]
pub(super) struct LiveFacts {
    is_recorded: bool,
    /// Whether model responses were recorded with their token counts.
    is_proxied: bool,
    is_described: bool,
    compactions: u64,
    /// How many messages with this digest were recorded and not yet found in the imported file.
    messages: HashMap<blake3::Hash, u64>,
}

impl LiveFacts {
    pub(super) fn read(connection: &Connection, run_id: &str) -> Result<Self, StoreError> {
        let mut facts = Self::default();
        let Some(run) = run_head(connection, run_id)? else { return Ok(facts) };
        let exists = |channels: &str| {
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM records WHERE run = ?1 AND channel IN ({channels}))"
            );
            connection.prepare_cached(&sql)?.query_row(params![run.id], |row| row.get(0))
        };
        facts.is_recorded = exists("'hook', 'proxy', 'library'")?;
        facts.is_proxied = exists("'proxy'")?;
        let rows: Vec<(String, i64)> = connection
            .prepare_cached(
                "SELECT kind, seq FROM records WHERE run = ?1 AND \
                 kind IN ('message_appended', 'run_ended', 'context_compacted', 'run_described') AND \
                 channel IN ('hook', 'proxy', 'library', 'settings')",
            )?
            .query_map(params![run.id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (kind, seq) in rows {
            match kind.as_str() {
                "run_described" => facts.is_described = true,
                "context_compacted" => facts.compactions += 1,
                _ => {
                    let record = read::record(connection, run.id, seq)?;
                    let payload = record
                        .and_then(|record| TrajectoryPayload::deserialize(&record.value).ok());
                    // The end of a subagent has the subagent's last message.
                    let messages = match payload {
                        Some(TrajectoryPayload::MessageAppended { message }) => vec![message],
                        Some(TrajectoryPayload::RunEnded { new_messages, .. }) => new_messages,
                        _ => Vec::new(),
                    };
                    for digest in messages.iter().filter_map(message_digest) {
                        *facts.messages.entry(digest).or_default() += 1;
                    }
                }
            }
        }
        Ok(facts)
    }

    /// Whether the run was recorded while it was going on.
    pub(super) const fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Whether an imported event was recorded already. Each recorded event is found once.
    pub(super) fn take(&mut self, event: &PreparedEvent) -> bool {
        match &event.prepared.record.payload {
            TrajectoryPayload::RunDescribed { .. } => self.is_described,
            TrajectoryPayload::UsageReported { .. } => self.is_proxied,
            TrajectoryPayload::ContextCompacted { .. } => take_one(Some(&mut self.compactions)),
            // The start of a turn says something only in its place.
            TrajectoryPayload::TurnStarted => self.is_recorded,
            TrajectoryPayload::MessageAppended { message } => message_digest(message)
                .is_some_and(|digest| take_one(self.messages.get_mut(&digest))),
            _ => false,
        }
    }
}

fn take_one(count: Option<&mut u64>) -> bool {
    match count {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// A digest of the role and the text of a message; `None` if it has no text.
fn message_digest(message: &AgentMessage) -> Option<blake3::Hash> {
    let (role, text) = match message {
        AgentMessage::User { content: UserContent::Text(text), .. } => (b'u', text.as_str().into()),
        AgentMessage::Assistant { content, .. } => (b'a', content.plain_text()),
        // Prompts that the agent wrote itself, and interruptions.
        AgentMessage::Custom { kind, payload, .. } => (b'c', format!("{kind} {payload}").into()),
        _ => return None,
    };
    let text = text.trim();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[role]).update(text.as_bytes());
    (!text.is_empty()).then(|| hasher.finalize())
}
