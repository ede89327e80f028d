//! The analysis of a trajectory: the incremental fold over a run's records.
//!
//! [`TrajectoryAnalysis`] applies one record at a time and keeps a bounded window of calls and
//! exact counters; detectors, providers and classifiers read it. Applying a record costs the same
//! however long the run is, cannot fail, and reads no clock.

mod call;
mod config;
mod detected;
mod fold;
mod frequency;
mod open_call;
mod pattern;
mod progress;
mod responses;
mod tools;

pub use call::{CallStatus, ToolInvoked};
pub use config::{InvalidWindow, TrajectoryAnalysisConfig, WindowSize};
pub use frequency::{ErrorCount, Frequency, MAX_COUNTED_NAMES};
pub(crate) use open_call::OpenCall;
pub use open_call::PendingToolCall;
pub use pattern::{PatternDetail, PatternType, TrajectoryPattern};
use tools::ToolNameCache;
pub use tools::{ToolSetting, ToolSettings};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::money::MicroUsd;
use crate::record::{CallId, RunOutcome, Usage};
use crate::time::Timestamp;
use frequency::ErrorFrequency;
use responses::Responses;

/// The maximum number of calls that can be open (started and not ended) at once. The oldest is
/// dropped for a new one.
pub const MAX_OPEN_CALLS: usize = 16;

/// How many of the latest call ids are remembered, so that a call reported twice counts once.
pub const MAX_REMEMBERED_CALL_IDS: usize = 64;

/// The longest call id that is kept, in bytes.
pub(crate) const MAX_CALL_ID_BYTES: usize = 128;

/// Everything that is known about a run so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryAnalysis {
    #[serde(skip)]
    config: Arc<TrajectoryAnalysisConfig>,
    #[serde(skip)]
    scratch: Scratch,
    /// Whether the latest record ended a call; that call is then the newest of the kept calls.
    #[serde(skip)]
    call_just_ended: bool,
    /// Whether feedback can still be attached to the result of the latest call. Saved, because a
    /// host may ask for the feedback from another process.
    awaits_feedback: bool,
    /// The id of the call that ended last, unless it is too long to keep.
    last_call: Option<CallId>,
    /// Whether the latest record is a message of the user.
    #[serde(skip)]
    user_just_spoke: bool,
    /// Whether the latest record is a response of the model with text.
    #[serde(skip)]
    model_just_responded: bool,
    started_at: Option<Timestamp>,
    latest_at: Timestamp,
    latest_seq: u64,
    turns: Turns,
    totals: Totals,
    calls: VecDeque<ToolInvoked>,
    open: Vec<OpenCall>,
    call_ids: VecDeque<Digest>,
    tool_frequency: Frequency,
    errors: ErrorFrequency,
    progress: LatestProgress,
    responses: Responses,
    usage: Usage,
    cost: Option<MicroUsd>,
    patterns: Vec<TrajectoryPattern>,
    ended: Option<RunOutcome>,
}

/// Buffers that are reused from record to record to save allocations; nothing reads their old
/// content.
#[derive(Debug, Clone, Default)]
struct Scratch {
    text: Vec<u8>,
    plain: Vec<u8>,
    stripped: Vec<u8>,
    tool_names: ToolNameCache,
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Counters about the current turn and the turns so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Turns {
    count: u64,
    /// Whether the host has reported the turn's start and not yet its end.
    is_open: bool,
    /// Number of calls started in the current turn.
    calls_in_turn: u32,
    /// Number of consecutive turns with exactly one call.
    single_call_turns: u32,
    /// Whether the response of this turn has been applied. The record of the turn's end contains
    /// the response again, and it must not count twice.
    has_response: bool,
    /// Whether the latest user message asks to run something repeatedly.
    user_asked_to_repeat: bool,
    /// Number of calls that had ended at the latest user message.
    calls_at_user_message: u64,
    /// Number of calls that had ended at the latest compaction. The agent's context has at most a
    /// summary of their results.
    calls_at_compaction: u64,
}

/// Counters over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Totals {
    calls: u64,
    errors: u64,
    denied: u64,
    consecutive_errors: u64,
    consecutive_failures: u64,
    compactions: u64,
    responses: u64,
    lost_records: u64,
    unread: u64,
}

/// When the run last made progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct LatestProgress {
    /// Number of calls that had ended by then.
    calls: u64,
    at: Option<Timestamp>,
    seq: u64,
}

