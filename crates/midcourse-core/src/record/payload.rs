//! The payload of a record: what happened, by kind.
//!
//! There is no kind for the pieces of a streamed response: a response is recorded once, when it is
//! complete. A reader that does not know a kind can still order and count records of this kind,
//! because run, seq and time are outside the payload.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::is_false;
use super::{AgentMessage, CallId, RunIdentity, RunOutcome, ToolResult, Usage};
use crate::message::{Assignment, Feedback, GuidanceDelivered, OutcomeVerdict};
use crate::money::MicroUsd;
use crate::time::Timestamp;

/// What happened in one event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrajectoryPayload {
    /// The agent began to work.
    RunStarted {
        /// Id of the run, and of the run that started it.
        identity: RunIdentity,
    },
    /// The agent stopped working.
    RunEnded {
        /// Whether the run finished, failed or was stopped.
        outcome: RunOutcome,
        /// Messages that the run added to the conversation.
        new_messages: Vec<AgentMessage>,
    },
    /// A turn started: the next model request is about to be made.
    TurnStarted,
    /// A turn ended: the model responded and its tools have run.
    TurnEnded {
        /// The model's response.
        assistant: AgentMessage,
        /// Results of the tool calls in that response.
        tool_results: Vec<AgentMessage>,
    },
    /// A message was added to the conversation.
    MessageAppended {
        /// The whole message.
        message: AgentMessage,
    },
    /// A tool began to work on a call.
    ToolStarted {
        /// Id of the call. The record of the call's end has the same id.
        tool_call_id: CallId,
        /// Name of the tool.
        tool_name: CompactString,
        /// Arguments of the call, as the model wrote them.
        args: Value,
    },
    /// A tool finished a call.
    ToolEnded {
        /// Id of the call. The record of the call's start has the same id.
        tool_call_id: CallId,
        /// Name of the tool.
        tool_name: CompactString,
        /// What the tool returned.
        result: ToolResult,
        /// Whether the host reports the call as failed.
        is_error: bool,
    },
    /// A model request was prepared.
    ProviderRequestPrepared {
        /// Number of the request in the run, from 0.
        iteration: usize,
        /// Name of the model; `None` if the host does not report it.
        model_id: Option<String>,
        /// Length of the system prompt, in characters.
        system_prompt_chars: usize,
        /// Number of messages in the request.
        message_count: usize,
        /// Number of tools that the model may call.
        tool_count: usize,
        /// Names of the tools that the model may call.
        tools: Vec<String>,
        /// Whether the model's server may keep the request for later ones. Then a message that was
        /// inserted into it may stay in the conversation.
        #[serde(default, skip_serializing_if = "is_false")]
        kept_by_server: bool,
    },
    /// A plugin of the host changed the messages of a request.
    ContextTransformApplied {
        /// Number of the request in the run, from 0.
        iteration: usize,
        /// Name of the plugin.
        plugin: String,
        /// Number of messages before the change.
        before_count: usize,
        /// Number of messages after the change.
        after_count: usize,
    },
    /// A plugin of the host limited the tools that the model may call in a request.
    ToolGateApplied {
        /// Number of the request in the run, from 0.
        iteration: usize,
        /// Name of the plugin.
        plugin: String,
        /// Names of the tools that the plugin allows; `None` if it allows all tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
    },
    /// Several plugins of the host limited the tools, and no tool was allowed by all of them, so
    /// the host followed only one plugin.
    ToolGateConflictResolved {
        /// Number of the request in the run, from 0.
        iteration: usize,
        /// Names of the plugins whose limits conflict.
        plugins: Vec<String>,
        /// Name of the plugin that the host followed; `None` if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chosen_plugin: Option<String>,
        /// Names of the tools that the model may call.
        allow: Vec<String>,
        /// Why the host chose that plugin.
        reason: String,
    },
    /// A response was cut off at the limit on output tokens, and the host repeated the request with
    /// a higher limit.
    OutputTokensEscalation {
        /// How many times the host has repeated the request, as the host counts.
        attempt: u32,
        /// Limit on output tokens of the request that was cut off.
        prev_cap: u32,
        /// Limit on output tokens of the repeated request.
        new_cap: u32,
    },
    /// Feedback was delivered to the agent or, in shadow mode or by an experiment, only recorded.
    FeedbackDelivered {
        /// The feedback, with its provider, its parts and what it is about.
        feedback: Feedback,
        /// The rendered text of the feedback.
        text: String,
        /// Id of the call to whose result the feedback was attached; `None` if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<CallId>,
        /// Whether the feedback was only recorded and not delivered (shadow mode).
        #[serde(default)]
        shadow: bool,
        /// Whether an experiment let the agent have the feedback; `None` if the feedback is not
        /// part of an experiment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assignment: Option<Assignment>,
    },
    /// Guidance was delivered to the agent or, in shadow mode or by an experiment, only recorded.
    GuidanceDelivered {
        /// The guidance, with its provider and its decision point.
        guidance: GuidanceDelivered,
        /// Whether the guidance was only recorded and not delivered (shadow mode).
        #[serde(default)]
        shadow: bool,
        /// Whether an experiment let the agent have the guidance; `None` if the guidance is not
        /// part of an experiment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assignment: Option<Assignment>,
    },
    /// midcourse decided whether feedback or guidance that it delivered earlier has helped.
    Outcome {
        /// Position in the run (seq) of the record of the delivered message.
        delivery_seq: u64,
        /// Whether the problem that the message was about went away.
        verdict: OutcomeVerdict,
        /// Number of tool calls from the message to the verdict. If the problem shows in the text
        /// of model responses, this counts model responses instead.
        after_calls: u64,
    },
    /// The run's deadline was set or removed.
    DeadlineSet {
        /// The deadline; `None` removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_unix_ms: Option<Timestamp>,
    },
    /// A configuration applies to the records after this one.
    ConfigApplied {
        /// The text of the configuration, or its digest or name.
        config: String,
        /// The prompt that the run uses from here on. `None` means that another use of `midcourse
        /// run` begins here, possibly to continue an earlier run: budgets count from here on, and
        /// messages that were only recorded before (shadow mode) are forgotten.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_name: Option<CompactString>,
    },
    /// A file was created.
    FileCreated {
        /// Path of the file, as the host reports it.
        path: String,
    },
    /// The host reported how many tokens one model response used. This is a record of its own
    /// because no recorded message has these counts: they were read from the host's own log of the
    /// conversation (its transcript), or the response is not part of the conversation, for example
    /// because the host asked the model for a title.
    UsageReported {
        /// Tokens of this one request and response.
        usage: Usage,
    },
    /// The host reported what the run has cost.
    CostReported {
        /// Cost of the whole run so far, not of one request.
        total_micro_usd: MicroUsd,
    },
    /// The model requests of this run go through midcourse's proxy. From now on, the proxy delivers
    /// messages to the agent, and midcourse's hooks do not.
    ProxyAttached,
    /// Something about the run as a whole became known. A field that is present replaces what was
    /// recorded in this field before.
    RunDescribed {
        /// The agent's working directory when the run began: the folder of its project.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// The command line with which the agent was started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Version of the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_version: Option<String>,
        /// Name of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Exit code of the command. If a signal ended it: 128 plus the number of the signal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// The run was resumed after it had stopped.
    Resumed,
    /// A tool call was refused before it ran.
    Denied {
        /// Id of the call.
        tool_call_id: CallId,
        /// Name of the tool.
        tool_name: CompactString,
        /// Why the call was refused; `None` if the host gives no reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The host replaced the conversation so far with a summary.
    ContextCompacted {
        /// The host's word for what caused the summary, such as `auto` or `manual`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<String>,
    },
    /// Events were lost at this place of the run, because they could not be stored.
    Gap {
        /// Number of missing records.
        lost: u64,
        /// Why the records were lost.
        reason: GapReason,
    },
    /// The host sent a payload that could not be decoded; it is stored unchanged.
    Unread {
        /// Name of the host that sent the payload.
        host: String,
        /// The payload as the host sent it.
        raw: String,
    },
}

/// Why records are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The store refused to write the records.
    Rejected,
    /// Writing to the store failed.
    Io,
    /// Events came in faster than the store could write them.
    Overload,
    /// The records were stored, and were lost later because the store was damaged.
    Damage,
}

