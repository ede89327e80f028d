//! The analysis of a trajectory, which is the sequence of a run's records.
//!
//! [`TrajectoryAnalysis`] takes one record at a time. It keeps the latest tool calls, up to a
//! configured number (the *kept calls*), and counters over the whole run. The analysis is read by
//! detectors, which find patterns such as loops, and by the providers and classifiers, which decide
//! about messages to the agent. Applying a record takes the same time however long the run is,
//! cannot fail, and reads no clock.
//!
//! A *host* is the program that runs the agent and reports what happens in the run.

mod activity;
mod call;
mod call_failure;
mod call_flags;
mod config;
mod conversation;
mod detected;
mod fold;
mod frequency;
mod open_call;
mod pattern;
mod preamble;
mod progress;
mod responses;
mod result_digest;
mod subject;
mod tools;

pub use call::{CallStatus, ToolInvoked};
pub use call_failure::call_failed;
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
use crate::text::Request;
use crate::time::Timestamp;
use frequency::ErrorFrequency;
use preamble::Preamble;
use responses::Responses;

/// The maximum number of open calls (started and not ended) that are kept. If one more call starts,
/// the oldest open call is dropped.
pub const MAX_OPEN_CALLS: usize = 16;

/// How many of the latest call ids are remembered, so that a call reported twice counts once.
pub const MAX_REMEMBERED_CALL_IDS: usize = 64;

/// The longest call id that is stored as text, in bytes. Hosts may send ids of any length.
pub(crate) const MAX_CALL_ID_BYTES: usize = 128;

/// What is known about a run so far: its latest calls, the patterns that detectors report, and
/// counters over all records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryAnalysis {
    #[serde(skip)]
    config: Arc<TrajectoryAnalysisConfig>,
    #[serde(skip)]
    scratch: Scratch,
    /// Whether the latest record ended a call. If so, that call is the last one in `calls`.
    #[serde(skip)]
    call_just_ended: bool,
    /// Whether feedback can still be attached to the result of the latest call. A checkpoint saves
    /// this, because the process that delivers the feedback may not be the process that recorded
    /// the call.
    awaits_feedback: bool,
    /// The id of the call that ended last; `None` if the id is longer than `MAX_CALL_ID_BYTES`, or
    /// if the call was not recorded but passed to `Session::dispatch`.
    last_call: Option<CallId>,
    #[serde(skip)]
    user_just_spoke: bool,
    /// Whether the latest record contains a model response that has text.
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
    preamble: Preamble,
    #[serde(with = "crate::record::all_counts")]
    usage: Usage,
    cost: Option<MicroUsd>,
    patterns: Vec<TrajectoryPattern>,
    ended: Option<RunOutcome>,
}

