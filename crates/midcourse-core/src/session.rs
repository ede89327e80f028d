//! The session: the bounded state of one run.
//!
//! The session consists of the analysis, the deliveries and their outcomes, the ledger of causes,
//! the deadline and created files. Only [`Session::apply`] (a record), [`Session::dispatch`] (an
//! event without a record) and [`Session::set_prompt`] change it. A session keeps a bounded number
//! of items; totals are counters and stay exact. Slices contain the items of one prompt, by default
//! the current one.

mod cadence;
mod checkpoint;
mod launch;
mod outcome;
mod slice;
mod state;

pub use cadence::Fired;
pub(crate) use cadence::ProviderId;
pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, CheckpointError};
pub(crate) use launch::UsageBefore;
pub use slice::{SessionEvent, Slice, SliceItem};
use state::State;
pub use state::{DeliveryTotals, MAX_CREATED_FILES, MAX_PROMPTS};

use std::num::NonZeroU32;

use crate::analysis::{
    ToolInvoked, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern,
};
use crate::cause::{Cause, MAX_EVIDENCE_SEQS, Why};
use crate::detect::{PatternDetector, TrajectoryBuilder};
use crate::fault::Fault;
use crate::ledger::{Ledger, LedgerPolicy, is_about_responses};
use crate::message::{Feedback, GuidanceDelivered, Outcome};
use crate::record::{RunIdentity, ToolResult, TrajectoryPayload, TrajectoryRecord};
use crate::time::{Deadline, Timestamp};

/// The bounded state of one run.
pub struct Session {
    builder: TrajectoryBuilder,
    state: State,
}

