//! Taking a record in.
//!
//! Every kind of payload is named here, so that a new kind does not compile until somebody has
//! decided what it means to the analysis.

use serde_json::Value;

use super::{
    CALL_ID_MAX, MAX_OPEN_CALLS, MAX_REMEMBERED_CALL_IDS, OpenCall, ToolInvoked, TrajectoryAnalysis,
};
use crate::digest::Digest;
use crate::record::{
    AgentMessage, CallId, TrajectoryPayload, TrajectoryRecord, Usage, UserContent,
};
use crate::text::asks_to_repeat;
use crate::time::Timestamp;

impl TrajectoryAnalysis {
    /// Takes in one record; `prompt` is the number of the prompt it belongs to.
    pub(crate) fn apply(&mut self, record: &TrajectoryRecord, prompt: u8) {
        self.advance(record.seq, record.at());
        self.awaits_feedback &= !takes_the_floor(&record.payload);
        match &record.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                self.start_call(tool_call_id, tool_name, args, record.at());
            }
            TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error } => {
                let Some(open) = self.close(tool_call_id, tool_name, record.at()) else { return };
                let text = result.comparable_text();
                let failed = *is_error || result.is_error;
                let call = open.end(&text, failed, record.seq, record.at(), &mut self.scratch);
                self.push_call(call.in_prompt(prompt));
                self.last_call = kept(tool_call_id);
            }
            TrajectoryPayload::Denied { tool_call_id, tool_name, reason } => {
                let Some(open) = self.close(tool_call_id, tool_name, record.at()) else { return };
                let reason = reason.as_deref().unwrap_or_default();
                let call = open.deny(reason, record.seq, record.at(), &mut self.scratch);
                self.push_call(call.in_prompt(prompt));
                self.last_call = kept(tool_call_id);
            }
            TrajectoryPayload::TurnStarted => self.start_turn(),
            TrajectoryPayload::TurnEnded { assistant, .. } => {
                if !self.turns.has_answer {
                    self.hear(assistant);
                }
                self.turns.is_open = false;
                self.turns.has_answer = false;
            }
            TrajectoryPayload::MessageAppended { message } => self.hear(message),
            TrajectoryPayload::ProviderRequestPrepared { tool_count, .. } => {
                self.speech.tools_offered |= *tool_count > 0;
            }
            TrajectoryPayload::RunEnded { outcome, .. } => {
                self.ended = Some(outcome.bounded());
            }
            TrajectoryPayload::Resumed => {
                self.ended = None;
                // Whatever was running when it stopped has no known end. The time it lay idle is
                // nobody's stall; what went wrong before still counts.
                self.open.clear();
                self.progress.at = Some(self.latest_at);
            }
            TrajectoryPayload::ContextCompacted { .. } => {
                self.totals.compactions += 1;
                self.turns.compacted_at_call = self.totals.calls;
            }
            TrajectoryPayload::UsageReported { usage } => self.use_up(usage),
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
            | TrajectoryPayload::ProxyAttached => {}
        }
    }

    /// Whether the next call begins a turn of its own. Calls that start while all calls of a turn
    /// are still running were issued together.
    fn begins_turn(&self) -> bool {
        let running = self.open.iter().filter(|open| open.turn == self.turns.count).count();
        !self.turns.is_open && (running == 0 || running < self.turns.calls_in_turn as usize)
    }

    fn advance(&mut self, seq: u64, at: Timestamp) {
        self.call_just_ended = false;
        self.user_just_spoke = false;
        self.model_just_spoke = false;
        self.speech.is_chant = false;
        self.latest_seq = seq;
        self.latest_at = self.latest_at.max(at);
        self.started_at.get_or_insert(at);
    }

    fn start_turn(&mut self) {
        self.finish_turn();
        self.turns.count += 1;
        self.turns.is_open = true;
        self.turns.has_answer = false;
    }

    /// Settles what the turn before was, once the next one begins.
    fn finish_turn(&mut self) {
        match self.turns.calls_in_turn {
            0 => {}
            1 => self.turns.single_call_turns = self.turns.single_call_turns.saturating_add(1),
            _ => self.turns.single_call_turns = 0,
        }
        self.turns.calls_in_turn = 0;
    }

    fn start_call(&mut self, id: &CallId, tool: &str, args: &Value, at: Timestamp) {
        if self.knows(id) {
            return;
        }
        let mut open = OpenCall::new(id, tool, args, at, &self.config, &mut self.scratch);
        open.turn = self.enter_turn();
        if self.open.len() == MAX_OPEN_CALLS {
            self.open.remove(0);
        }
        self.open.push(open);
    }

    /// The turn that the next call belongs to: outside a turn that the host marked, one of its own.
    fn enter_turn(&mut self) -> u64 {
        if self.begins_turn() {
            self.finish_turn();
            self.turns.count += 1;
        }
        self.turns.calls_in_turn = self.turns.calls_in_turn.saturating_add(1);
        self.turns.count
    }

    /// The call that ends here, unless it is known to have ended.
    fn close(&mut self, id: &CallId, tool: &str, at: Timestamp) -> Option<OpenCall> {
        let digest = Digest::of(id.as_str().as_bytes());
        if let Some(place) = self.open.iter().position(|open| open.call_id == digest) {
            return Some(self.open.remove(place));
        }
        if self.knows(id) {
            return None;
        }
        let mut open = OpenCall::unseen(id, tool, at, &self.config, &mut self.scratch);
        open.turn = self.enter_turn();
        Some(open)
    }

    fn knows(&self, id: &CallId) -> bool {
        let digest = Digest::of(id.as_str().as_bytes());
        self.open.iter().any(|open| open.call_id == digest) || self.call_ids.contains(&digest)
    }

    /// Takes in a call that has ended. This is the one place where calls are counted.
    pub(crate) fn push_call(&mut self, mut call: ToolInvoked) {
        self.mark(&mut call);
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
                if call.marks.any(super::call::Marks::ERROR_MOVED) && call.is_shell() {
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
        self.speech.begin_anew();
        let is_progress = call.is_progress();
        if self.calls.len() == self.config.window.get() {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        self.fade();
        self.call_just_ended = true;
        self.awaits_feedback = true;
        if is_progress {
            self.moved();
        }
    }

    /// Lets older calls forget their excerpts: results first, which nothing is compared by.
    fn fade(&mut self) {
        let excerpts = self.config.excerpts.get();
        let back = |places: usize| self.calls.len().checked_sub(places + 1);
        let (results, args) = (back(excerpts.div_ceil(2)), back(excerpts));
        if let Some(call) = results.and_then(|at| self.calls.get_mut(at)) {
            call.forget_result();
        }
        if let Some(call) = args.and_then(|at| self.calls.get_mut(at)) {
            call.forget_args();
        }
    }

    /// Feedback on the latest call was delivered without a record.
    pub(crate) const fn feedback_given(&mut self) {
        self.awaits_feedback = false;
    }

    /// Takes in a call that came without records, unless its id is known.
    pub(crate) fn push_invoked(&mut self, mut call: ToolInvoked) -> bool {
        if self.call_ids.contains(&call.call_id) {
            return false;
        }
        self.open.retain(|open| open.call_id != call.call_id);
        // It has no record, and still comes behind what came before.
        self.advance(self.latest_seq.saturating_add(1), call.ended_at);
        call.turn = self.enter_turn();
        call.ended_seq = self.latest_seq;
        self.push_call(call);
        self.last_call = None;
        true
    }

    fn moved(&mut self) {
        self.progress.call = self.totals.calls;
        self.progress.at = Some(self.latest_at);
        self.progress.seq = self.latest_seq;
    }

    /// Somebody spoke to the agent, which begins things anew.
    fn spoken_to(&mut self) {
        self.totals.consecutive_failures = 0;
        self.turns.spoken_to_at_call = self.totals.calls;
        self.speech.begin_anew();
        self.moved();
    }

    fn use_up(&mut self, usage: &Usage) {
        let sum = &mut self.usage;
        let add = |total: &mut i64, part: i64| *total = total.saturating_add(part);
        add(&mut sum.input_tokens, usage.input_tokens);
        add(&mut sum.output_tokens, usage.output_tokens);
        add(&mut sum.cache_creation_input_tokens, usage.cache_creation_input_tokens);
        add(&mut sum.cache_read_input_tokens, usage.cache_read_input_tokens);
    }

    fn hear(&mut self, message: &AgentMessage) {
        match message {
            AgentMessage::Assistant { content, usage, .. } => {
                self.turns.has_answer = true;
                if let Some(usage) = usage {
                    self.use_up(usage);
                }
                self.say(&content.plain_text(), content.has_tool_calls());
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
                if !is_empty {
                    self.user_just_spoke = true;
                    self.turns.asked_to_repeat = text.is_some_and(asks_to_repeat);
                    self.spoken_to();
                }
            }
            AgentMessage::System { .. }
            | AgentMessage::ToolResult { .. }
            | AgentMessage::Custom { .. } => {}
        }
    }

    fn say(&mut self, text: &str, has_calls: bool) {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return;
        }
        self.model_just_spoke = true;
        self.totals.answers += 1;
        self.speech.heard(trimmed, has_calls);
    }
}

/// The id, if it is as long as ids are: hosts may send anything.
fn kept(id: &CallId) -> Option<CallId> {
    (id.as_str().len() <= CALL_ID_MAX).then(|| id.clone())
}

/// Whether something new has begun, behind which words about the call before come too late.
const fn takes_the_floor(payload: &TrajectoryPayload) -> bool {
    matches!(
        payload,
        TrajectoryPayload::ToolStarted { .. }
            | TrajectoryPayload::TurnStarted
            | TrajectoryPayload::TurnEnded { .. }
            | TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::RunEnded { .. }
            | TrajectoryPayload::Resumed
            // One call, one time to speak; who else is due speaks after the next call.
            | TrajectoryPayload::FeedbackDelivered { .. }
    )
}