/// Memory that is reused from record to record to save work: three buffers, which are cleared
/// before each use, and a cache of what tool names say. None of it is a result of the analysis, so
/// two values always compare as equal.
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
    /// Whether the host has reported the start of the current turn and has not reported its end.
    is_open: bool,
    /// Number of calls that belong to the current turn.
    calls_in_turn: u32,
    /// Number of consecutive turns with exactly one call.
    single_call_turns: u32,
    /// Whether the model response of the current turn has been counted. The record of the turn's
    /// end contains the response again, which must not be counted twice.
    has_response: bool,
    /// What the latest user message asks for.
    request: Request,
    /// Digest of the latest message with the user's role, if it is plain text. The host may have
    /// written it.
    user_text: Option<Digest>,
    /// Number of calls that had ended when the user sent the latest message.
    calls_at_user_message: u64,
    /// Number of calls that had ended when the host last compacted the conversation. The agent's
    /// context has at most a summary of the results of these calls.
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
    /// Number of calls that had ended when the run last made progress.
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

    /// Number of turns so far, including the current turn. A turn is a model response and the
    /// results of the tool calls in it.
    pub const fn turn_count(&self) -> u64 {
        self.turns.count
    }

    /// Number of tool calls that have ended, over the whole run.
    pub const fn tool_call_count(&self) -> u64 {
        self.totals.calls
    }

    /// Number of tool calls that failed or were refused, over the whole run.
    pub const fn error_count(&self) -> u64 {
        self.totals.errors
    }

    /// Number of tool calls that were refused, over the whole run.
    pub const fn denied_count(&self) -> u64 {
        self.totals.denied
    }

    /// Number of calls since the latest successful call; all of them failed or were refused.
    pub const fn consecutive_errors(&self) -> u64 {
        self.totals.consecutive_errors
    }

    /// Number of consecutive failures, as providers and classifiers count them to decide whether
    /// the agent needs a message.
    ///
    /// If `failing_exit_is_output` is configured, two events reset this number to 0 although no
    /// call succeeded: a user message, and a shell command that fails with another error than all
    /// earlier calls, because its output tells the agent something new. Without that option, this
    /// is the same as [`Self::consecutive_errors`].
    pub fn consecutive_failures(&self) -> u64 {
        if self.config.failing_exit_is_output {
            self.totals.consecutive_failures
        } else {
            self.totals.consecutive_errors
        }
    }

    /// How often the host has compacted the conversation, that is, replaced it by a summary.
    pub const fn compaction_count(&self) -> u64 {
        self.totals.compactions
    }

    /// Number of events that the analysis does not include because they were lost or could not be
    /// decoded.
    pub const fn missing_records(&self) -> u64 {
        self.totals.lost_records + self.totals.unread
    }

    /// How many different tools were called. The result is at most [`MAX_COUNTED_NAMES`], because
    /// further tools have no count of their own.
    pub fn unique_tools(&self) -> usize {
        self.tool_frequency.len()
    }

    /// How often each tool was called.
    pub const fn tool_frequency(&self) -> &Frequency {
        &self.tool_frequency
    }

    /// How often each error occurred, the most frequent error first. Errors with equal signatures
    /// count as one error.
    pub fn error_frequency(&self) -> Vec<ErrorCount> {
        self.errors.by_count()
    }

    /// Whether a tool of this name was called in this run. Only the first `MAX_COUNTED_NAMES`
    /// different tools are known; for other tools this is `false`.
    pub fn has_seen_tool(&self, name: &str) -> bool {
        self.tool_frequency.count(name) > 0
    }

    /// The time from the first record to the latest one; zero before the first record.
    pub fn duration(&self) -> Duration {
        self.started_at.map_or(Duration::ZERO, |start| self.latest_at.since(start))
    }

    /// The time of the first record; `None` if there is no record yet.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// The highest time of any record so far. If the host's clock steps back, this time does not.
    pub const fn latest_at(&self) -> Timestamp {
        self.latest_at
    }

    /// The position in the run (seq) of the latest record.
    pub const fn latest_seq(&self) -> u64 {
        self.latest_seq
    }

    /// The kept calls, oldest first: the latest calls that have ended, at most as many as the
    /// configured window.
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

    /// Whether feedback can still be attached to the result of the latest call: no feedback was
    /// delivered after the call, and no later call, turn or message and no end of the run was
    /// recorded.
    pub const fn awaits_feedback(&self) -> bool {
        self.awaits_feedback
    }

    /// The id of the call to whose result feedback can still be attached; `None` if it is too late
    /// for feedback, or if the call's id was not kept.
    pub fn call_awaiting_feedback(&self) -> Option<&CallId> {
        self.last_call.as_ref().filter(|_| self.awaits_feedback)
    }

    /// The call that the latest record ended; `None` if the record ended no call, or if an earlier
    /// call of the same turn is exactly equal. A model that makes two equal calls at once does not
    /// repeat itself, so detectors of repetition leave out the second call.
    pub fn distinct_call_just_ended(&self) -> Option<&ToolInvoked> {
        self.call_just_ended().filter(|call| !call.is_duplicate())
    }

    /// Whether the latest record is a user message, after which detectors start over.
    pub const fn user_just_spoke(&self) -> bool {
        self.user_just_spoke
    }

    /// Whether the latest record ended a call, or is a message of the user or of the model.
    pub(crate) const fn latest_is_call_or_message(&self) -> bool {
        self.call_just_ended || self.user_just_spoke || self.model_just_responded
    }

    /// The kept calls since the latest user message, newest first.
    pub fn calls_since_user_message(&self) -> impl Iterator<Item = &ToolInvoked> {
        let calls_before = self.turns.calls_at_user_message;
        self.calls.iter().rev().take_while(move |call| call.call_index > calls_before)
    }

    /// The kept calls since the latest user message, newest first, without the latest call and
    /// without calls that are exactly equal to an earlier call of the same turn.
    pub fn earlier_distinct_calls(&self) -> impl Iterator<Item = &ToolInvoked> {
        self.calls_since_user_message().skip(1).filter(|call| !call.is_duplicate())
    }

    /// Calls that have started and have not ended, oldest first, at most `MAX_OPEN_CALLS`.
    pub fn pending_tool_calls(&self) -> impl ExactSizeIterator<Item = PendingToolCall<'_>> {
        self.open.iter().map(OpenCall::pending)
    }

    /// Number of calls since the run last made progress. A run makes progress when a call changes
    /// something or has a new target, result or error, and when the user sends a message.
    pub const fn calls_since_progress(&self) -> u64 {
        self.totals.calls.saturating_sub(self.progress.calls)
    }

    /// The time since the run last made progress, or since it started if it has made none.
    /// Resuming a run sets this time to zero.
    pub fn time_since_progress(&self) -> Duration {
        self.progress
            .at
            .or(self.started_at)
            .map_or(Duration::ZERO, |progress| self.latest_at.since(progress))
    }

    /// The position in the run (seq) of the record with which the run last made progress; 0 if the
    /// run has made none.
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

    /// Whether the agent is known to have tools: a model request offered some, or a call has ended.
    pub const fn has_tools(&self) -> bool {
        self.responses.tools_offered || self.totals.calls > 0
    }

    /// Number of tokens so far, for each kind of token; 0 if the host does not report them.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Number of tokens sent and received so far, including tokens written to and read from the
    /// model's prompt cache.
    pub fn tokens(&self) -> u64 {
        let all = [
            self.usage.input_tokens,
            self.usage.output_tokens,
            self.usage.cache_creation_input_tokens,
            self.usage.cache_read_input_tokens,
        ];
        all.into_iter().map(|part| u64::try_from(part).unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Whether a part of the tokens is estimated.
    pub const fn has_estimated_tokens(&self) -> bool {
        self.usage.is_estimate
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

    /// Whether a pattern shows in what the agent does now: its newest evidence is not older than
    /// the first call of the latest turn that has calls. A pattern without evidence always shows.
    ///
    /// If this is `false`, the agent is already doing something else, although a detector still
    /// reports the pattern.
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
