//! What midcourse ships: who speaks by default.

use super::providers::{Providers, each_call};
use crate::feedback::{Budget, BudgetFeedback};
use crate::guidance::TimeLimit;
use crate::message::{DecisionPoint, DecisionPoints};
use crate::prompt::{
    DeliveryPolicy, FeedbackProviderConfig, GuidanceProviderConfig, PromptTemplate,
};

/// What a run is to meet, where its user said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// What it may use up.
    pub budget: Budget,
}

/// Who speaks, and how much is said. As it comes by default, so it ships.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speaking {
    /// Who speaks.
    pub providers: Providers,
    /// How much is said, and who goes first.
    pub delivery: DeliveryPolicy,
}

impl Speaking {
    /// The prompt in which those speak that are to, and who speaks of goals where there are any.
    pub fn template(&self, goals: Goals) -> PromptTemplate {
        // Every provider is named, so a new one does not compile until it has its place here: of
        // several that have feedback the first speaks.
        let Providers {
            deadline,
            budget,
            error_cascade_detector,
            stall_detector,
            drift_detector,
            course_correction,
            diagnostic_signal,
            doom_loop_detector,
            consultation_prompt,
            parallel_tool_reminder,
        } = &self.providers;
        let template = PromptTemplate::new("midcourse", "run").unwrap_or_default();
        let mut template = deadline.put_on(template.with_delivery(self.delivery));
        if deadline.enabled {
            let mut limit = GuidanceProviderConfig::new(TimeLimit);
            limit.points = DecisionPoints::of([DecisionPoint::PreRender]);
            template = template.with_guidance_provider(limit);
        }
        if *budget && goals.budget != Budget::default() {
            let budget = BudgetFeedback::new(goals.budget);
            template =
                template.with_feedback_provider(FeedbackProviderConfig::new(budget, each_call()));
        }
        template = error_cascade_detector.put_on(template);
        template = stall_detector.put_on(template);
        template = drift_detector.put_on(template);
        template = course_correction.put_on(template);
        template = diagnostic_signal.put_on(template);
        template = doom_loop_detector.put_on(template);
        template = consultation_prompt.put_on(template);
        parallel_tool_reminder.put_on(template)
    }
}

/// The shipped prompt: deadline and budget where there are any, and the detectors of trouble.
///
/// Everything else (parallel calls, tool counts, large output, sensitive content, drift) is off
/// unless asked for.
pub fn shipped_template(goals: Goals) -> PromptTemplate {
    Speaking::default().template(goals)
}