impl TrajectoryAnalysis {
    /// The analysis of a run that has no records yet.
    pub fn new(config: Arc<TrajectoryAnalysisConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// The limits and thresholds with which the run is analysed.
    pub fn config(&self) -> &TrajectoryAnalysisConfig {
        &self.config
    }

    /// Turns so far, the current one included. A turn is a model response and its tool results.
    pub const fn turn_count(&self) -> u64 {
        self.turns.count
    }

    /// Tool calls that have ended, over the whole run.
    pub const fn tool_call_count(&self) -> u64 {
        self.totals.calls
    }

    /// Tool calls that failed or were refused, over the whole run.
    pub const fn error_count(&self) -> u64 {
        self.totals.errors
    }

    /// Tool calls that were refused, over the whole run.
    pub const fn denied_count(&self) -> u64 {
        self.totals.denied
    }

    /// Failed calls since the last one that succeeded.
    pub const fn consecutive_errors(&self) -> u64 {
        self.totals.consecutive_errors
    }

    /// Like [`Self::consecutive_errors`], unless `failing_exit_is_output` is configured: then a
    /// failing exit code with new output does not count, and a user message resets the count.
    pub fn consecutive_failures(&self) -> u64 {
        if self.config.failing_exit_is_output {
            self.totals.consecutive_failures
        } else {
            self.totals.consecutive_errors
        }
    }

    /// How often the host has compacted the conversation.
    pub const fn compaction_count(&self) -> u64 {
        self.totals.compactions
    }

    /// Number of records that were lost or could not be decoded; the analysis is without them.
    pub const fn missing_records(&self) -> u64 {
        self.totals.lost_records + self.totals.unread
    }

    /// How many different tools were called; exact up to [`MAX_COUNTED_NAMES`].
    pub fn unique_tools(&self) -> usize {
        self.tool_frequency.len()
    }

    /// How often each tool was called.
    pub const fn tool_frequency(&self) -> &Frequency {
        &self.tool_frequency
    }

    /// How often each error occurred, by signature, the most frequent first.
    pub fn error_frequency(&self) -> Vec<ErrorCount> {
        self.errors.by_count()
    }

    /// Whether a tool of this name was called in this run.
    pub fn has_seen_tool(&self, name: &str) -> bool {
        self.tool_frequency.count(name) > 0
    }

    /// The time from the first record to the latest.
    pub fn duration(&self) -> Duration {
        self.started_at.map_or(Duration::ZERO, |start| self.latest_at.since(start))
    }

    /// The time of the first record; `None` before it.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// The latest time of any record; a record with an earlier time does not set it back.
    pub const fn latest_at(&self) -> Timestamp {
        self.latest_at
    }

    /// The position in the run (seq) of the latest record.
    pub const fn latest_seq(&self) -> u64 {
        self.latest_seq
    }

    /// The latest calls, as many as the configuration keeps, oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ToolInvoked> + ExactSizeIterator {
        self.calls.iter()
    }

    /// The last `n` of the kept calls, oldest first.
    pub fn recent_tool_calls(&self, n: usize) -> impl DoubleEndedIterator<Item = &ToolInvoked> {
        self.calls.iter().skip(self.calls.len().saturating_sub(n))
    }

    /// The last `n` of the kept calls that failed or were refused, newest first.
    pub fn recent_errors(&self, n: usize) -> impl Iterator<Item = &ToolInvoked> {
        self.calls.iter().rev().filter(|call| call.is_error()).take(n)
    }

    /// The latest call that ended; `None` before the first one.
    pub fn latest_call(&self) -> Option<&ToolInvoked> {
        self.calls.back()
    }

    /// The call that the latest record ended; `None` if that record did not end a call.
    pub fn call_just_ended(&self) -> Option<&ToolInvoked> {
        self.calls.back().filter(|_| self.call_just_ended)
    }

    /// Whether feedback can still be attached to the result of the latest call: it got none yet,
    /// and the model has not moved on.
    pub const fn awaits_feedback(&self) -> bool {
        self.awaits_feedback
    }

    /// The id of the call to whose result feedback can still be attached; `None` if it is too late
    /// for feedback, or if the id is too long to keep.
    pub fn call_awaiting_feedback(&self) -> Option<&CallId> {
        self.last_call.as_ref().filter(|_| self.awaits_feedback)
    }

    /// The call that the latest record ended, unless its turn contains an equal call: two equal
    /// calls at once are not a repetition.
    pub fn distinct_call_just_ended(&self) -> Option<&ToolInvoked> {
        self.call_just_ended().filter(|call| !call.is_duplicate())
    }

    /// Whether the latest record is a user message, after which detectors start over.
    pub const fn user_just_spoke(&self) -> bool {
        self.user_just_spoke
    }

    /// Whether the latest user message asks for repeated runs, so that repetition is not a loop.
    pub const fn user_asked_to_repeat(&self) -> bool {
        self.turns.user_asked_to_repeat
    }

    /// Whether the latest record ended a call or is a message.
    pub(crate) const fn latest_is_call_or_message(&self) -> bool {
        self.call_just_ended || self.user_just_spoke || self.model_just_responded
    }

