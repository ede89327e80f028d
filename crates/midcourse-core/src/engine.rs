//! The engine: takes the records of one run and returns messages for its agent.
//!
//! It owns the session (the state of the run) and the prompt, whose providers make the messages.
//! For a run that is going on, the hooks and the proxy of the `midcourse` command call
//! [`Engine::step`] with each record. For a stored run, its commands `replay` and `backtest` do.
//! The engine does no I/O and reads no clock, so a replay delivers the same messages as the live
//! run.

mod delivery;
mod holdout;
mod preview;
mod settings;
mod step;

pub use delivery::{Delivery, LABEL};
pub use holdout::{Holdout, InvalidHoldout};
pub use settings::{
    FeedbackSetting, GuidanceSetting, MessageSettings, ProviderSettings, shipped_template,
};
pub use step::Step;

use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryAnalysisConfig};
use crate::detect::PatternDetector;
use crate::feedback::{Budget, collect_feedback};
use crate::guidance::collect_guidance;
use crate::message::{Assignment, DecisionPoint, Feedback, GuidanceDelivered};
use crate::prompt::{
    Collected, FeedbackContext, GuidanceContext, InvalidPrompt, Prompt, RenderedPrompt,
};
use crate::record::{TrajectoryPayload, TrajectoryRecord};
use crate::session::{Changes, Checkpoint, CheckpointError, Session};
use crate::time::Timestamp;

/// Whether messages reach the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The caller shows the messages to the agent.
    #[default]
    Live,
    /// Messages are recorded, but the caller must not show them to the agent. Still they count as
    /// delivered, both for the limits on messages and for the waits between them. The session
    /// forgets them at the next `config_applied` record without a prompt name, which is made when
    /// the agent is started again to resume the run.
    Shadow,
}

/// Analyses one run and delivers messages to its agent.
pub struct Engine {
    session: Session,
    prompt: Prompt,
    /// Prompts that a `config_applied` record can switch the run to by name.
    prompts: Vec<Prompt>,
    mode: Mode,
    holdout: Holdout,
}

impl Engine {
    /// Number of this release's judgement. It is raised whenever the engine judges the same records
    /// differently, so that what an earlier engine found can be recognised and computed again.
    pub const VERSION: u32 = 1;

    /// An engine in live mode for a run that has no records yet.
    pub fn new(prompt: Prompt, analysis: TrajectoryAnalysisConfig) -> Self {
        let session = Session::new(analysis, prompt.name());
        Self {
            session,
            prompts: vec![prompt.clone()],
            prompt,
            mode: Mode::Live,
            holdout: Holdout::NONE,
        }
    }

    /// An engine with the providers and detectors that midcourse ships with, and a budget for the
    /// run: [`Budget::default`] limits nothing.
    pub fn shipped(budget: Budget) -> Self {
        Self::new(Prompt::new(shipped_template(budget)), TrajectoryAnalysisConfig::shipped())
    }

