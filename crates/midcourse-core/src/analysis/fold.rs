//! Updates the analysis with one record after the other.
//!
//! The `match` on the payload names every kind, so that a new kind does not compile until somebody
//! decides what it means for the analysis. [`TrajectoryAnalysis::push_call`] is the only place that
//! counts calls.

use std::time::Duration;

use serde_json::Value;

use super::call_failure::error_flag;
use super::{
    MAX_CALL_ID_BYTES, MAX_OPEN_CALLS, MAX_REMEMBERED_CALL_IDS, OpenCall, ToolInvoked,
    TrajectoryAnalysis,
};
use crate::digest::Digest;
use crate::record::{AgentMessage, CallId, TrajectoryPayload, TrajectoryRecord, UserContent};
use crate::text::{Request, is_automatic, is_summary};
use crate::time::Timestamp;

impl TrajectoryAnalysis {
    /// Updates the analysis with one record. `prompt` is the number of the prompt that the agent
    /// currently works with; a call keeps it, because the session counts calls per prompt.
    pub(crate) fn apply(&mut self, record: &TrajectoryRecord, prompt: u8) {
        let pause = record.at().since(self.latest_at);
        self.advance(record.seq, record.at());
        self.awaits_feedback &= !makes_feedback_late(&record.payload);
        match &record.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                self.start_call(tool_call_id, tool_name, args, record.at());
            }
            TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error } => {
                let Some(open) = self.take_open_call(tool_call_id, tool_name, record.at()) else {
                    return;
                };
                let text = result.comparable_text();
                let flag = error_flag(result, *is_error);
                let (preamble, scratch) = (&mut self.preamble, &mut self.scratch);
                let call = open.end(&text, flag, record.seq, record.at(), preamble, scratch);
                self.push_call(call.in_prompt(prompt));
                self.last_call = bounded(tool_call_id);
            }
            TrajectoryPayload::Denied { tool_call_id, tool_name, reason } => {
                let Some(open) = self.take_open_call(tool_call_id, tool_name, record.at()) else {
                    return;
                };
                let reason = reason.as_deref().unwrap_or_default();
                let call = open.deny(reason, record.seq, record.at(), &mut self.scratch);
                self.push_call(call.in_prompt(prompt));
                self.last_call = bounded(tool_call_id);
            }
            TrajectoryPayload::TurnStarted => self.start_turn(),
            TrajectoryPayload::TurnEnded { assistant, .. } => {
                if !self.turns.has_response {
                    self.apply_message(assistant, pause);
                }
                self.turns.is_open = false;
                self.turns.has_response = false;
            }
            TrajectoryPayload::MessageAppended { message } => {
                self.apply_message(message, pause);
            }
            TrajectoryPayload::ProviderRequestPrepared { tool_count, .. } => {
                self.responses.tools_offered |= *tool_count > 0;
            }
            TrajectoryPayload::RunEnded { outcome, .. } => {
                self.ended = Some(outcome.bounded());
            }
            TrajectoryPayload::Resumed => {
                self.ended = None;
                // Calls that were running when the run stopped will never end, and the time until
                // the run was resumed is not a stall. Earlier errors and repetitions still count.
                self.open.clear();
                self.progress.at = Some(self.latest_at);
            }
            TrajectoryPayload::ContextCompacted { .. } => {
                self.compact();
            }
            TrajectoryPayload::UsageReported { usage } => self.usage.add(usage),
            TrajectoryPayload::CostReported { total_micro_usd } => {
                self.cost = Some(*total_micro_usd);
            }
            TrajectoryPayload::Gap { lost, .. } => {
                self.totals.lost_records = self.totals.lost_records.saturating_add(*lost);
            }
            TrajectoryPayload::Unread { .. } => self.totals.unread += 1,
            TrajectoryPayload::RunStarted { .. } => self.ended = None,
            TrajectoryPayload::ContextTransformApplied { .. }
            | TrajectoryPayload::ToolGateApplied { .. }
            | TrajectoryPayload::ToolGateConflictResolved { .. }
            | TrajectoryPayload::OutputTokensEscalation { .. }
            | TrajectoryPayload::FeedbackDelivered { .. }
            | TrajectoryPayload::GuidanceDelivered { .. }
            | TrajectoryPayload::Outcome { .. }
            | TrajectoryPayload::DeadlineSet { .. }
            | TrajectoryPayload::ConfigApplied { .. }
            | TrajectoryPayload::FileCreated { .. }
            | TrajectoryPayload::RunDescribed { .. }
            | TrajectoryPayload::ProxyAttached => {}
        }
    }

    /// Whether the call that starts now begins a new turn. It does not if the host has reported the
    /// start of the current turn and not its end. For hosts that do not report turns, it does not
    /// if all calls of the current turn are still running: then the model made the new call and
    /// these calls together.
    fn begins_turn(&self) -> bool {
        let running = self.open.iter().filter(|open| open.turn == self.turns.count).count();
        !self.turns.is_open && (running == 0 || running < self.turns.calls_in_turn as usize)
    }

    fn advance(&mut self, seq: u64, at: Timestamp) {
        self.call_just_ended = false;
        self.user_just_spoke = false;
        self.model_just_responded = false;
        self.responses.repeats_itself = false;
        self.latest_seq = seq;
        self.latest_at = self.latest_at.max(at);
        self.started_at.get_or_insert(at);
    }

    fn start_turn(&mut self) {
        self.finish_turn();
        self.turns.count += 1;
        self.turns.is_open = true;
        self.turns.has_response = false;
    }

    /// Called when the next turn begins: updates the number of consecutive turns with exactly one
    /// call.
    fn finish_turn(&mut self) {
        match self.turns.calls_in_turn {
            0 => {}
            1 => self.turns.single_call_turns = self.turns.single_call_turns.saturating_add(1),
            _ => self.turns.single_call_turns = 0,
        }
        self.turns.calls_in_turn = 0;
    }

    fn start_call(&mut self, id: &CallId, tool: &str, args: &Value, at: Timestamp) {
        if self.has_seen_call(id) {
            return;
        }
        let mut open = OpenCall::new(id, tool, args, at, &self.config, &mut self.scratch);
        open.turn = self.enter_turn();
        if self.open.len() == MAX_OPEN_CALLS {
            self.open.remove(0);
        }
        self.open.push(open);
    }

    /// Counts a call towards its turn, and begins a new turn if needed; returns the turn's number.
    fn enter_turn(&mut self) -> u64 {
        if self.begins_turn() {
            self.finish_turn();
            self.turns.count += 1;
        }
        self.turns.calls_in_turn = self.turns.calls_in_turn.saturating_add(1);
        self.turns.count
    }

    /// Removes and returns the open call that ends now; `None` if it has already ended. If the
    /// start of the call was not recorded, returns a call without arguments.
    fn take_open_call(&mut self, id: &CallId, tool: &str, at: Timestamp) -> Option<OpenCall> {
        let digest = Digest::of(id.as_str().as_bytes());
        if let Some(place) = self.open.iter().position(|open| open.call_id == digest) {
            return Some(self.open.remove(place));
        }
        if self.has_seen_call(id) {
            return None;
        }
        let mut open = OpenCall::without_start(id, tool, at, &self.config, &mut self.scratch);
        open.turn = self.enter_turn();
        Some(open)
    }

    fn has_seen_call(&self, id: &CallId) -> bool {
        let digest = Digest::of(id.as_str().as_bytes());
        self.open.iter().any(|open| open.call_id == digest) || self.call_ids.contains(&digest)
    }

    /// Adds a call that has ended to the kept calls and to all counters.
    pub(crate) fn push_call(&mut self, mut call: ToolInvoked) {
        self.flag_progress(&mut call);
        if self.call_ids.len() == MAX_REMEMBERED_CALL_IDS {
            self.call_ids.pop_front();
        }
        self.call_ids.push_back(call.call_id);
        self.totals.calls += 1;
        call.call_index = self.totals.calls;
        self.tool_frequency.add(&call.tool);
        match call.status.error() {
            Some(signature) => {
                self.totals.errors += 1;
                self.totals.denied += u64::from(call.is_denied());
                self.totals.consecutive_errors += 1;
                if call.flags.any(super::call_flags::CallFlags::NEW_ERROR) && call.is_shell() {
                    self.totals.consecutive_failures = 0;
                } else {
                    self.totals.consecutive_failures += 1;
                }
                self.errors.add(signature);
            }
            None => {
                self.totals.consecutive_errors = 0;
                self.totals.consecutive_failures = 0;
            }
        }
        self.responses.end_of_call();
        let is_progress = call.is_progress();
        if self.calls.len() == self.config.window.get() {
            self.calls.pop_front();
        }
        if let Some(before) = self.calls.back_mut() {
            before.flags.clear_temporary();
        }
        self.calls.push_back(call);
        self.drop_old_excerpts();
        self.call_just_ended = true;
        self.awaits_feedback = true;
        if is_progress {
            self.set_progress();
        }
    }

    /// Called after each added call. The latest `excerpts` calls (a configured number) keep the
    /// excerpt of their arguments. Half as many keep the excerpt of their result, because calls are
    /// never compared by that excerpt. Each new call makes one call too old for the one excerpt and
    /// one call too old for the other.
    fn drop_old_excerpts(&mut self) {
        let excerpts = self.config.excerpts.get();
        let back = |places: usize| self.calls.len().checked_sub(places + 1);
        let (results, args) = (back(excerpts.div_ceil(2)), back(excerpts));
        if let Some(call) = results.and_then(|at| self.calls.get_mut(at)) {
            call.drop_result_excerpt();
        }
        if let Some(call) = args.and_then(|at| self.calls.get_mut(at)) {
            call.drop_args_excerpt();
        }
    }

    /// Notes that the agent got feedback on the latest call. This is for programs that store no
    /// records; otherwise a `FeedbackDelivered` record has the same effect.
    pub(crate) const fn feedback_given(&mut self) {
        self.awaits_feedback = false;
    }

    /// Adds a call that has no record, for programs that store none. Returns `false`, and does
    /// nothing, if a call with the same id has already ended.
    pub(crate) fn push_invoked(&mut self, mut call: ToolInvoked) -> bool {
        if self.call_ids.contains(&call.call_id) {
            return false;
        }
        self.open.retain(|open| open.call_id != call.call_id);
        // The call has no record and so no seq (position in the run). It gets the next one, so that
        // it comes after everything before it.
        self.advance(self.latest_seq.saturating_add(1), call.ended_at);
        call.turn = self.enter_turn();
        call.ended_seq = self.latest_seq;
        self.push_call(call);
        self.last_call = None;
        true
    }

    fn set_progress(&mut self) {
        self.progress.calls = self.totals.calls;
        self.progress.at = Some(self.latest_at);
        self.progress.seq = self.latest_seq;
    }

    /// Resets the counts that start over after a user message.
    fn start_after_user_message(&mut self) {
        self.totals.consecutive_failures = 0;
        self.turns.calls_at_user_message = self.totals.calls;
        self.responses.reset_counts();
        self.set_progress();
    }

    /// `pause` is the time since the previous record.
    fn apply_message(&mut self, message: &AgentMessage, pause: Duration) {
        match message {
            AgentMessage::Assistant { content, usage, .. } => {
                self.turns.has_response = true;
                if let Some(usage) = usage {
                    self.usage.add(usage);
                }
                self.add_response(&content.plain_text(), content.has_tool_calls());
            }
            AgentMessage::User { content, .. } => {
                let text = match content {
                    UserContent::Text(text) => Some(text.trim()),
                    UserContent::Blocks(_) => None,
                };
                let is_empty = match content {
                    UserContent::Text(text) => text.trim().is_empty(),
                    UserContent::Blocks(blocks) => blocks.is_empty(),
                };
                // Some hosts send messages with the user's role, such as "continue". They are not
                // requests of the user and are ignored below.
                let digest = text.map(|text| Digest::of(text.as_bytes()));
                // If the same text comes again soon, the host sent it to keep the agent going. If
                // it comes again after a pause, it is scheduled and starts a new task.
                let is_prompt = pause < self.config.poll_gap;
                let is_said_before =
                    is_prompt && digest.is_some() && digest == self.turns.user_text;
                self.turns.user_text = digest;
                let is_automatic = text.is_some_and(|text| is_automatic(text, is_said_before));
                if text.is_some_and(is_summary) {
                    self.compact();
                } else if !is_empty && !is_automatic {
                    self.user_just_spoke = true;
                    self.turns.request = text.map(Request::of).unwrap_or_default();
                    self.start_after_user_message();
                }
            }
            AgentMessage::System { .. }
            | AgentMessage::ToolResult { .. }
            | AgentMessage::Custom { .. } => {}
        }
    }

    /// Notes that the host has replaced the conversation so far by a summary.
    const fn compact(&mut self) {
        self.totals.compactions += 1;
        self.turns.calls_at_compaction = self.totals.calls;
    }

    fn add_response(&mut self, text: &str, has_calls: bool) {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return;
        }
        self.model_just_responded = true;
        self.totals.responses += 1;
        self.responses.add(trimmed, has_calls);
    }
}

/// The id, or `None` if it is too long to keep. Hosts may send ids of any length, but the analysis
/// has a bounded size.
fn bounded(id: &CallId) -> Option<CallId> {
    (id.as_str().len() <= MAX_CALL_ID_BYTES).then(|| id.clone())
}

/// Whether it is too late for feedback on the latest call after a record of this kind, because the
/// agent has moved on.
const fn makes_feedback_late(payload: &TrajectoryPayload) -> bool {
    matches!(
        payload,
        TrajectoryPayload::ToolStarted { .. }
            | TrajectoryPayload::TurnStarted
            | TrajectoryPayload::TurnEnded { .. }
            | TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::RunEnded { .. }
            | TrajectoryPayload::Resumed
            // A call gets feedback only once; further feedback has to wait for the next call.
            | TrajectoryPayload::FeedbackDelivered { .. }
    )
}
