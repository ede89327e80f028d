//! Analysis: the incremental fold over a run's records that every opinion is made from.
//!
//! [`TrajectoryAnalysis`] takes one record at a time and keeps a bounded window of calls and exact
//! counters; `detect` adds the detectors, which look at it after each record. Taking a
//! record in costs the same at the first and the millionth, cannot fail, and asks no clock.

mod call;
mod config;
mod detected;
mod fold;
mod frequency;
mod open_call;
mod pattern;
mod progress;
mod speech;
mod tools;

pub use call::{CallStatus, ToolInvoked};
pub use config::{InvalidWindow, TrajectoryAnalysisConfig, WindowSize};
pub use frequency::{ErrorCount, Frequency, MAX_COUNTED_NAMES};
pub(crate) use open_call::OpenCall;
pub use open_call::PendingToolCall;
pub use pattern::{PatternDetail, PatternType, TrajectoryPattern};
use tools::KnownNames;
pub use tools::{ToolSetting, ToolSettings};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::money::MicroUsd;
use crate::record::{CallId, RunOutcome, Usage};
use crate::text::Excerpt;
use crate::time::Timestamp;
use frequency::ErrorMemory;

/// The most calls that are known to be running at once; beyond it the oldest is forgotten.
pub const MAX_OPEN_CALLS: usize = 16;

/// The latest calls whose ids are known, so that a call reported twice counts once.
pub const MAX_REMEMBERED_CALL_IDS: usize = 64;

/// The longest id of a call that is kept, in bytes.
pub(crate) const CALL_ID_MAX: usize = 128;

/// Texts of the model that are compared with its latest one.
const TEXTS_MAX: usize = 8;

/// How alike the beginnings of two messages are that say the same.
const SAME_WORDS: f64 = 0.9;

/// What is known of a run so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryAnalysis {
    #[serde(skip)]
    config: Arc<TrajectoryAnalysisConfig>,
    #[serde(skip)]
    scratch: Scratch,
    /// The call that the latest record ended is the newest of the window.
    #[serde(skip)]
    call_just_ended: bool,
    /// A call has ended, and nothing has happened since that feedback on it would come too late
    /// for. Saved: a host may ask in another process.
    awaits_feedback: bool,
    /// The call that ended last, unless its id is longer than ids are.
    last_call: Option<CallId>,
    /// The latest record is a word of the person.
    #[serde(skip)]
    user_just_spoke: bool,
    /// The latest record is a word of the model.
    #[serde(skip)]
    model_just_spoke: bool,
    started_at: Option<Timestamp>,
    latest_at: Timestamp,
    latest_seq: u64,
    turns: Turns,
    totals: Totals,
    calls: VecDeque<ToolInvoked>,
    open: Vec<OpenCall>,
    call_ids: VecDeque<Digest>,
    tool_frequency: Frequency,
    errors: ErrorMemory,
    progress: ProgressMark,
    speech: Speech,
    usage: Usage,
    cost: Option<MicroUsd>,
    patterns: Vec<TrajectoryPattern>,
    ended: Option<RunOutcome>,
}

/// Buffers that are reused from record to record and mean nothing between two.
#[derive(Debug, Clone, Default)]
struct Scratch {
    text: Vec<u8>,
    plain: Vec<u8>,
    stripped: Vec<u8>,
    names: KnownNames,
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Where the run is in its turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Turns {
    count: u64,
    /// A `turn_started` without its `turn_ended` yet.
    is_open: bool,
    /// Calls started in the current turn.
    calls_in_turn: u32,
    /// Turns in a row with one call each.
    single_call_turns: u32,
    /// The assistant's message of this turn was taken in: a turn's end repeats it.
    has_answer: bool,
    /// What the person last said asks for the same several times.
    asked_to_repeat: bool,
    /// Calls up to this one were made before a person last spoke.
    spoken_to_at_call: u64,
    /// Calls up to this one are no longer in the agent's context, but for a summary.
    compacted_at_call: u64,
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
    answers: u64,
    lost_records: u64,
    unread: u64,
}

/// The last sign that the run is getting somewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ProgressMark {
    call: u64,
    at: Option<Timestamp>,
    seq: u64,
}

