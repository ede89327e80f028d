//! What a run is about and how it went, computed from its records one by one.
//!
//! The `summaries` table has this for every run, so that a list of many runs reads no records.

use std::collections::BTreeMap;

use midcourse_core::{
    AgentMessage, MicroUsd, OutcomeVerdict, StopReason, Timestamp, TrajectoryPattern,
    TrajectoryPayload, Usage,
};

use serde::{Deserialize, Serialize};

use super::task::task_of;

/// Maximum number of bytes that are kept of a text, such as a command line.
const MAX_TEXT_BYTES: usize = 1_000;

/// Facts about a run, from its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) task: Option<String>,
    pub(super) folder: Option<String>,
    pub(super) command: Option<String>,
    pub(super) host_version: Option<String>,
    pub(super) model: Option<String>,
    pub(super) exit_code: Option<i64>,
    /// When the run ended: whether the model's last response was an answer, or an error. `None` if
    /// the agent was in the middle of its work.
    pub(super) answered: Option<bool>,
    /// Whether the tokens of the current turn are counted, so that the end of the turn, which has
    /// them too, does not count them again.
    pub(super) responded: bool,
    pub(super) tokens: Option<Usage>,
    pub(super) cost: Option<MicroUsd>,
    /// Messages that were recorded and not shown: in shadow mode, or withheld by an experiment.
    pub(super) shadow_deliveries: u64,
    pub(super) cleared: u64,
    pub(super) ignored: u64,
}

impl Facts {
    /// Whether a record with this payload may change the facts. The records of tool calls do not, so
    /// most hooks need not read and write the row.
    pub(super) const fn concern(payload: &TrajectoryPayload) -> bool {
        match payload {
            TrajectoryPayload::MessageAppended { message } => {
                matches!(message, AgentMessage::User { .. } | AgentMessage::Assistant { .. })
            }
            TrajectoryPayload::FeedbackDelivered { .. }
            | TrajectoryPayload::GuidanceDelivered { .. } => !payload.reached_agent(),
            TrajectoryPayload::ProviderRequestPrepared { model_id, .. } => model_id.is_some(),
            TrajectoryPayload::TurnEnded { .. }
            | TrajectoryPayload::UsageReported { .. }
            | TrajectoryPayload::CostReported { .. }
            | TrajectoryPayload::RunDescribed { .. }
            | TrajectoryPayload::Outcome { .. }
            | TrajectoryPayload::RunEnded { .. }
            | TrajectoryPayload::Resumed => true,
            _ => false,
        }
    }

    /// Adds what a record says. `answered` is asked only at the end of the run: how the model's
    /// latest response ended, see [`answer_of`].
    pub(super) fn add(
        &mut self,
        payload: &TrajectoryPayload,
        answered: impl FnOnce() -> Option<bool>,
    ) {
        match payload {
            TrajectoryPayload::MessageAppended { message } => match message {
                AgentMessage::User { content, .. } if self.task.is_none() => {
                    self.task = task_of(content);
                }
                AgentMessage::Assistant { usage, .. } => {
                    self.responded = true;
                    self.add_usage(usage.as_ref());
                }
                _ => {}
            },
            TrajectoryPayload::TurnEnded { assistant, .. } => {
                if let AgentMessage::Assistant { usage, .. } = assistant
                    && !self.responded
                {
                    self.add_usage(usage.as_ref());
                }
                self.responded = false;
            }
            TrajectoryPayload::UsageReported { usage } => self.add_usage(Some(usage)),
            TrajectoryPayload::CostReported { total_micro_usd } => {
                self.cost = Some(*total_micro_usd);
            }
            // Agents ask small models for titles and summaries, without tools. The model of the run
            // is the one that works with tools.
            TrajectoryPayload::ProviderRequestPrepared { model_id, tool_count, .. }
                if *tool_count > 0 || self.model.is_none() =>
            {
                replace(&mut self.model, model_id.as_ref());
            }
            TrajectoryPayload::RunDescribed { folder, command, host_version, model, exit_code } => {
                replace(&mut self.folder, folder.as_ref());
                replace(&mut self.command, command.as_ref());
                replace(&mut self.host_version, host_version.as_ref());
                replace(&mut self.model, model.as_ref());
                self.exit_code = exit_code.map(i64::from).or(self.exit_code);
            }
            TrajectoryPayload::FeedbackDelivered { .. }
            | TrajectoryPayload::GuidanceDelivered { .. } => {
                self.shadow_deliveries += u64::from(!payload.reached_agent());
            }
            TrajectoryPayload::Outcome { verdict, .. } => match verdict {
                OutcomeVerdict::Cleared => self.cleared += 1,
                OutcomeVerdict::Ignored => self.ignored += 1,
                OutcomeVerdict::RunEnded => {}
            },
            TrajectoryPayload::RunEnded { new_messages, .. } => {
                self.answered = match new_messages.last() {
                    Some(AgentMessage::Assistant { stop_reason, .. }) => is_answer(*stop_reason),
                    _ => answered(),
                };
            }
            // How the run ended before says nothing about how it ends now.
            TrajectoryPayload::Resumed => (self.exit_code, self.answered) = (None, None),
            _ => {}
        }
    }

    fn add_usage(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.tokens.get_or_insert_default().add(usage);
        }
    }
}

/// Replaces a text by a new one, cut to a bounded length, if there is a new one.
fn replace(text: &mut Option<String>, by: Option<&String>) {
    if let Some(by) = by.filter(|by| !by.is_empty()) {
        *text = by.get(..by.floor_char_boundary(MAX_TEXT_BYTES)).map(str::to_owned);
    }
}

/// Kinds of records after which [`answer_of`] tells whether the model had answered.
pub(super) const ANSWER_KINDS: &str =
    "'message_appended', 'turn_ended', 'tool_started', 'tool_ended', 'denied'";

/// What the latest record of one of the [`ANSWER_KINDS`] says: `Some(true)` if the model had just
/// given an answer, `Some(false)` if its response had failed, `None` if the agent was in the middle
/// of its work.
pub(super) const fn answer_of(payload: &TrajectoryPayload) -> Option<bool> {
    match payload {
        TrajectoryPayload::MessageAppended {
            message: AgentMessage::Assistant { stop_reason, .. },
        }
        | TrajectoryPayload::TurnEnded {
            assistant: AgentMessage::Assistant { stop_reason, .. },
            ..
        } => is_answer(*stop_reason),
        _ => None,
    }
}

const fn is_answer(stop_reason: StopReason) -> Option<bool> {
    match stop_reason {
        StopReason::EndTurn => Some(true),
        StopReason::Error => Some(false),
        _ => None,
    }
}

/// Where the engine found the first pattern of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The record at which it was found.
    pub seq: u64,
    /// When this record happened.
    pub at: Timestamp,
    /// The number of tool calls that had ended by then.
    pub calls: u64,
}

/// What the engine found in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Where it found the first pattern.
    pub trouble: Option<Trouble>,
    /// How often it found each pattern.
    pub patterns: BTreeMap<String, u64>,
}

impl Findings {
    /// Adds the patterns that the engine found at a record. `calls` is the number of tool calls that
    /// had ended by then. Waiting is no trouble and does not count.
    pub fn add(&mut self, patterns: &[TrajectoryPattern], calls: u64) {
        for pattern in patterns.iter().filter(|pattern| pattern.pattern_type().is_trouble()) {
            let (seq, at) = (pattern.first_seq(), pattern.first_seen());
            self.trouble.get_or_insert(Trouble { seq, at, calls });
            *self.patterns.entry(pattern.pattern_type().as_str().to_owned()).or_default() += 1;
        }
    }
}
