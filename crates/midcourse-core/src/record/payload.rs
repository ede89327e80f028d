//! The facts a record can hold.
//!
//! A reader that does not care for a kind can still order and count it. Streaming deltas have no
//! kind: a fact is recorded once, in its final form.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentMessage, CallId, RunIdentity, RunOutcome, ToolResult, Usage};
use crate::message::{Feedback, GuidanceDelivered, OutcomeVerdict};
use crate::money::MicroUsd;
use crate::time::Timestamp;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrajectoryPayload {
    /// The run is known from here on.
    RunStarted {
        /// Who it is.
        identity: RunIdentity,
    },
    /// The run is over.
    RunEnded {
        /// How it ended.
        outcome: RunOutcome,
        /// What the run added to the conversation.
        new_messages: Vec<AgentMessage>,
    },
    /// The model is about to be asked.
    TurnStarted,
    /// The model answered and its tools have run.
    TurnEnded {
        /// The answer.
        assistant: AgentMessage,
        /// What the tools returned.
        tool_results: Vec<AgentMessage>,
    },
    /// The conversation grew by a message.
    MessageAppended {
        /// The message, whole.
        message: AgentMessage,
    },
    /// A tool was called.
    ToolStarted {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: CompactString,
        /// What it was asked.
        args: Value,
    },
    /// A tool returned.
    ToolEnded {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: CompactString,
        /// What it returned.
        result: ToolResult,
        /// Whether it failed.
        is_error: bool,
    },
    /// A request for the model was put together.
    ProviderRequestPrepared {
        /// Which request of the run.
        iteration: usize,
        /// The model.
        model_id: Option<String>,
        /// Length of the system prompt, in characters.
        system_prompt_chars: usize,
        /// Number of messages.
        message_count: usize,
        /// Number of tools offered.
        tool_count: usize,
        /// Their names.
        tools: Vec<String>,
    },
    /// A plugin of the host changed the context of a request.
    ContextTransformApplied {
        /// Which request of the run.
        iteration: usize,
        /// The plugin.
        plugin: String,
        /// Messages before.
        before_count: usize,
        /// Messages after.
        after_count: usize,
    },
    /// A plugin of the host limited the tools of a request.
    ToolGateApplied {
        /// Which request of the run.
        iteration: usize,
        /// The plugin.
        plugin: String,
        /// The tools left, or all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
    },
    /// The limits of several plugins left no tool, so the host chose one plugin's.
    ToolGateConflictResolved {
        /// Which request of the run.
        iteration: usize,
        /// The plugins.
        plugins: Vec<String>,
        /// The one that was followed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chosen_plugin: Option<String>,
        /// The tools left.
        allow: Vec<String>,
        /// Why that one.
        reason: String,
    },
    /// The host threw away a cut-off answer and asked again with more room.
    OutputTokensEscalation {
        /// Which attempt.
        attempt: u32,
        /// The room before.
        prev_cap: u32,
        /// The room now.
        new_cap: u32,
    },
    /// Feedback reached the agent, or would have.
    FeedbackDelivered {
        /// What was said and why.
        feedback: Feedback,
        /// The words as the host got them.
        text: String,
        /// The call whose result carried it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<CallId>,
        /// Recorded only: nothing reached the agent.
        #[serde(default)]
        shadow: bool,
    },
    /// Guidance reached the agent, or would have.
    GuidanceDelivered {
        /// What was said, where and why.
        guidance: GuidanceDelivered,
        /// Recorded only: nothing reached the agent.
        #[serde(default)]
        shadow: bool,
    },
    /// What followed something that was said.
    Outcome {
        /// The record of what was said.
        delivery_seq: u64,
        /// What followed.
        verdict: OutcomeVerdict,
        /// Calls it took to tell.
        after_calls: u64,
    },
    /// The run has a deadline, or has none any more.
    DeadlineSet {
        /// The moment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_unix_ms: Option<Timestamp>,
    },
    /// A configuration is in force from here on.
    ConfigApplied {
        /// Which, as a digest or a name.
        config: String,
        /// The prompt the run works on from here on. Without one these are the terms of a launch,
        /// and its budgets count from here; what only a shadow said before was not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_name: Option<CompactString>,
    },
    /// A file appeared.
    FileCreated {
        /// Where.
        path: String,
    },
    /// The host reported the tokens of one model response that is not recorded as a message with
    /// its usage, for example from a transcript or for a request outside the conversation.
    UsageReported {
        /// Tokens of that response alone.
        usage: Usage,
    },
    /// The host reported what the run has cost.
    CostReported {
        /// Cost of the run so far.
        total_micro_usd: MicroUsd,
    },
    /// A proxy sees the model requests of this run, so hooks leave deliveries to it.
    ProxyAttached,
    /// A run that had stopped goes on.
    Resumed,
    /// A tool call was refused before it ran.
    Denied {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: CompactString,
        /// Why, where the host says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The host replaced the conversation so far by a summary.
    ContextCompacted {
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<String>,
    },
    /// Records were lost here.
    Gap {
        /// How many.
        lost: u64,
        /// Why.
        reason: GapReason,
    },
    /// The host sent something that could not be read; it is kept.
    Unread {
        /// The host.
        host: String,
        /// What it sent.
        raw: String,
    },
}

/// Why records are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The store refused them.
    Rejected,
    /// The store could not be reached.
    Io,
    /// They came faster than they could be written.
    Overload,
}