/// What one record or event changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Patterns that this record or event made detectors report for the first time.
    pub patterns: Vec<TrajectoryPattern>,
    /// Outcomes of earlier deliveries that became known with this record or event.
    pub outcomes: Vec<Outcome>,
    /// Detectors that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl Session {
    /// The session of a run that has not started and that begins on this prompt.
    pub fn new(config: TrajectoryAnalysisConfig, prompt_name: &str) -> Self {
        let mut state = State::default();
        state.enter_prompt(prompt_name);
        Self { builder: TrajectoryBuilder::new(config), state }
    }

    /// Adds a detector, which runs in addition to the built-in ones and to those added before.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        self.builder = self.builder.with_detector(detector);
        self
    }

    /// Applies one record. A delivery or outcome counts only once its own record is applied.
    pub fn apply(&mut self, record: &TrajectoryRecord) -> Changes {
        let calls_before = self.trajectory().tool_call_count();
        let (patterns, faults) = self.builder.apply(record, self.state.prompt);
        self.state.count_calls(self.trajectory().tool_call_count() - calls_before);
        self.update_state(record);
        self.finish(patterns, faults)
    }

    /// Applies an event that has no record, for callers that keep no records.
    pub fn dispatch(&mut self, event: impl Into<SessionEvent>) -> Changes {
        match event.into() {
            SessionEvent::ToolInvoked(call) => return self.invoke(call),
            SessionEvent::Feedback(feedback) => {
                let seq = self.trajectory().latest_seq();
                self.builder.analysis_mut().feedback_given();
                self.record_feedback(feedback, seq);
            }
            SessionEvent::GuidanceDelivered(guidance) => {
                let (seq, at) = (self.trajectory().latest_seq(), self.trajectory().latest_at());
                self.record_guidance(guidance, seq, at);
            }
            SessionEvent::Pattern(pattern) => self.state.record_pattern(pattern),
            SessionEvent::Deadline(deadline) => {
                self.state.deadline = Some((deadline, self.trajectory().latest_seq()));
            }
        }
        Changes::default()
    }

    fn invoke(&mut self, call: ToolInvoked) -> Changes {
        // Detectors expect a record, so one is made up for the event.
        let record = TrajectoryRecord::new(
            self.trajectory().latest_seq().saturating_add(1),
            call.ended_at(),
            TrajectoryPayload::ToolEnded {
                tool_call_id: "".into(),
                tool_name: call.tool().into(),
                result: ToolResult::text(call.result_excerpt()),
                is_error: call.is_error(),
            },
        );
        let prompt = self.state.prompt;
        if !self.builder.analysis_mut().push_invoked(call.in_prompt(prompt)) {
            return Changes::default();
        }
        self.state.count_calls(1);
        let (patterns, faults) = self.builder.run_detectors(&record);
        self.finish(patterns, faults)
    }

    /// Applies a record to everything but the analysis.
    fn update_state(&mut self, record: &TrajectoryRecord) {
        match &record.payload {
            TrajectoryPayload::RunStarted { identity } => {
                if let Some(at) = identity.deadline_unix_ms {
                    self.state.set_deadline(at, record);
                }
                self.state.identity = Some(identity.clone());
            }
            TrajectoryPayload::FeedbackDelivered { feedback, shadow, .. } => {
                self.state.has_shadow_deliveries |= shadow;
                self.record_feedback(feedback.clone(), record.seq);
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow } => {
                self.state.has_shadow_deliveries |= shadow;
                self.record_guidance(guidance.clone(), record.seq, record.at());
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: Some(at) } => {
                self.state.set_deadline(*at, record);
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: None } => self.state.deadline = None,
            // A deadline that passed before the run was resumed no longer applies.
            TrajectoryPayload::Resumed => {
                self.state.deadline.take_if(|(deadline, _)| deadline.at() <= record.at());
            }
            TrajectoryPayload::ConfigApplied { prompt_name: Some(name), .. } => {
                self.state.enter_prompt(name);
            }
            TrajectoryPayload::ConfigApplied { prompt_name: None, .. } => {
                self.state.begin_launch(self.builder.analysis());
            }
            TrajectoryPayload::FileCreated { path } => self.state.add_created_file(path),
            TrajectoryPayload::ContextCompacted { .. } => self.state.ledger.record_compaction(),
            TrajectoryPayload::RunEnded { .. }
            | TrajectoryPayload::TurnStarted
            | TrajectoryPayload::TurnEnded { .. }
            | TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::ToolStarted { .. }
            | TrajectoryPayload::ToolEnded { .. }
            | TrajectoryPayload::ProviderRequestPrepared { .. }
            | TrajectoryPayload::ContextTransformApplied { .. }
            | TrajectoryPayload::ToolGateApplied { .. }
            | TrajectoryPayload::ToolGateConflictResolved { .. }
            | TrajectoryPayload::OutputTokensEscalation { .. }
            | TrajectoryPayload::Outcome { .. }
            | TrajectoryPayload::UsageReported { .. }
            | TrajectoryPayload::CostReported { .. }
            | TrajectoryPayload::ProxyAttached
            | TrajectoryPayload::Denied { .. }
            | TrajectoryPayload::Gap { .. }
            | TrajectoryPayload::Unread { .. } => {}
        }
    }

    /// Records new patterns and decides the outcomes of earlier deliveries.
    fn finish(&mut self, patterns: Vec<TrajectoryPattern>, faults: Vec<Fault>) -> Changes {
        for pattern in &patterns {
            self.state.record_pattern(pattern.clone());
        }
        let outcomes = self.state.outcomes.decide(self.builder.analysis());
        Changes { patterns, outcomes, faults }
    }

    fn record_feedback(&mut self, mut feedback: Feedback, seq: u64) {
        self.state.complete_feedback(&mut feedback, self.trajectory().latest_at());
        self.record_delivery(&feedback.render(), feedback.why(), seq, feedback.timestamp());
        self.state.record_feedback(feedback);
    }

    fn record_guidance(&mut self, guidance: GuidanceDelivered, seq: u64, at: Timestamp) {
        self.record_delivery(guidance.injection.content(), guidance.injection.why(), seq, at);
        self.state.record_guidance(guidance, self.builder.analysis().turn_count());
    }

    fn record_delivery(&mut self, text: &str, why: Option<&Why>, seq: u64, at: Timestamp) {
        self.state.delivery_totals.deliveries += 1;
        self.state.delivery_totals.chars += text.chars().count() as u64;
        let Some(why) = why else { return };
        let count = self.count_for(&why.cause);
        self.state.ledger.record_delivery(why, text, seq, at, count);
        // The outcome is followed only if a detector reports the cause now: otherwise nothing would
        // show whether the cause goes away.
        let is_detected =
            self.trajectory().patterns().iter().any(|held| *held.cause() == why.cause);
        if is_detected {
            self.state.outcomes.open(&why.cause, seq, count);
        }
    }

    /// Identity of the run; `None` until a record has given it.
    pub const fn identity(&self) -> Option<&RunIdentity> {
        self.state.identity.as_ref()
    }

    /// Name of the prompt that the run works on.
    pub fn prompt_name(&self) -> &str {
        self.state.prompt_name()
    }

    /// Continues the run on another prompt, as a `config_applied` record with its name does.
    pub fn set_prompt(&mut self, name: &str) {
        self.state.enter_prompt(name);
    }

    /// The calls, turns, errors and patterns of the run so far.
    pub const fn trajectory(&self) -> &TrajectoryAnalysis {
        self.builder.analysis()
    }

    /// Which messages the run has received about which cause.
    pub const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// How many messages the run has received.
    pub const fn delivery_totals(&self) -> DeliveryTotals {
        self.state.delivery_totals
    }

    /// Calls, tokens and cost that earlier launches of the run used up.
    pub(crate) const fn usage_before(&self) -> UsageBefore {
        self.state.usage_before
    }

    /// When the run has to be done, if it has a deadline.
    pub const fn deadline(&self) -> Option<Deadline> {
        match self.state.deadline {
            Some((deadline, _)) => Some(deadline),
            None => None,
        }
    }

    /// Sequence number of the record that set the deadline; empty without a deadline.
    pub(crate) fn deadline_evidence(&self) -> Vec<u64> {
        self.state.deadline.iter().map(|(_, seq)| *seq).collect()
    }

    /// The tool calls, feedback, assessments, guidance or patterns (`T`) on the current prompt.
    pub fn slice<T: SliceItem>(&self) -> Slice<'_, T> {
        self.slice_of_prompt_number(self.state.prompt)
    }

    /// The tool calls, feedback, assessments, guidance or patterns (`T`) on the prompt of this
    /// name; empty if the run was never on it.
    pub fn slice_of_prompt<T: SliceItem>(&self, prompt_name: &str) -> Slice<'_, T> {
        self.slice_of_prompt_number(self.state.known_prompt(prompt_name).unwrap_or(u8::MAX))
    }

    /// When a feedback provider last delivered on a prompt, and after how many calls.
    pub(crate) fn last_feedback(
        &self,
        provider: ProviderId,
        prompt_name: &str,
    ) -> Option<(Timestamp, u64)> {
        let prompt = self.state.known_prompt(prompt_name)?;
        self.state.cadence.last_feedback(provider, prompt)
    }

    /// Number of calls on a prompt at the time when any feedback provider last delivered on it.
    pub(crate) fn last_feedback_call(&self, prompt_name: &str) -> u64 {
        let prompt = self.state.known_prompt(prompt_name);
        prompt.map_or(0, |prompt| self.state.cadence.last_feedback_call(prompt))
    }

    /// The shortest cycle of at least `min_len` calls that the latest calls repeat `threshold`
    /// times.
    pub(crate) fn cycle(
        &self,
        threshold: NonZeroU32,
        min_len: NonZeroU32,
    ) -> Option<TrajectoryPattern> {
        self.builder.cycle(threshold, min_len)
    }

    /// How often a guidance provider has delivered, in the run and in the turn of its latest
    /// delivery.
    pub fn fired(&self, provider: &str) -> Fired {
        self.fired_by(ProviderId::of(provider))
    }

    pub(crate) fn fired_by(&self, provider: ProviderId) -> Fired {
        self.state.cadence.fired(provider)
    }

    /// Whether `file` was created and this provider has not delivered feedback since.
    pub(crate) fn has_unannounced_file(&self, provider: ProviderId, file: &str) -> bool {
        self.state.has_unannounced_file(provider, file)
    }

    /// The reason for a message about a pattern, if it is the next message about the pattern's
    /// cause.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        Why {
            cause: pattern.cause().clone(),
            rung: self.state.ledger.next_rung(pattern.cause()),
            evidence: pattern.evidence().to_vec(),
        }
    }

    /// The reason for a message about a cause, with these calls as evidence, newest first.
    pub fn why_of<'a>(
        &self,
        cause: Cause,
        calls: impl IntoIterator<Item = &'a ToolInvoked>,
    ) -> Why {
        let rung = self.state.ledger.next_rung(&cause);
        let newest = calls.into_iter().take(MAX_EVIDENCE_SEQS);
        let mut evidence: Vec<u64> = newest.map(ToolInvoked::ended_seq).collect();
        evidence.sort_unstable();
        Why { cause, rung, evidence }
    }

    /// Whether a message about a cause may be delivered now, or has to wait because of earlier
    /// ones.
    pub fn may_deliver(&self, cause: &Cause, policy: LedgerPolicy) -> bool {
        self.state.ledger.may_deliver(cause, self.count_for(cause), policy)
    }

    /// The number in which waits for a cause are measured: that of the run's tool calls, or of its
    /// model responses if the cause shows in responses.
    fn count_for(&self, cause: &Cause) -> u64 {
        if is_about_responses(cause) {
            self.trajectory().response_count()
        } else {
            self.trajectory().tool_call_count()
        }
    }
}
