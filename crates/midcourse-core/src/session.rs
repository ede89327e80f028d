//! The session: the bounded state of one run.
//!
//! It holds the analysis, what was said and when, the ledger of causes and what the outside told.
//! Everything changes through [`Session::apply`] (a record) or [`Session::dispatch`] (an event);
//! what is kept is bounded, totals are counters and stay exact when the window has moved on.
//! Slices are scoped to the prompt the run works on.

mod cadence;
mod checkpoint;
mod outcome;
mod slice;
mod terms;

pub use cadence::Fired;
pub(crate) use cadence::ProviderId;
pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, CheckpointError};
pub use slice::{SessionEvent, Slice, SliceItem};
pub(crate) use terms::UsedBefore;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::analysis::{
    ToolInvoked, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern,
};
use crate::cause::{Cause, MAX_EVIDENCE_SEQS, Why};
use crate::detect::{Noticed, PatternDetector, TrajectoryBuilder};
use crate::fault::Fault;
use crate::ledger::{Ledger, LedgerPolicy, is_about_speech};
use crate::message::{Feedback, GuidanceDelivered, Outcome};
use crate::record::{RunIdentity, TrajectoryPayload, TrajectoryRecord};
use crate::time::{Deadline, Timestamp};
use cadence::Cadence;
use outcome::Outcomes;
use slice::{Kept, Totals};

/// Prompts that a run tells apart; later ones count as the last of these.
pub const MAX_PROMPTS: usize = 16;

/// Files whose appearance is remembered; beyond it the oldest is forgotten.
pub const MAX_CREATED_FILES: usize = 16;

/// Providers that are remembered to have spoken of a file; beyond it nobody speaks of it again.
const PROVIDERS_MAX: usize = 32;

/// What is kept of a file's or a prompt's name, in bytes.
const NAME_MAX: usize = 256;

/// The bounded state of one run.
pub struct Session {
    builder: TrajectoryBuilder,
    state: State,
}

/// All of a session but the analysis and its detectors.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    #[serde(with = "checkpoint::identity")]
    identity: Option<RunIdentity>,
    prompts: Vec<CompactString>,
    prompt: u8,
    totals: Totals,
    feedback: Kept<Feedback>,
    guidance: Kept<GuidanceDelivered>,
    patterns: Kept<TrajectoryPattern>,
    cadence: Cadence,
    ledger: Ledger,
    outcomes: Outcomes,
    deadline: Option<(Deadline, u64)>,
    files: Vec<CreatedFile>,
    delivery_totals: DeliveryTotals,
    used_before: UsedBefore,
    /// Under the terms in force something was recorded as said that nobody heard.
    has_shadowed: bool,
}

/// A file that appeared, and who has spoken of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CreatedFile {
    path: CompactString,
    announced_by: Vec<ProviderId>,
}

/// What was said over the whole run; what a shadow said counts until its terms end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryTotals {
    /// How often.
    pub deliveries: u64,
    /// How many characters.
    pub chars: u64,
}

/// What one record changed.
#[derive(Debug, Default)]
pub struct Intake {
    /// Patterns that begin to hold.
    pub patterns: Vec<TrajectoryPattern>,
    /// What followed things that were said.
    pub outcomes: Vec<Outcome>,
    /// Detectors that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl Session {
    /// A run that has not begun, on a prompt.
    pub fn new(config: TrajectoryAnalysisConfig, prompt_name: &str) -> Self {
        let mut state = State::default();
        state.enter_prompt(prompt_name);
        Self { builder: TrajectoryBuilder::new(config), state }
    }

