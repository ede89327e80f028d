//! What midcourse ships: who speaks by default.

use crate::feedback::{
    Budget, BudgetFeedback, DeadlineFeedback, FeedbackProviderConfig, FeedbackTrigger,
};
use crate::guidance::{CourseCorrection, DecisionPoint, DecisionPoints, GuidanceProviderConfig};
use crate::prompt::PromptTemplate;

/// What a run is to meet, where its user said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// What it may use up.
    pub budget: Budget,
}

/// The shipped prompt: deadline and budget where there are any, and the detectors of trouble.
///
/// Everything else (parallel calls, tool counts, large output, sensitive content, drift) is off
/// unless asked for.
pub fn shipped_template(goals: Goals) -> PromptTemplate {
    let each_call = || FeedbackTrigger::every_n_calls(1).unwrap_or_default();
    let mut correction = GuidanceProviderConfig::new(CourseCorrection);
    correction.points =
        DecisionPoints::of([DecisionPoint::PreToolSelection, DecisionPoint::PostToolResult]);
    let mut template = PromptTemplate::new("midcourse", "run").unwrap_or_default();
    template = template
        .with_feedback_provider(FeedbackProviderConfig::new(
            DeadlineFeedback::default().at_steps(),
            each_call(),
        ))
        .with_guidance_provider(correction);
    if goals.budget != Budget::default() {
        let budget = BudgetFeedback::new(goals.budget);
        template =
            template.with_feedback_provider(FeedbackProviderConfig::new(budget, each_call()));
    }
    template
}