/// What the model says when it calls no tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Speech {
    /// Answers without a tool call, since the last call or word of a person.
    without_call: u32,
    /// How often the latest text has come since then, in nearly the same words.
    same_text: u32,
    /// Announcements in a row of something that a call would do.
    announcements: u32,
    /// The latest texts since then.
    recent: VecDeque<Digest>,
    /// The latest text repeats itself over and over.
    #[serde(skip)]
    is_chant: bool,
    text: Option<Digest>,
    excerpt: Excerpt,
    tools_offered: bool,
}

impl TrajectoryAnalysis {
    /// The analysis of a run that has not begun.
    pub fn new(config: Arc<TrajectoryAnalysisConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// How the run is looked at.
    pub fn config(&self) -> &TrajectoryAnalysisConfig {
        &self.config
    }

    /// Turns so far: model answers with the results that belong to them.
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

    /// The same, where a failing exit that brought new output counts as output.
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

    /// Records that were lost or could not be read.
    pub const fn missing_records(&self) -> u64 {
        self.totals.lost_records + self.totals.unread
    }

    /// Different tools called, exact up to [`MAX_COUNTED_NAMES`].
    pub fn unique_tools(&self) -> usize {
        self.tool_frequency.len()
    }

    /// Calls per tool.
    pub const fn tool_frequency(&self) -> &Frequency {
        &self.tool_frequency
    }

    /// How often each error came, by signature, the most frequent first.
    pub fn error_frequency(&self) -> Vec<ErrorCount> {
        self.errors.by_count()
    }

    /// Whether a tool of this name was called in this run.
    pub fn has_seen_tool(&self, name: &str) -> bool {
        self.tool_frequency.count(name) > 0
    }

    /// From the first record to the latest.
    pub fn duration(&self) -> Duration {
        self.started_at.map_or(Duration::ZERO, |start| self.latest_at.since(start))
    }

    /// When the run began.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// The latest moment any record told.
    pub const fn latest_at(&self) -> Timestamp {
        self.latest_at
    }

    /// The seq of the latest record.
    pub const fn latest_seq(&self) -> u64 {
        self.latest_seq
    }

    /// The calls that are kept, oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ToolInvoked> + ExactSizeIterator {
        self.calls.iter()
    }

    /// The last `n` calls of those that are kept, oldest first.
    pub fn recent_tool_calls(&self, n: usize) -> impl DoubleEndedIterator<Item = &ToolInvoked> {
        self.calls.iter().skip(self.calls.len().saturating_sub(n))
    }

    /// The last `n` failed calls of those that are kept, newest first.
    pub fn recent_errors(&self, n: usize) -> impl Iterator<Item = &ToolInvoked> {
        self.calls.iter().rev().filter(|call| call.is_error()).take(n)
    }

    /// The latest call that ended.
    pub fn latest_call(&self) -> Option<&ToolInvoked> {
        self.calls.back()
    }

    /// The call that the latest record ended, if it ended one.
    pub fn call_just_ended(&self) -> Option<&ToolInvoked> {
        self.calls.back().filter(|_| self.call_just_ended)
    }

    /// Whether feedback on the latest call would still come right behind its result.
    pub const fn awaits_feedback(&self) -> bool {
        self.awaits_feedback
    }

    /// The call that feedback would come behind, where its id is known.
    pub fn call_awaiting_feedback(&self) -> Option<&CallId> {
        self.last_call.as_ref().filter(|_| self.awaits_feedback)
    }

    /// The call that the latest record ended, unless it repeats a sibling of its own round: asking twice at once is not asking
    /// again.
    pub fn distinct_call_just_ended(&self) -> Option<&ToolInvoked> {
        self.call_just_ended().filter(|call| !call.is_duplicate())
    }

    /// Whether the latest record is a word of the person, which begins things anew.
    pub const fn user_just_spoke(&self) -> bool {
        self.user_just_spoke
    }

    /// Whether the person's last word asks for the same several times, so that repeating it is work.
    pub const fn user_asked_to_repeat(&self) -> bool {
        self.turns.asked_to_repeat
    }

    /// Whether the latest record is something that was done or said.
    pub(crate) const fn has_news(&self) -> bool {
        self.call_just_ended || self.user_just_spoke || self.model_just_spoke
    }

