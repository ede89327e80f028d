//! What midcourse ships: who speaks by default.

use crate::feedback::{
    Budget, BudgetFeedback, DeadlineFeedback, FeedbackProviderConfig, FeedbackTrigger,
};
use crate::guidance::{
    CourseCorrection, DecisionPoint, DecisionPoints, GuidanceProviderConfig, TimeLimit,
};
use crate::prompt::{DeliveryPolicy, PromptTemplate};

/// What a run is to meet, where its user said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// What it may use up.
    pub budget: Budget,
}

/// Who speaks, and how much is said. As it comes by default, so it ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speaking {
    /// Whether trouble is spoken of.
    pub course_correction: bool,
    /// Whether the time that is left is spoken of, where there is a deadline.
    pub deadline: bool,
    /// How much is said, and who goes first.
    pub delivery: DeliveryPolicy,
}

impl Default for Speaking {
    fn default() -> Self {
        Self { course_correction: true, deadline: true, delivery: DeliveryPolicy::default() }
    }
}

impl Speaking {
    /// The prompt in which those speak that are to, and who speaks of goals where there are any.
    pub fn template(self, goals: Goals) -> PromptTemplate {
        let each_call = || FeedbackTrigger::every_n_calls(1).unwrap_or_default();
        let template = PromptTemplate::new("midcourse", "run").unwrap_or_default();
        let mut template = template.with_delivery(self.delivery);
        if self.deadline {
            template = template.with_feedback_provider(FeedbackProviderConfig::new(
                DeadlineFeedback::default().at_steps(),
                each_call(),
            ));
            let mut limit = GuidanceProviderConfig::new(TimeLimit);
            limit.points = DecisionPoints::of([DecisionPoint::PreRender]);
            template = template.with_guidance_provider(limit);
        }
        if self.course_correction {
            let mut correction = GuidanceProviderConfig::new(CourseCorrection);
            correction.points = DecisionPoints::of([
                DecisionPoint::PreToolSelection,
                DecisionPoint::PostToolResult,
            ]);
            template = template.with_guidance_provider(correction);
        }
        if goals.budget != Budget::default() {
            let budget = BudgetFeedback::new(goals.budget);
            template =
                template.with_feedback_provider(FeedbackProviderConfig::new(budget, each_call()));
        }
        template
    }
}

/// The shipped prompt: deadline and budget where there are any, and the detectors of trouble.
///
/// Everything else (parallel calls, tool counts, large output, sensitive content, drift) is off
/// unless asked for.
pub fn shipped_template(goals: Goals) -> PromptTemplate {
    Speaking::default().template(goals)
}