impl TrajectoryPayload {
    /// All kinds, as they stand in records.
    pub const KINDS: [&'static str; 26] = [
        "run_started",
        "run_ended",
        "turn_started",
        "turn_ended",
        "message_appended",
        "tool_started",
        "tool_ended",
        "provider_request_prepared",
        "context_transform_applied",
        "tool_gate_applied",
        "tool_gate_conflict_resolved",
        "output_tokens_escalation",
        "feedback_delivered",
        "guidance_delivered",
        "outcome",
        "deadline_set",
        "config_applied",
        "file_created",
        "usage_reported",
        "cost_reported",
        "proxy_attached",
        "resumed",
        "denied",
        "context_compacted",
        "gap",
        "unread",
    ];

    /// The kind, as it stands in the record.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "run_started",
            Self::RunEnded { .. } => "run_ended",
            Self::TurnStarted => "turn_started",
            Self::TurnEnded { .. } => "turn_ended",
            Self::MessageAppended { .. } => "message_appended",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolEnded { .. } => "tool_ended",
            Self::ProviderRequestPrepared { .. } => "provider_request_prepared",
            Self::ContextTransformApplied { .. } => "context_transform_applied",
            Self::ToolGateApplied { .. } => "tool_gate_applied",
            Self::ToolGateConflictResolved { .. } => "tool_gate_conflict_resolved",
            Self::OutputTokensEscalation { .. } => "output_tokens_escalation",
            Self::FeedbackDelivered { .. } => "feedback_delivered",
            Self::GuidanceDelivered { .. } => "guidance_delivered",
            Self::Outcome { .. } => "outcome",
            Self::DeadlineSet { .. } => "deadline_set",
            Self::ConfigApplied { .. } => "config_applied",
            Self::FileCreated { .. } => "file_created",
            Self::UsageReported { .. } => "usage_reported",
            Self::CostReported { .. } => "cost_reported",
            Self::ProxyAttached => "proxy_attached",
            Self::Resumed => "resumed",
            Self::Denied { .. } => "denied",
            Self::ContextCompacted { .. } => "context_compacted",
            Self::Gap { .. } => "gap",
            Self::Unread { .. } => "unread",
        }
    }

    /// The tool call that this is a fact about.
    pub const fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::ToolStarted { tool_call_id, .. }
            | Self::ToolEnded { tool_call_id, .. }
            | Self::Denied { tool_call_id, .. } => Some(tool_call_id),
            _ => None,
        }
    }

    /// Whether this is an opinion that a replay drops and makes anew.
    pub const fn is_opinion(&self) -> bool {
        matches!(
            self,
            Self::FeedbackDelivered { .. } | Self::GuidanceDelivered { .. } | Self::Outcome { .. }
        )
    }
}