    /// Adds a detector that runs after every record, after the built-in detectors. At most 128 can
    /// be added; further ones are ignored.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        self.session = self.session.with_detector(detector);
        self
    }

    /// Adds a prompt. The run switches to this prompt when a `config_applied` record contains its
    /// name. If the engine already has a prompt of that name, the new prompt replaces it.
    ///
    /// A record may also name a prompt that was never added. Then the run keeps the providers of
    /// the prompt that it was on, but further calls and messages are counted under the new name.
    #[must_use]
    pub fn with_prompt(mut self, prompt: Prompt) -> Self {
        self.add_prompt(prompt);
        self
    }

    /// Switches the run to a prompt immediately. This makes no record: if a replay is to make the
    /// same switch, the caller also stores a `config_applied` record with the prompt's name.
    pub fn set_prompt(&mut self, prompt: Prompt) {
        self.session.set_prompt(prompt.name());
        self.add_prompt(prompt);
    }

    fn add_prompt(&mut self, prompt: Prompt) {
        self.prompts.retain(|known| known.name() != prompt.name());
        if prompt.name() == self.session.prompt_name() {
            self.prompt = prompt.clone();
        }
        self.prompts.push(prompt);
    }

    /// Makes `self.prompt` the prompt that the session names. A record or a restored checkpoint may
    /// have changed that name.
    fn follow_session_prompt(&mut self) {
        let name = self.session.prompt_name();
        if name != self.prompt.name() {
            let known = self.prompts.iter().find(|known| known.name() == name);
            self.prompt = known.cloned().unwrap_or_else(|| self.prompt.renamed(name));
        }
    }

    /// Sets the mode; the default is [`Mode::Live`].
    #[must_use]
    pub const fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether messages reach the agent.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Withholds the messages about this share of problems from the agent, to measure the effect of
    /// messages; the default is [`Holdout::NONE`]. The caller finds them in [`Step::withheld`].
    ///
    /// A hash of the run's id and the problem's cause decides whether its messages are withheld, so
    /// runs must have different ids. Only messages about a pattern that a detector reports are part of the experiment.
    /// Messages about limits of the run, such as the deadline, are always delivered.
    #[must_use]
    pub const fn with_holdout(mut self, holdout: Holdout) -> Self {
        self.holdout = holdout;
        self
    }

    /// Replaces the session by a saved one. Returns an error if the checkpoint is damaged or has
    /// the format of another release. The caller can then restore the session from the run's
    /// records: call `fold` with each of them, in order.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.session.restore(checkpoint)?;
        self.follow_session_prompt();
        Ok(())
    }

    /// Saves the session, so that another process can continue the run from here.
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        self.session.checkpoint()
    }

    /// Applies a stored record without making messages: the messages that followed the record in
    /// the live run are stored as records too. Folding all records of a run restores its session.
    pub fn fold(&mut self, record: &TrajectoryRecord) {
        self.apply(record);
    }

    fn apply(&mut self, record: &TrajectoryRecord) -> Changes {
        let changes = self.session.apply(record);
        self.follow_session_prompt();
        changes
    }

    /// Feedback on the latest tool call. If it is too late to attach feedback to the call's result,
    /// only feedback about time and budgets, and only with a model request. None if the run has
    /// received as many messages as its prompt allows.
    fn feedback(&self, record: &TrajectoryRecord, point: DecisionPoint) -> Collected<Feedback> {
        let context = FeedbackContext::new(&self.session, &self.prompt, record.at());
        let has_result = self.trajectory().awaits_feedback();
        // Before the first request, the deadline notice speaks of the time.
        let is_request = point != DecisionPoint::PreRender
            && matches!(record.payload, TrajectoryPayload::ProviderRequestPrepared { .. });
        if self.has_reached_limit() || !(has_result || is_request) {
            return Collected::default();
        }
        collect_feedback(&if has_result { context } else { context.without_result() })
    }

    fn guidance(&self, point: DecisionPoint, now: Timestamp) -> Collected<GuidanceDelivered> {
        if self.has_reached_limit() {
            return Collected::default();
        }
        collect_guidance(&GuidanceContext::new(&self.session, &self.prompt, point, now))
    }

    /// What the experiment decides about a message; `None` if the message is not part of it, because
    /// no detector reports what the message is about.
    fn assignment(&self, record: &TrajectoryRecord, delivery: &Delivery) -> Option<Assignment> {
        let cause = &delivery.why()?.cause;
        let identity = self.session.identity().map(|identity| &identity.run_id);
        let run_id = record.run_id.as_ref().or(identity)?;
        let mut patterns = self.trajectory().patterns().iter();
        patterns.any(|pattern| pattern.cause() == cause).then_some(())?;
        self.holdout.assign(run_id.as_str(), cause)
    }

    /// Renders the prompt as text. Of `deliveries`, the text includes the guidance whose decision
    /// point is [`DecisionPoint::PreRender`]; the other messages are left out.
    pub fn render(&self, deliveries: &[Delivery]) -> Result<RenderedPrompt, InvalidPrompt> {
        let guidance = deliveries.iter().filter_map(|delivery| match delivery {
            Delivery::Guidance(guidance) => Some(guidance),
            Delivery::Feedback { .. } => None,
        });
        let before_rendering =
            guidance.filter(|guidance| guidance.decision_point == DecisionPoint::PreRender);
        let injections: Vec<_> =
            before_rendering.map(|guidance| guidance.injection.clone()).collect();
        self.prompt.render(&injections)
    }

    /// Whether the run has received as many messages, or as many characters of them, as the prompt
    /// allows.
    fn has_reached_limit(&self) -> bool {
        let (totals, policy) = (self.session.delivery_totals(), self.prompt.delivery());
        policy.max_deliveries.is_some_and(|max| totals.deliveries >= max)
            || policy.max_chars.is_some_and(|max| totals.chars >= max)
    }

    /// The state of the run: its analysis, the messages it received, its prompt and its deadline.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The calls, turns, errors and patterns of the run so far.
    pub const fn trajectory(&self) -> &TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// The tool call that the latest record ended; `None` if that record ended no call.
    pub fn call_just_ended(&self) -> Option<&ToolInvoked> {
        self.trajectory().call_just_ended()
    }

    /// The prompt that the run is on, with the providers that make its messages.
    pub const fn prompt(&self) -> &Prompt {
        &self.prompt
    }
}