    /// The kept calls since a person last spoke, newest first.
    pub fn calls_since_user_message(&self) -> impl Iterator<Item = &ToolInvoked> {
        self.calls.iter().rev().take_while(|call| call.call_index > self.turns.spoken_to_at_call)
    }

    /// The kept calls since a person last spoke, without the latest one and without repeats
    /// within a round, newest first.
    pub fn earlier_distinct_calls(&self) -> impl Iterator<Item = &ToolInvoked> {
        self.calls_since_user_message().skip(1).filter(|call| !call.is_duplicate())
    }

    /// Calls that have begun and not ended.
    pub fn pending_tool_calls(&self) -> impl ExactSizeIterator<Item = PendingToolCall<'_>> {
        self.open.iter().map(OpenCall::pending)
    }

    /// Calls since something last moved: a change landed, an answer or an error was new, a person
    /// spoke.
    pub const fn calls_since_progress(&self) -> u64 {
        self.totals.calls.saturating_sub(self.progress.call)
    }

    /// Time since something last moved.
    pub fn time_since_progress(&self) -> Duration {
        self.progress
            .at
            .or(self.started_at)
            .map_or(Duration::ZERO, |moved| self.latest_at.since(moved))
    }

    /// The record with which something last moved.
    pub const fn progress_seq(&self) -> u64 {
        self.progress.seq
    }

    /// Turns in a row that called exactly one tool, the current one included once its call has
    /// ended.
    pub fn single_call_turns(&self) -> u32 {
        match self.turns.calls_in_turn {
            0 => self.turns.single_call_turns,
            1 => self.turns.single_call_turns + u32::from(self.open.is_empty()),
            _ => 0,
        }
    }

    /// Answers of the model without a tool call, since the last call or word of a person.
    pub const fn responses_without_call(&self) -> u32 {
        self.speech.without_call
    }

    /// Answers of the model with text, over the whole run.
    pub const fn response_count(&self) -> u64 {
        self.totals.answers
    }

    /// How often the model has said nearly the same thing without calling a tool in between.
    pub const fn repeated_response_count(&self) -> u32 {
        self.speech.same_text
    }

    /// How often in a row the model has announced what it would do, and called no tool.
    pub const fn announcement_count(&self) -> u32 {
        self.speech.announcements
    }

    /// Whether the model's latest message repeats itself over and over.
    pub const fn response_repeats_itself(&self) -> bool {
        self.speech.is_chant
    }

    /// The beginning of what the model said last.
    pub fn last_response(&self) -> Option<&str> {
        self.speech.text.map(|_| self.speech.excerpt.as_str())
    }

    /// Whether the model is known to have tools.
    pub const fn has_tools(&self) -> bool {
        self.speech.tools_offered || self.totals.calls > 0
    }

    /// Tokens so far, where the host reports them.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Tokens sent and received so far, the cache's included.
    pub fn tokens(&self) -> u64 {
        let all = [
            self.usage.input_tokens,
            self.usage.output_tokens,
            self.usage.cache_creation_input_tokens,
            self.usage.cache_read_input_tokens,
        ];
        all.into_iter().map(|part| u64::try_from(part).unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Money spent so far, where the host reports it.
    pub const fn cost(&self) -> Option<MicroUsd> {
        self.cost
    }

    /// How the run ended, if it has.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.ended.as_ref()
    }

    /// The patterns that hold now.
    pub fn patterns(&self) -> &[TrajectoryPattern] {
        &self.patterns
    }

    /// The pattern of a type that holds now.
    pub fn pattern(&self, kind: &PatternType) -> Option<&TrajectoryPattern> {
        self.patterns.iter().find(|pattern| pattern.pattern_type() == *kind)
    }

    /// Whether what happened last shows a pattern: the latest turn's calls, or what was said since.
    ///
    /// A pattern may hold while the agent has already turned to something else.
    pub fn shows_now(&self, pattern: &TrajectoryPattern) -> bool {
        let turn = self.latest_call().map(ToolInvoked::turn);
        let latest = self.calls.iter().rev().take_while(|call| Some(call.turn()) == turn);
        let since = latest.last().map_or(0, ToolInvoked::ended_seq);
        pattern.evidence().last().is_none_or(|seq| *seq >= since)
    }

    /// Whether a pattern of a type holds now.
    pub fn has_pattern(&self, kind: &PatternType) -> bool {
        self.pattern(kind).is_some()
    }
}
