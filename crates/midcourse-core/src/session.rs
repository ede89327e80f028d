//! The session: the bounded state of one run.
//!
//! A session has the analysis of the run, the messages that the agent received and what they were
//! about, the deadline, and the files that were created. Only [`Session::apply`] (a record),
//! [`Session::dispatch`] (an event without a record), [`Session::set_prompt`] and restoring a
//! checkpoint change it. Of calls, messages and patterns it keeps only the latest ones; the totals
//! are exact. A run is on one prompt at a time and can switch between prompts; a `Slice` is the
//! calls, messages or patterns that belong to one of them.

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
pub use outcome::CALLS_TO_DECIDE;
pub use slice::{SessionEvent, Slice, SliceItem};
use state::State;
pub use state::{DeliveryTotals, MAX_CREATED_FILES, MAX_PROMPTS};

use std::num::NonZeroU32;

use crate::analysis::{
    ToolInvoked, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern,
};
use crate::cause::{Cause, MAX_EVIDENCE_SEQS};
use crate::detect::{PatternDetector, TrajectoryBuilder};
use crate::fault::Fault;
use crate::ledger::{Ledger, LedgerPolicy, is_about_responses, unnamed_cause};
use crate::message::{Feedback, GuidanceDelivered, Outcome};
use crate::record::{RunIdentity, ToolResult, TrajectoryPayload, TrajectoryRecord};
use crate::time::{Deadline, Timestamp};
use crate::why::Why;

/// The bounded state of one run.
pub struct Session {
    builder: TrajectoryBuilder,
    state: State,
}

/// What followed from one record or event.
#[derive(Debug, Default)]
pub struct Changes {
    /// Patterns that a detector reports after this record or event and did not report before it.
    pub patterns: Vec<TrajectoryPattern>,
    /// Outcomes that this record or event decides. An outcome says whether the problem that an
    /// earlier message was about went away.
    pub outcomes: Vec<Outcome>,
    /// Detectors that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl Session {
    /// The session of a run that has no records yet. The run begins with the prompt of this name.
    pub fn new(config: TrajectoryAnalysisConfig, prompt_name: &str) -> Self {
        let mut state = State::default();
        state.enter_prompt(prompt_name);
        Self { builder: TrajectoryBuilder::new(config), state }
    }