    /// The kept calls since the latest user message, newest first.
    pub fn calls_since_user_message(&self) -> impl Iterator<Item = &ToolInvoked> {
        let calls_before = self.turns.calls_at_user_message;
        self.calls.iter().rev().take_while(move |call| call.call_index > calls_before)
    }

    /// Like [`Self::calls_since_user_message`], without the latest call and without calls that only
    /// repeat another call of their turn.
    pub fn earlier_distinct_calls(&self) -> impl Iterator<Item = &ToolInvoked> {
        self.calls_since_user_message().skip(1).filter(|call| !call.is_duplicate())
    }

    /// Calls that have started and not ended, such as those that run at the moment.
    pub fn pending_tool_calls(&self) -> impl ExactSizeIterator<Item = PendingToolCall<'_>> {
        self.open.iter().map(OpenCall::pending)
    }

    /// Number of calls since the latest progress. Progress is a new change, result, target or
    /// error, or a message of the user.
    pub const fn calls_since_progress(&self) -> u64 {
        self.totals.calls.saturating_sub(self.progress.calls)
    }

    /// Time since the latest progress.
    pub fn time_since_progress(&self) -> Duration {
        self.progress
            .at
            .or(self.started_at)
            .map_or(Duration::ZERO, |progress| self.latest_at.since(progress))
    }

    /// The position in the run (seq) of the record with the latest progress.
    pub const fn progress_seq(&self) -> u64 {
        self.progress.seq
    }

    /// Number of consecutive turns with exactly one call, including the current turn once its call
    /// has ended.
    pub fn single_call_turns(&self) -> u32 {
        match self.turns.calls_in_turn {
            0 => self.turns.single_call_turns,
            1 => self.turns.single_call_turns + u32::from(self.open.is_empty()),
            _ => 0,
        }
    }

    /// Responses without a tool call since the latest call or user message.
    pub const fn responses_without_call(&self) -> u32 {
        self.responses.without_call
    }

    /// Responses with text, over the whole run.
    pub const fn response_count(&self) -> u64 {
        self.totals.responses
    }

    /// Number of responses since the latest call or user message with nearly the same text as the
    /// latest response, including the latest response.
    pub const fn repeated_response_count(&self) -> u32 {
        self.responses.same_text
    }

    /// Consecutive responses that only announce an action and call no tool.
    pub const fn announcement_count(&self) -> u32 {
        self.responses.announcements
    }

    /// Whether the latest response repeats one piece of text over and over.
    pub const fn response_repeats_itself(&self) -> bool {
        self.responses.repeats_itself
    }

    /// The beginning of the latest response. Untrusted: never put it in a message.
    pub fn last_response(&self) -> Option<&str> {
        self.responses.last()
    }

    /// Whether a request has offered the model tools, or the model has called one.
    pub const fn has_tools(&self) -> bool {
        self.responses.tools_offered || self.totals.calls > 0
    }

    /// Tokens of all responses so far; 0 if the host does not report them.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Tokens sent and received so far, including those written to and read from the cache.
    pub fn tokens(&self) -> u64 {
        let all = [
            self.usage.input_tokens,
            self.usage.output_tokens,
            self.usage.cache_creation_input_tokens,
            self.usage.cache_read_input_tokens,
        ];
        all.into_iter().map(|part| u64::try_from(part).unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Money spent so far; `None` if the host does not report it.
    pub const fn cost(&self) -> Option<MicroUsd> {
        self.cost
    }

    /// How the run ended; `None` while it goes on.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.ended.as_ref()
    }

    /// The patterns that detectors currently report.
    pub fn patterns(&self) -> &[TrajectoryPattern] {
        &self.patterns
    }

    /// The pattern of this type that a detector currently reports, if any.
    pub fn pattern(&self, kind: &PatternType) -> Option<&TrajectoryPattern> {
        self.patterns.iter().find(|pattern| pattern.pattern_type() == *kind)
    }

    /// Whether the evidence of a pattern includes a call of the latest turn or a later record.
    ///
    /// A pattern can still be present when the agent has already turned to something else.
    pub fn shows_now(&self, pattern: &TrajectoryPattern) -> bool {
        let turn = self.latest_call().map(ToolInvoked::turn);
        let latest = self.calls.iter().rev().take_while(|call| Some(call.turn()) == turn);
        let since = latest.last().map_or(0, ToolInvoked::ended_seq);
        pattern.evidence().last().is_none_or(|seq| *seq >= since)
    }

    /// Whether a detector currently reports a pattern of this type.
    pub fn has_pattern(&self, kind: &PatternType) -> bool {
        self.pattern(kind).is_some()
    }
}
