//! The providers that midcourse has, each with its parameters and whether it speaks. As they come
//! by default, so they ship: those are on that speak of trouble and of goals.

use std::num::NonZeroU32;

use crate::confidence::Confidence;
use crate::feedback::{DeadlineFeedback, DriftDetector, ErrorCascadeDetector, StallDetector};
use crate::guidance::{
    ConsultationPromptProvider, CourseCorrection, DiagnosticSignalProvider, DoomLoopDetector,
    ParallelToolReminder,
};
use crate::message::{DecisionPoint, DecisionPoints};
use crate::prompt::{
    FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger, GuidanceProvider,
    GuidanceProviderConfig, PromptTemplate,
};

/// A feedback provider, whether it speaks, and when it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackSetting<P> {
    /// Whether it speaks.
    pub enabled: bool,
    /// The provider.
    pub provider: P,
    /// When it is asked.
    pub trigger: FeedbackTrigger,
}

/// A guidance provider, whether it speaks, and how often it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuidanceSetting<P> {
    /// Whether it speaks.
    pub enabled: bool,
    /// The provider.
    pub provider: P,
    /// How often it may.
    pub pace: GuidancePace,
}

/// How often a guidance provider may speak, and how sure it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidancePace {
    /// How often in one turn.
    pub max_per_turn: NonZeroU32,
    /// Turns it stays silent after it spoke.
    pub cooldown_turns: u32,
    /// How often in one run.
    pub max_fires_per_session: Option<NonZeroU32>,
    /// How sure it has to be.
    pub min_confidence: Confidence,
}

impl Default for GuidancePace {
    fn default() -> Self {
        let usual = GuidanceProviderConfig::new(CourseCorrection);
        Self {
            max_per_turn: usual.max_per_turn,
            cooldown_turns: usual.cooldown_turns,
            max_fires_per_session: usual.max_fires_per_session,
            min_confidence: usual.min_confidence,
        }
    }
}

/// Who there is to speak.
#[derive(Debug, Clone, PartialEq)]
pub struct Providers {
    /// Speaks of the time that is left, where there is a deadline.
    pub deadline: FeedbackSetting<DeadlineFeedback>,
    /// Whether what is left of a budget is spoken of, where there is one.
    pub budget: bool,
    /// Speaks of failures in a row.
    pub error_cascade_detector: FeedbackSetting<ErrorCascadeDetector>,
    /// Speaks of standing still.
    pub stall_detector: FeedbackSetting<StallDetector>,
    /// Speaks of work far from where the run began.
    pub drift_detector: FeedbackSetting<DriftDetector>,
    /// Speaks of whatever trouble the detectors see.
    pub course_correction: GuidanceSetting<CourseCorrection>,
    /// Points at errors in a row.
    pub diagnostic_signal: GuidanceSetting<DiagnosticSignalProvider>,
    /// Points at circles.
    pub doom_loop_detector: GuidanceSetting<DoomLoopDetector>,
    /// Suggests a fresh perspective after failures.
    pub consultation_prompt: GuidanceSetting<ConsultationPromptProvider>,
    /// Reminds of parallel calls.
    pub parallel_tool_reminder: GuidanceSetting<ParallelToolReminder>,
}

impl Default for Providers {
    fn default() -> Self {
        Self {
            deadline: asked_each_call(DeadlineFeedback::default().at_steps(), true),
            budget: true,
            error_cascade_detector: asked_each_call(ErrorCascadeDetector::default(), false),
            stall_detector: asked_each_call(StallDetector, false),
            drift_detector: asked_each_call(DriftDetector, false),
            course_correction: GuidanceSetting { enabled: true, ..GuidanceSetting::default() },
            diagnostic_signal: GuidanceSetting::default(),
            doom_loop_detector: GuidanceSetting::default(),
            consultation_prompt: GuidanceSetting::default(),
            parallel_tool_reminder: GuidanceSetting::default(),
        }
    }
}

fn asked_each_call<P>(provider: P, enabled: bool) -> FeedbackSetting<P> {
    FeedbackSetting { enabled, provider, trigger: each_call() }
}

/// Due after every call.
pub(super) fn each_call() -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(1).unwrap_or_default()
}

/// Off, as those are that are not shipped.
impl<P: Default> Default for GuidanceSetting<P> {
    fn default() -> Self {
        Self { enabled: false, provider: P::default(), pace: GuidancePace::default() }
    }
}

impl<P: FeedbackProvider + Clone + 'static> FeedbackSetting<P> {
    pub(super) fn put_on(&self, template: PromptTemplate) -> PromptTemplate {
        if !self.enabled {
            return template;
        }
        let (provider, trigger) = (self.provider.clone(), self.trigger.clone());
        template.with_feedback_provider(FeedbackProviderConfig::new(provider, trigger))
    }
}

impl<P: GuidanceProvider + Clone + 'static> GuidanceSetting<P> {
    pub(super) fn put_on(&self, template: PromptTemplate) -> PromptTemplate {
        if !self.enabled {
            return template;
        }
        let GuidancePace { max_per_turn, cooldown_turns, max_fires_per_session, min_confidence } =
            self.pace;
        let mut config = GuidanceProviderConfig::new(self.provider.clone());
        config.max_per_turn = max_per_turn;
        config.cooldown_turns = cooldown_turns;
        config.max_fires_per_session = max_fires_per_session;
        config.min_confidence = min_confidence;
        config.points =
            DecisionPoints::of([DecisionPoint::PreToolSelection, DecisionPoint::PostToolResult]);
        template.with_guidance_provider(config)
    }
}