    /// The same, watched by one more detector.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        self.builder = self.builder.with_detector(detector);
        self
    }

    /// Takes in one record.
    pub fn apply(&mut self, record: &TrajectoryRecord) -> Intake {
        let calls = self.trajectory().tool_call_count();
        let noticed = self.builder.apply(record, self.state.prompt);
        self.state.count_calls(self.builder.analysis().tool_call_count() - calls);
        self.hear(record);
        self.settle(noticed)
    }

    /// Takes in an event that came without a record.
    pub fn dispatch(&mut self, event: impl Into<SessionEvent>) -> Intake {
        match event.into() {
            SessionEvent::ToolInvoked(call) => self.invoke(call),
            SessionEvent::Feedback(feedback) => {
                let seq = self.trajectory().latest_seq();
                self.builder.analysis_mut().feedback_given();
                self.spoke(feedback, seq);
                Intake::default()
            }
            SessionEvent::GuidanceDelivered(guidance) => {
                let (seq, at) = (self.trajectory().latest_seq(), self.trajectory().latest_at());
                self.guided(guidance, seq, at);
                Intake::default()
            }
            SessionEvent::Pattern(pattern) => {
                self.state.totals.patterns.add(self.state.prompt);
                self.state.patterns.push(self.state.prompt, pattern);
                Intake::default()
            }
        }
    }

    fn invoke(&mut self, call: ToolInvoked) -> Intake {
        // Detectors look at records, so the call becomes one.
        let record = TrajectoryRecord::new(
            self.trajectory().latest_seq().saturating_add(1),
            call.ended_at(),
            TrajectoryPayload::ToolEnded {
                tool_call_id: "".into(),
                tool_name: call.tool().into(),
                result: crate::record::ToolResult::text(call.result_excerpt()),
                is_error: call.is_error(),
            },
        );
        let prompt = self.state.prompt;
        if !self.builder.analysis_mut().push_invoked(call.in_prompt(prompt)) {
            return Intake::default();
        }
        self.state.count_calls(1);
        let noticed = self.builder.look(&record);
        self.settle(noticed)
    }

    /// What a record means beyond the analysis.
    fn hear(&mut self, record: &TrajectoryRecord) {
        match &record.payload {
            TrajectoryPayload::RunStarted { identity } => {
                if let Some(at) = identity.deadline_unix_ms {
                    self.state.set_deadline(at, record);
                }
                self.state.identity = Some(identity.clone());
            }
            TrajectoryPayload::FeedbackDelivered { feedback, shadow, .. } => {
                self.state.has_shadowed |= shadow;
                self.spoke(feedback.clone(), record.seq);
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow } => {
                self.state.has_shadowed |= shadow;
                self.guided(guidance.clone(), record.seq, record.at());
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: Some(at) } => {
                self.state.set_deadline(*at, record);
            }
            TrajectoryPayload::DeadlineSet { at_unix_ms: None } => self.state.deadline = None,
            // Time that was up before the run went on was another sitting's.
            TrajectoryPayload::Resumed => {
                self.state.deadline.take_if(|(deadline, _)| deadline.at() <= record.at());
            }
            TrajectoryPayload::ConfigApplied { prompt_name: Some(name), .. } => {
                self.state.enter_prompt(name);
            }
            TrajectoryPayload::ConfigApplied { prompt_name: None, .. } => {
                self.state.begin_terms(self.builder.analysis());
            }
            TrajectoryPayload::FileCreated { path } => self.state.file_created(path),
            TrajectoryPayload::ContextCompacted { .. } => self.state.ledger.wipe(),
            _ => {}
        }
    }

    /// Keeps what the detectors noticed, and settles what followed earlier words.
    fn settle(&mut self, noticed: Noticed) -> Intake {
        let Self { builder, state } = self;
        let Noticed { begun, faults } = noticed;
        for pattern in &begun {
            state.totals.patterns.add(state.prompt);
            state.patterns.push(state.prompt, pattern.clone());
        }
        let outcomes = state.outcomes.settle(builder.analysis());
        Intake { patterns: begun, outcomes, faults }
    }

    fn spoke(&mut self, feedback: Feedback, seq: u64) {
        self.said(&feedback.render(), feedback.why(), seq, feedback.timestamp());
        let provider = ProviderId::of(feedback.provider_name());
        let state = &mut self.state;
        let prompt = state.prompt_number(feedback.prompt_name());
        state.totals.feedback.add(prompt);
        state.cadence.spoke(provider, prompt, feedback.timestamp(), feedback.call_index());
        for file in &mut state.files {
            let is_known = file.announced_by.contains(&provider);
            if !is_known && file.announced_by.len() < PROVIDERS_MAX {
                file.announced_by.push(provider);
            }
        }
        state.feedback.push(prompt, feedback);
    }

    fn guided(&mut self, guidance: GuidanceDelivered, seq: u64, at: Timestamp) {
        self.said(guidance.injection.content(), guidance.injection.why(), seq, at);
        let turn = self.trajectory().turn_count();
        let state = &mut self.state;
        state.totals.guidance.add(state.prompt);
        state.cadence.fired(ProviderId::of(&guidance.provider_name), turn);
        state.guidance.push(state.prompt, guidance);
    }

    /// Notes that something was said, and about what.
    fn said(&mut self, text: &str, why: Option<&Why>, seq: u64, at: Timestamp) {
        self.state.delivery_totals.deliveries += 1;
        self.state.delivery_totals.chars += text.chars().count() as u64;
        let Some(why) = why else { return };
        let steps = self.steps(&why.cause);
        self.state.ledger.record_delivery(why, text, seq, at, steps);
        // What followed can be told only of trouble that a detector sees come and go.
        let is_seen = self.trajectory().patterns().iter().any(|held| *held.cause() == why.cause);
        if is_seen {
            self.state.outcomes.open(&why.cause, seq, steps);
        }
    }

    /// The run, once it is known.
    pub const fn identity(&self) -> Option<&RunIdentity> {
        self.state.identity.as_ref()
    }

    /// The prompt the run works on.
    pub fn prompt_name(&self) -> &str {
        self.state.prompts.get(usize::from(self.state.prompt)).map_or("", |name| name)
    }

    /// The analysis of the run.
    pub const fn trajectory(&self) -> &TrajectoryAnalysis {
        self.builder.analysis()
    }

    /// What was said about which cause.
    pub const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// What was said over the whole run.
    pub const fn delivery_totals(&self) -> DeliveryTotals {
        self.state.delivery_totals
    }

    /// What was used up before the terms in force began to hold.
    pub(crate) const fn used_before(&self) -> UsedBefore {
        self.state.used_before
    }

    /// When the run has to be done, if it has to.
    pub const fn deadline(&self) -> Option<Deadline> {
        match self.state.deadline {
            Some((deadline, _)) => Some(deadline),
            None => None,
        }
    }

    /// The record that set the deadline.
    pub(crate) fn deadline_evidence(&self) -> Vec<u64> {
        self.state.deadline.iter().map(|(_, seq)| *seq).collect()
    }

    /// What is kept of one type, scoped to the prompt the run works on.
    pub fn slice<T: SliceItem>(&self) -> Slice<'_, T> {
        self.slice_of_prompt_number(self.state.prompt)
    }

    /// What is kept of one type for another prompt.
    pub fn slice_of_prompt<T: SliceItem>(&self, prompt_name: &str) -> Slice<'_, T> {
        let number = self.state.prompts.iter().position(|name| name == prompt_name);
        let number = number.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX);
        self.slice_of_prompt_number(number)
    }

    /// When a feedback provider last spoke on this prompt, and at which call.
    pub(crate) fn last_spoke(&self, provider: ProviderId) -> Option<(Timestamp, u64)> {
        self.state.cadence.last_spoke(provider, self.state.prompt)
    }

    /// The call at which any feedback provider last spoke on this prompt.
    pub(crate) fn last_feedback_call(&self) -> u64 {
        self.state.cadence.last_call(self.state.prompt)
    }

    /// How often a guidance provider has spoken.
    pub fn fired(&self, provider: &str) -> Fired {
        self.fired_by(ProviderId::of(provider))
    }

    pub(crate) fn fired_by(&self, provider: ProviderId) -> Fired {
        self.state.cadence.guidance(provider)
    }

    /// Whether a file appeared that a provider has not spoken of.
    pub(crate) fn has_unannounced_file(&self, provider: ProviderId, file: &str) -> bool {
        self.state.files.iter().any(|known| {
            known.is(file)
                && known.announced_by.len() < PROVIDERS_MAX
                && !known.announced_by.contains(&provider)
        })
    }

    /// Why one would speak of a pattern now.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        Why {
            cause: pattern.cause().clone(),
            rung: self.state.ledger.next_rung(pattern.cause()),
            evidence: pattern.evidence().to_vec(),
        }
    }

    /// Why one would speak of a cause that these calls show.
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

    /// Whether a cause may be spoken of now.
    pub fn may_deliver(&self, cause: &Cause, policy: LedgerPolicy) -> bool {
        self.state.ledger.may_deliver(cause, self.steps(cause), policy)
    }

    /// What a cause is paced by: calls, or the model's answers if it shows in those.
    fn steps(&self, cause: &Cause) -> u64 {
        if is_about_speech(cause) {
            self.trajectory().response_count()
        } else {
            self.trajectory().tool_call_count()
        }
    }
}