    /// Adds a detector that runs after every record, after the built-in detectors. At most 128 can
    /// be added; further ones are ignored.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        self.builder = self.builder.with_detector(detector);
        self
    }

    /// Applies one record. A message counts as delivered when the `feedback_delivered` or
    /// `guidance_delivered` record about it is applied.
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
        // `PatternDetector::detect` takes a record. This call has none, so one is made up.
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

    /// Applies a record to the parts of the session other than the analysis and the detectors.
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
            TrajectoryPayload::GuidanceDelivered { guidance, shadow, .. } => {
                self.state.has_shadow_deliveries |= shadow;
                self.record_guidance(guidance.clone(), record.seq, record.at());
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: Some(at) } => {
                self.state.set_deadline(*at, record);
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: None } => self.state.deadline = None,
            // A deadline that passed before the run was resumed is dropped.
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
            | TrajectoryPayload::RunDescribed { .. }
            | TrajectoryPayload::Denied { .. }
            | TrajectoryPayload::Gap { .. }
            | TrajectoryPayload::Unread { .. } => {}
        }
    }

    /// Stores new patterns, and decides for earlier messages whether their problem went away.
    fn finish(&mut self, patterns: Vec<TrajectoryPattern>, faults: Vec<Fault>) -> Changes {
        for pattern in &patterns {
            self.state.record_pattern(pattern.clone());
        }
        let analysis = self.builder.analysis();
        for pattern in analysis.patterns() {
            let count = count_for(analysis, pattern.cause());
            self.state.ledger.record_presence(pattern.cause(), count);
        }
        let outcomes = self.state.outcomes.decide(analysis);
        Changes { patterns, outcomes, faults }
    }

    fn record_feedback(&mut self, mut feedback: Feedback, seq: u64) {
        self.state.complete_feedback(&mut feedback, self.trajectory().latest_at());
        self.record_delivery(&feedback.render(), feedback.why(), seq, feedback.timestamp());
        self.state.record_feedback(feedback);
    }

    fn record_guidance(&mut self, guidance: GuidanceDelivered, seq: u64, at: Timestamp) {
        let text = guidance.injection.content();
        self.record_delivery(text, guidance.injection.why(), seq, at);
        if guidance.injection.why().is_none() {
            let cause = unnamed_cause(&guidance.provider_name, text);
            let rung = self.state.ledger.next_rung(&cause);
            let why = Why { cause, rung, evidence: Vec::new(), subject: None };
            let count = self.trajectory().tool_call_count();
            self.state.ledger.record_delivery(&why, text, seq, at, count);
        }
        self.state.record_guidance(guidance, self.builder.analysis().turn_count());
    }

    fn record_delivery(&mut self, text: &str, why: Option<&Why>, seq: u64, at: Timestamp) {
        self.state.delivery_totals.deliveries += 1;
        self.state.delivery_totals.chars += text.chars().count() as u64;
        let Some(why) = why else { return };
        let count = self.count_for(&why.cause);
        self.state.ledger.record_delivery(why, text, seq, at, count);
        // The outcome of a message depends on whether a detector stops reporting the cause. A cause
        // that no detector reports now cannot have an outcome.
        let is_detected =
            self.trajectory().patterns().iter().any(|held| *held.cause() == why.cause);
        if is_detected {
            self.state.outcomes.open(&why.cause, seq, count);
        }
    }

    /// Identity of the run; `None` until a `run_started` record is applied.
    pub const fn identity(&self) -> Option<&RunIdentity> {
        self.state.identity.as_ref()
    }

    /// Name of the prompt that the run is on.
    pub fn prompt_name(&self) -> &str {
        self.state.prompt_name()
    }

    /// Continues the run on the prompt of this name. A `config_applied` record that contains the
    /// name has the same effect.
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

    /// How many messages the run has received, and how many characters they have together.
    pub const fn delivery_totals(&self) -> DeliveryTotals {
        self.state.delivery_totals
    }

    /// Calls, tokens and cost that the run had used when the agent was last started or started
    /// again to resume the run. The budget does not count them.
    pub(crate) const fn usage_before(&self) -> UsageBefore {
        self.state.usage_before
    }

    /// When the run has to be done; `None` if it has no deadline.
    pub const fn deadline(&self) -> Option<Deadline> {
        match self.state.deadline {
            Some((deadline, _)) => Some(deadline),
            None => None,
        }
    }

    /// The evidence for messages about the deadline: the sequence number of the record that set it.
    /// Empty if there is no deadline.
    pub(crate) fn deadline_evidence(&self) -> Vec<u64> {
        self.state.deadline.iter().map(|(_, seq)| *seq).collect()
    }

    /// The tool calls, feedback, assessments, guidance or patterns of the current prompt. The type
    /// `T` selects which of them.
    pub fn slice<T: SliceItem>(&self) -> Slice<'_, T> {
        self.slice_of_prompt_number(self.state.prompt)
    }

    /// The tool calls, feedback, assessments, guidance or patterns of the prompt of this name. The
    /// type `T` selects which of them. Empty if the run was never on that prompt.
    pub fn slice_of_prompt<T: SliceItem>(&self, prompt_name: &str) -> Slice<'_, T> {
        self.slice_of_prompt_number(self.state.known_prompt(prompt_name).unwrap_or(u8::MAX))
    }

    /// When a feedback provider last delivered a message while the run was on the prompt of this
    /// name, and how many calls the run had made on that prompt by then.
    pub(crate) fn last_feedback(
        &self,
        provider: ProviderId,
        prompt_name: &str,
    ) -> Option<(Timestamp, u64)> {
        let prompt = self.state.known_prompt(prompt_name)?;
        self.state.cadence.last_feedback(provider, prompt)
    }

    /// How many calls the run had made on the prompt of this name when it last received feedback
    /// there, from any provider; 0 if it has received none there.
    pub(crate) fn last_feedback_call(&self, prompt_name: &str) -> u64 {
        let prompt = self.state.known_prompt(prompt_name);
        prompt.map_or(0, |prompt| self.state.cadence.last_feedback_call(prompt))
    }

    /// The shortest sequence of at least `min_len` calls that the agent has just made at least
    /// `threshold` times in a row; `None` if there is none. A long sequence counts a little early:
    /// as soon as the agent has made the first calls of the repetition that reaches `threshold`.
    pub(crate) fn cycle(
        &self,
        threshold: NonZeroU32,
        min_len: NonZeroU32,
    ) -> Option<TrajectoryPattern> {
        self.builder.cycle(threshold, min_len)
    }

    /// How many messages the guidance provider of this name has delivered: in the whole run, and in
    /// the latest turn in which it delivered one.
    pub fn fired(&self, provider: &str) -> Fired {
        self.fired_by(ProviderId::of(provider))
    }

    pub(crate) fn fired_by(&self, provider: ProviderId) -> Fired {
        self.state.cadence.fired(provider)
    }

    /// Whether `file` was created and this provider has delivered no feedback since then.
    pub(crate) fn has_unannounced_file(&self, provider: ProviderId, file: &str) -> bool {
        self.state.has_unannounced_file(provider, file)
    }

    /// The reason to attach to the next message about a pattern: the pattern's cause and evidence,
    /// and the number of the message among the messages about that cause.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        Why {
            cause: pattern.cause().clone(),
            rung: self.state.ledger.next_rung(pattern.cause()),
            evidence: pattern.evidence().to_vec(),
            subject: self.trajectory().subject_of(pattern.evidence()),
        }
    }

    /// The reason to attach to the next message about a cause. `calls` are the evidence. They have
    /// to be ordered newest first, because only the first `MAX_EVIDENCE_SEQS` are used.
    pub fn why_of<'a>(
        &self,
        cause: Cause,
        calls: impl IntoIterator<Item = &'a ToolInvoked>,
    ) -> Why {
        let rung = self.state.ledger.next_rung(&cause);
        let newest = calls.into_iter().take(MAX_EVIDENCE_SEQS);
        let mut evidence: Vec<u64> = newest.map(ToolInvoked::ended_seq).collect();
        evidence.sort_unstable();
        let subject = self.trajectory().subject_of(&evidence);
        Why { cause, rung, evidence, subject }
    }

    /// Whether a message about a cause may be delivered now. It may not if the agent has just
    /// received another message, if the run has made too few calls, or if the configuration mutes
    /// the cause.
    pub fn may_deliver(&self, cause: &Cause, policy: LedgerPolicy) -> bool {
        let is_muted = self.trajectory().config().muted.contains(cause.kind());
        !is_muted && self.state.ledger.may_deliver(cause, self.count_for(cause), policy)
    }

    /// Exchanges the ledger, and returns the one that the session had.
    pub(crate) fn replace_ledger(&mut self, ledger: Ledger) -> Ledger {
        std::mem::replace(&mut self.state.ledger, ledger)
    }

    /// The counter that measures the wait between messages about a cause: the number of tool calls
    /// so far, or of model responses if the cause is detected in responses.
    fn count_for(&self, cause: &Cause) -> u64 {
        count_for(self.trajectory(), cause)
    }
}

fn count_for(analysis: &TrajectoryAnalysis, cause: &Cause) -> u64 {
    if is_about_responses(cause) { analysis.response_count() } else { analysis.tool_call_count() }
}
