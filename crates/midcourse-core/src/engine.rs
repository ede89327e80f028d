//! The engine: the one way in for the live hook, the proxy, replay and backtest.
//!
//! A caller takes records in, asks for feedback after a call and for guidance at a decision point,
//! and confirms what the host could carry. Asking changes nothing; only what is confirmed counts,
//! so what was said is confirmed before the next question: else one cause has two voices.
//! The engine does no I/O and asks no clock, so what it said live is what it says in a replay.

mod delivery;
mod settings;
mod step;

pub use delivery::{Delivery, LABEL, labelled};
pub use settings::{
    FeedbackSetting, GuidanceSetting, MessageSettings, ProviderSettings, shipped_template,
};
pub use step::Step;

use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryAnalysisConfig};
use crate::detect::PatternDetector;
use crate::feedback::{Budget, collect_feedback};
use crate::guidance::collect_guidance;
use crate::message::{DecisionPoint, Feedback, GuidanceDelivered};
use crate::prompt::{Asked, FeedbackContext, GuidanceContext, Prompt, RenderedPrompt};
use crate::record::{TrajectoryPayload, TrajectoryRecord};
use crate::session::{Changes, Checkpoint, CheckpointError, Session};
use crate::time::Timestamp;

/// Whether what is said reaches the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    #[default]
    Live,
    /// It is recorded, with the same cadence and ladder, and nothing is said. Under the terms of
    /// the next launch it does not count as said.
    Shadow,
}

/// Watches one run.
pub struct Engine {
    session: Session,
    prompt: Prompt,
    mode: Mode,
}

impl Engine {
    /// Watches a run that has not begun.
    pub fn new(prompt: Prompt, analysis: TrajectoryAnalysisConfig) -> Self {
        let session = Session::new(analysis, prompt.name());
        Self { session, prompt, mode: Mode::Live }
    }

    /// An engine with the providers and detectors that midcourse ships with, and a budget for the
    /// run: [`Budget::default`] limits nothing.
    pub fn shipped(budget: Budget) -> Self {
        Self::new(Prompt::new(shipped_template(budget)), TrajectoryAnalysisConfig::shipped())
    }

    /// The same, with one more detector.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        self.session = self.session.with_detector(detector);
        self
    }

    /// The same in another mode.
    #[must_use]
    pub const fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Goes on from a checkpoint.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.session.restore(checkpoint)
    }

    /// Saves the whole fold.
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        self.session.checkpoint()
    }

    /// Takes one record in, whatever its kind. The record of something that was delivered counts
    /// as its confirmation.
    pub fn take_in(&mut self, record: &TrajectoryRecord) -> Changes {
        self.session.apply(record)
    }

    /// Takes in a stored record without concluding anything from it: the deliveries and outcomes that
    /// it led to are stored records themselves. This brings an engine to where a stored run is.
    pub fn fold(&mut self, record: &TrajectoryRecord) {
        self.take_in(record);
    }

    /// What is to be said after the latest tool call; nothing once something new has begun.
    pub fn feedback(&self, now: Timestamp) -> Asked<Feedback> {
        if !self.trajectory().awaits_feedback() || self.is_spent() {
            return Asked::default();
        }
        let context = FeedbackContext::new(&self.session, &self.prompt, now);
        collect_feedback(
            self.prompt.feedback_providers(),
            &context,
            self.prompt.delivery().feedback,
        )
    }

    /// What is to be said at a decision point.
    pub fn guidance(&self, point: DecisionPoint, now: Timestamp) -> Asked<GuidanceDelivered> {
        self.guidance_with(self.context(point, now))
    }

    /// The same, where the caller knows the rendered prompt or the whole of the last response.
    pub fn guidance_with(&self, context: GuidanceContext<'_>) -> Asked<GuidanceDelivered> {
        if self.is_spent() {
            return Asked::default();
        }
        collect_guidance(
            self.prompt.guidance_providers(),
            &context,
            self.prompt.delivery().guidance,
        )
    }

    /// The view of the run at a decision point.
    pub const fn context(&self, point: DecisionPoint, now: Timestamp) -> GuidanceContext<'_> {
        GuidanceContext::new(&self.session, &self.prompt, point, now)
    }

    /// The prompt with the guidance of the point before rendering, and what was said in it.
    pub fn render(
        &self,
        now: Timestamp,
    ) -> Result<(RenderedPrompt, Asked<GuidanceDelivered>), crate::prompt::InvalidPrompt> {
        let asked = self.guidance(DecisionPoint::PreRender, now);
        let pieces: Vec<_> = asked.said.iter().map(|said| said.injection.clone()).collect();
        Ok((self.prompt.render(&pieces)?, asked))
    }

    /// The fact that something was delivered, to be recorded.
    pub fn delivered(&self, delivery: impl Into<Delivery>) -> TrajectoryPayload {
        delivery.into().into_payload(self.mode == Mode::Shadow)
    }

    /// Confirms a delivery where no store gives records their number: the record is made here,
    /// taken in and returned.
    pub fn confirm(
        &mut self,
        delivery: impl Into<Delivery>,
        seq: u64,
        at: Timestamp,
    ) -> TrajectoryRecord {
        let record = TrajectoryRecord::new(seq, at, self.delivered(delivery));
        let record = match self.session.identity() {
            Some(identity) => record.in_run(identity),
            None => record,
        };
        self.take_in(&record);
        record
    }

    /// Whether as much was said as the prompt allows for one run.
    fn is_spent(&self) -> bool {
        let (spent, policy) = (self.session.delivery_totals(), self.prompt.delivery());
        policy.max_deliveries.is_some_and(|max| spent.deliveries >= max)
            || policy.max_chars.is_some_and(|max| spent.chars >= max)
    }

    /// The run's state.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The analysis of the run.
    pub const fn trajectory(&self) -> &TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// The call that the latest record ended, if it ended one.
    pub fn call_just_ended(&self) -> Option<&ToolInvoked> {
        self.trajectory().call_just_ended()
    }

    /// The prompt the run works on.
    pub const fn prompt(&self) -> &Prompt {
        &self.prompt
    }
}