impl State {
    fn enter_prompt(&mut self, name: &str) {
        let name = name.get(..name.floor_char_boundary(NAME_MAX)).unwrap_or_default();
        self.prompt = match self.prompts.iter().position(|known| known == name) {
            Some(at) => u8::try_from(at).unwrap_or(0),
            None if self.prompts.len() < MAX_PROMPTS => {
                self.prompts.push(name.into());
                u8::try_from(self.prompts.len() - 1).unwrap_or(0)
            }
            None => u8::try_from(MAX_PROMPTS - 1).unwrap_or(0),
        };
    }

    /// Setting the same deadline once more does not give the run its time anew.
    fn set_deadline(&mut self, at: Timestamp, record: &TrajectoryRecord) {
        if self.deadline.is_none_or(|(known, _)| known.at() != at) {
            self.deadline = Some((Deadline::new(at, record.at()), record.seq));
        }
    }

    /// The number of a prompt that has been entered; else of the current one.
    fn prompt_number(&self, name: &str) -> u8 {
        let known = self.prompts.iter().position(|known| known == name);
        known.and_then(|at| u8::try_from(at).ok()).unwrap_or(self.prompt)
    }

    fn count_calls(&mut self, calls: u64) {
        for _ in 0..calls {
            self.totals.calls.add(self.prompt);
        }
    }

    fn file_created(&mut self, path: &str) {
        // The end of a path is what tells files apart.
        let path = path.get(path.ceil_char_boundary(path.len().saturating_sub(NAME_MAX))..);
        let path = path.unwrap_or_default();
        if self.files.iter().any(|known| known.path == path) {
            return;
        }
        if self.files.len() == MAX_CREATED_FILES {
            self.files.remove(0);
        }
        self.files.push(CreatedFile { path: path.into(), announced_by: Vec::new() });
    }
}

impl CreatedFile {
    /// Whether this is the file of that path, or of that name in some folder.
    fn is(&self, file: &str) -> bool {
        self.path
            .strip_suffix(file)
            .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    }
}