impl TrajectoryPayload {
    /// Names of all kinds, as in the JSON of records.
    pub const KINDS: [&'static str; 27] = [
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
        "run_described",
        "resumed",
        "denied",
        "context_compacted",
        "gap",
        "unread",
    ];

    /// Name of the kind, as in the JSON of records.
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
            Self::RunDescribed { .. } => "run_described",
            Self::Resumed => "resumed",
            Self::Denied { .. } => "denied",
            Self::ContextCompacted { .. } => "context_compacted",
            Self::Gap { .. } => "gap",
            Self::Unread { .. } => "unread",
        }
    }

    /// Id of the tool call that was started, ended or refused; `None` for all other kinds.
    pub const fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::ToolStarted { tool_call_id, .. }
            | Self::ToolEnded { tool_call_id, .. }
            | Self::Denied { tool_call_id, .. } => Some(tool_call_id),
            _ => None,
        }
    }

    /// What an experiment decided about this message; `None` if it is not part of one.
    pub const fn assignment(&self) -> Option<Assignment> {
        match self {
            Self::FeedbackDelivered { assignment, .. }
            | Self::GuidanceDelivered { assignment, .. } => *assignment,
            _ => None,
        }
    }

    /// Whether the payload is a message that an experiment withheld from the agent.
    pub const fn is_withheld(&self) -> bool {
        matches!(self.assignment(), Some(Assignment::Withheld))
    }

    /// Whether the payload is a message that the agent got: one that is not only recorded, because
    /// of the shadow mode or an experiment.
    pub const fn reached_agent(&self) -> bool {
        matches!(
            self,
            Self::FeedbackDelivered { shadow: false, .. }
                | Self::GuidanceDelivered { shadow: false, .. }
        ) && !self.is_withheld()
    }

    /// Whether the payload is a decision of midcourse (a message or an outcome) and not an event
    /// that the host reported. A replay drops these records and makes the decisions again.
    pub const fn is_conclusion(&self) -> bool {
        matches!(
            self,
            Self::FeedbackDelivered { .. } | Self::GuidanceDelivered { .. } | Self::Outcome { .. }
        )
    }
}
