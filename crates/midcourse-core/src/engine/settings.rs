//! Settings of the built-in providers (the parts of midcourse that make messages): whether each is
//! on, its parameters, and how often it may deliver a message.
//!
//! By default, the providers of messages about the deadline, the budget and detected patterns are
//! on. All other providers are off.

use crate::feedback::{
    Budget, BudgetFeedback, DeadlineFeedback, DriftDetector, ErrorCascadeDetector, StallDetector,
};
use crate::guidance::{
    ConsultationPromptProvider, CourseCorrection, DeadlineNotice, DiagnosticSignalProvider,
    DoomLoopDetector, ParallelToolReminder,
};
use crate::message::{DecisionPoint, DecisionPoints};
use crate::prompt::{
    DeliveryPolicy, FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger, GuidanceLimits,
    GuidanceProvider, GuidanceProviderConfig, PromptTemplate,
};

/// Which providers are on, and how many messages a run gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageSettings {
    /// Which built-in providers are on, with their parameters.
    pub providers: ProviderSettings,
    /// Limits on the messages of all providers together.
    pub delivery: DeliveryPolicy,
}

impl MessageSettings {
    /// A prompt template that has no text sections, only the providers that are on. The budget
    /// provider is only added if the budget limits something.
    pub fn template(&self, budget: Budget) -> PromptTemplate {
        // Every field is named, so that the compiler reports a new provider that is missing here.
        // The order in `feedback` matters: by default, only the first provider in this order that
        // has feedback delivers it.
        let ProviderSettings {
            deadline,
            budget: is_budget_enabled,
            error_cascade_detector,
            stall_detector,
            drift_detector,
            course_correction,
            diagnostic_signal,
            doom_loop_detector,
            consultation_prompt,
            parallel_tool_reminder,
        } = &self.providers;
        let notice = deadline.enabled.then(|| {
            GuidanceProviderConfig::new(DeadlineNotice).with_points([DecisionPoint::PreRender])
        });
        let budget = (*is_budget_enabled && budget != Budget::default())
            .then(|| FeedbackProviderConfig::new(BudgetFeedback::new(budget), after_each_call()));
        let feedback = [
            deadline.config(),
            budget,
            error_cascade_detector.config(),
            stall_detector.config(),
            drift_detector.config(),
        ];
        let guidance = [
            notice,
            course_correction.config(),
            diagnostic_signal.config(),
            doom_loop_detector.config(),
            consultation_prompt.config(),
            parallel_tool_reminder.config(),
        ];
        let template = PromptTemplate::new("midcourse", "run").unwrap_or_default();
        let mut template = template.with_delivery(self.delivery);
        template.add_built_in(feedback.into_iter().flatten(), guidance.into_iter().flatten());
        template
    }
}

/// The template of the default settings: messages about the deadline and the budget, in runs that
/// have them, and guidance about detected patterns.
pub fn shipped_template(budget: Budget) -> PromptTemplate {
    MessageSettings::default().template(budget)
}

/// Settings of the built-in providers.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// Feedback about the time that is left, in runs with a deadline. If this is on, guidance also
    /// tells the agent its deadline before it starts.
    pub deadline: FeedbackSetting<DeadlineFeedback>,
    /// Whether runs with a budget get feedback about how much of the budget is used.
    pub budget: bool,
    /// Feedback about consecutive failures.
    pub error_cascade_detector: FeedbackSetting<ErrorCascadeDetector>,
    /// Feedback about loops and other calls that make no progress.
    pub stall_detector: FeedbackSetting<StallDetector>,
    /// Feedback about work outside the folders in which the run began.
    pub drift_detector: FeedbackSetting<DriftDetector>,
    /// Guidance about every kind of problem that the built-in detectors find.
    pub course_correction: GuidanceSetting<CourseCorrection>,
    /// Guidance about consecutive failures.
    pub diagnostic_signal: GuidanceSetting<DiagnosticSignalProvider>,
    /// Guidance about loops.
    pub doom_loop_detector: GuidanceSetting<DoomLoopDetector>,
    /// Guidance to consult someone after several failures.
    pub consultation_prompt: GuidanceSetting<ConsultationPromptProvider>,
    /// Guidance to make independent calls in parallel.
    pub parallel_tool_reminder: GuidanceSetting<ParallelToolReminder>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            deadline: FeedbackSetting::new(DeadlineFeedback::default().at_steps(), true),
            budget: true,
            error_cascade_detector: FeedbackSetting::new(ErrorCascadeDetector::default(), false),
            stall_detector: FeedbackSetting::new(StallDetector, false),
            drift_detector: FeedbackSetting::new(DriftDetector, false),
            course_correction: GuidanceSetting { enabled: true, ..GuidanceSetting::default() },
            diagnostic_signal: GuidanceSetting::default(),
            doom_loop_detector: GuidanceSetting::default(),
            consultation_prompt: GuidanceSetting::default(),
            parallel_tool_reminder: GuidanceSetting::default(),
        }
    }
}

/// A feedback provider, whether it is on, and when it is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackSetting<P> {
    /// Whether the provider is on; if not, it is left out of the template.
    pub enabled: bool,
    /// The provider with its parameters.
    pub provider: P,
    /// When the provider is evaluated; by default after each tool call.
    pub trigger: FeedbackTrigger,
}

impl<P> FeedbackSetting<P> {
    fn new(provider: P, enabled: bool) -> Self {
        Self { enabled, provider, trigger: after_each_call() }
    }
}

fn after_each_call() -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(1).unwrap_or_default()
}

impl<P: FeedbackProvider + Clone + 'static> FeedbackSetting<P> {
    /// The provider as part of a template; `None` if it is off.
    fn config(&self) -> Option<FeedbackProviderConfig> {
        let config = || FeedbackProviderConfig::new(self.provider.clone(), self.trigger.clone());
        self.enabled.then(config)
    }
}

/// A guidance provider, whether it is on, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuidanceSetting<P> {
    /// Whether the provider is on; if not, it is left out of the template.
    pub enabled: bool,
    /// The provider with its parameters.
    pub provider: P,
    /// How often the provider may deliver guidance, and how sure its classifier has to be.
    pub limits: GuidanceLimits,
    /// The decision points at which the provider may deliver guidance.
    pub points: DecisionPoints,
}

/// By default a guidance provider is off and has its default parameters.
impl<P: Default> Default for GuidanceSetting<P> {
    fn default() -> Self {
        let points = [DecisionPoint::PreToolSelection, DecisionPoint::PostToolResult];
        Self {
            enabled: false,
            provider: P::default(),
            limits: GuidanceLimits::default(),
            points: DecisionPoints::of(points),
        }
    }
}

impl<P: GuidanceProvider + Clone + 'static> GuidanceSetting<P> {
    /// The provider as part of a template; `None` if it is off.
    fn config(&self) -> Option<GuidanceProviderConfig> {
        let points = self.points.iter();
        self.enabled.then(|| {
            GuidanceProviderConfig::new(self.provider.clone())
                .with_limits(self.limits)
                .with_points(points)
        })
    }
}
