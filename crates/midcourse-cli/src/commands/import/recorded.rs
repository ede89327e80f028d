//! Leaves out of an import what hooks or the proxy have recorded of the same run, where no key tells.
//!
//! Calls and token counts have the same keys in both. Messages do not: hooks report no ids for them, so
//! they are compared by their text. Hooks of some hosts report no ids of calls either; there, an
//! imported call gets the id of the recorded call with the same tool and arguments.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use midcourse::{
    AgentMessage, Channel, Event, RunId, Store, StoreError, StoredRecord, TrajectoryPayload,
    UserContent,
};
use serde_json::Value;

use crate::hosts::Host;

/// Records are read from the store in portions of this many.
const PORTION: usize = 500;

/// What hooks or the proxy recorded of the runs of this import.
#[derive(Default)]
pub(super) struct RecordedRuns(HashMap<RunId, Option<RecordedRun>>);

#[derive(Default)]
struct RecordedRun {
    /// How many messages with this content are recorded and were not found in the import yet.
    messages: HashMap<u64, usize>,
    /// Ids of calls whose hooks reported none, by tool and arguments, in order.
    calls: HashMap<u64, VecDeque<String>>,
    /// The ids of recorded calls, by their ids in the import.
    renamed: HashMap<String, String>,
    /// Values of folder, version and model that are recorded.
    descriptions: HashSet<String>,
    compactions: usize,
    /// Whether the proxy recorded the tokens, whose keys are those of the model API.
    has_tokens: bool,
}

impl RecordedRuns {
    /// Whether an event is recorded already. May give the event's call another id.
    pub(super) fn contain(&mut self, store: &Store, event: &mut Event) -> Result<bool, StoreError> {
        if event.source.channel() != Channel::Import {
            return Ok(false);
        }
        let id = &event.run.run_id;
        if !self.0.contains_key(id) {
            self.0.insert(id.clone(), RecordedRun::load(store, id)?);
        }
        let run = self.0.get_mut(id).and_then(Option::as_mut);
        Ok(run.is_some_and(|run| run.contains(event)))
    }
}

impl RecordedRun {
    /// `None` if neither hooks nor the proxy recorded this run.
    fn load(store: &Store, id: &RunId) -> Result<Option<Self>, StoreError> {
        let (mut run, mut is_live, mut from) = (Self::default(), false, 0);
        loop {
            let records = store.records_or_damage(id.as_str(), from, PORTION)?;
            let Some((last, _)) = records.last() else { break };
            from = last.saturating_add(1);
            for record in records.into_iter().filter_map(|(_, record)| record.ok()) {
                match record.source.channel() {
                    Channel::Hook | Channel::Transcript | Channel::Proxy | Channel::Library => {
                        is_live = true;
                        run.add(record);
                    }
                    Channel::Settings => run.add(record),
                    Channel::Import | Channel::Engine | Channel::Store => {}
                }
            }
        }
        Ok(is_live.then_some(run))
    }

    fn add(&mut self, record: StoredRecord) {
        let (host, channel) = (record.source.host().to_owned(), record.source.channel());
        match record.into_record().payload {
            TrajectoryPayload::MessageAppended { message } => self.add_message(&message),
            TrajectoryPayload::RunEnded { new_messages, .. } => {
                new_messages.iter().for_each(|message| self.add_message(message));
            }
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args }
                if has_no_call_ids(&host) =>
            {
                let calls = self.calls.entry(call_hash(tool_name.as_str(), &args)).or_default();
                calls.push_back(tool_call_id.as_str().to_owned());
            }
            TrajectoryPayload::RunDescribed { folder, host_version, model, .. } => {
                self.descriptions.extend([folder, host_version, model].into_iter().flatten());
            }
            TrajectoryPayload::ContextCompacted { .. } => self.compactions += 1,
            TrajectoryPayload::UsageReported { .. } if channel == Channel::Proxy => {
                self.has_tokens = true;
            }
            _ => {}
        }
    }

    fn add_message(&mut self, message: &AgentMessage) {
        if let Some(hash) = message_hash(message) {
            *self.messages.entry(hash).or_default() += 1;
        }
    }

    fn contains(&mut self, event: &mut Event) -> bool {
        match &mut event.payload {
            TrajectoryPayload::MessageAppended { message } => {
                let hash = message_hash(message);
                let left = hash.and_then(|hash| self.messages.get_mut(&hash));
                left.filter(|left| **left > 0).map(|left| *left -= 1).is_some()
            }
            // The start of a turn says something only in its place.
            TrajectoryPayload::TurnStarted => true,
            TrajectoryPayload::ContextCompacted { .. } => {
                let is_recorded = self.compactions > 0;
                self.compactions = self.compactions.saturating_sub(1);
                is_recorded
            }
            TrajectoryPayload::UsageReported { .. } => self.has_tokens,
            TrajectoryPayload::RunDescribed { folder, host_version, model, .. } => {
                for field in [&mut *folder, &mut *host_version, &mut *model] {
                    field.take_if(|value| self.descriptions.contains(value));
                }
                folder.is_none() && host_version.is_none() && model.is_none()
            }
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                let calls = self.calls.get_mut(&call_hash(tool_name.as_str(), args));
                if let Some(recorded) = calls.and_then(VecDeque::pop_front) {
                    self.renamed.insert(tool_call_id.as_str().to_owned(), recorded.clone());
                    *tool_call_id = (&recorded).into();
                    event.fact = Some(recorded.into());
                }
                false
            }
            TrajectoryPayload::ToolEnded { tool_call_id, .. }
            | TrajectoryPayload::Denied { tool_call_id, .. } => {
                if let Some(recorded) = self.renamed.get(tool_call_id.as_str()) {
                    *tool_call_id = recorded.into();
                    event.fact = Some(recorded.as_str().into());
                }
                false
            }
            _ => false,
        }
    }
}

fn has_no_call_ids(host: &str) -> bool {
    Host::named(host).is_some_and(|host| !host.capabilities().has_call_ids)
}

fn call_hash(tool: &str, args: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, args.to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Equal for messages with the same role and text. `None` if a message has no text.
fn message_hash(message: &AgentMessage) -> Option<u64> {
    let (role, text) = match message {
        AgentMessage::User { content: UserContent::Text(text), .. } => ("user", text.clone()),
        AgentMessage::Assistant { content, .. } => ("assistant", content.plain_text().into_owned()),
        AgentMessage::Custom { kind, payload, .. } => (kind.as_str(), payload.to_string()),
        _ => return None,
    };
    if text.is_empty() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (role, text.trim()).hash(&mut hasher);
    Some(hasher.finish())
}
