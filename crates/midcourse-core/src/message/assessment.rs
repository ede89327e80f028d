//! Assessments. The observer API is a second API for feedback: it calls feedback an assessment, and
//! a feedback provider an observer.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Feedback, Observation, Severity};
use crate::time::Timestamp;
use crate::why::Why;

/// What an observer tells the agent after a tool call: [`Feedback`] with the heading
/// `[Trajectory Assessment - NAME]`, where `NAME` is the name of the observer.
///
/// ```
/// use midcourse_core::Assessment;
///
/// let assessment = Assessment::new("Deadline", "You have 8 minutes remaining.");
/// assert_eq!(
///     assessment.render(),
///     "[Trajectory Assessment - Deadline]\n\nYou have 8 minutes remaining."
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Assessment(Feedback);

impl Assessment {
    /// An assessment with this summary, which is cut to 500 characters. An assessment with an empty
    /// summary is never delivered.
    pub fn new(observer_name: &str, summary: impl Into<String>) -> Self {
        Self(Feedback::new(observer_name, summary).into_assessment())
    }

    /// Adds an observation. Does nothing if the assessment already has
    /// [`MAX_FEEDBACK_LINES`](crate::MAX_FEEDBACK_LINES) observations.
    #[must_use]
    pub fn with_observation(self, observation: Observation) -> Self {
        Self(self.0.with_observation(observation))
    }

    /// Adds a suggestion, cut to 200 characters. Does nothing if the assessment already has
    /// [`MAX_FEEDBACK_LINES`](crate::MAX_FEEDBACK_LINES) suggestions.
    #[must_use]
    pub fn with_suggestion(self, suggestion: impl Into<String>) -> Self {
        Self(self.0.with_suggestion(suggestion))
    }

    /// Sets how urgent the assessment is; [`Severity::Info`] by default.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Self {
        Self(self.0.with_severity(severity))
    }

    /// Sets when the assessment was made. `run_observers` overwrites this time. An assessment
    /// without a time gets the time of the session's latest record when it is dispatched.
    #[must_use]
    pub fn with_timestamp(self, timestamp: Timestamp) -> Self {
        Self(self.0.with_timestamp(timestamp))
    }

    /// Sets what the assessment is about. After a message about a problem, the next message about
    /// the same problem has to wait for some tool calls. An assessment for which this method was
    /// not called never waits.
    #[must_use]
    pub fn about(self, why: Why) -> Self {
        Self(self.0.about(why))
    }

    /// Name of the observer that made the assessment.
    pub fn observer_name(&self) -> &str {
        self.0.provider_name()
    }

    /// Wraps feedback without changing its heading. A session keeps all feedback as assessments,
    /// and feedback that is not from an observer keeps the heading `[Feedback - NAME]`.
    pub(crate) const fn kept(feedback: Feedback) -> Self {
        Self(feedback)
    }
}

/// Gives access to the summary, observations, suggestions and the rest of the feedback.
impl Deref for Assessment {
    type Target = Feedback;

    fn deref(&self) -> &Feedback {
        &self.0
    }
}

impl From<Feedback> for Assessment {
    fn from(feedback: Feedback) -> Self {
        Self(feedback.into_assessment())
    }
}

impl From<Assessment> for Feedback {
    fn from(assessment: Assessment) -> Self {
        assessment.0
    }
}

impl<'de> Deserialize<'de> for Assessment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only checkpoints are binary. They contain all feedback of a session as assessments, also
        // feedback that is not from an observer, so the stored heading is kept. In JSON, the data
        // is always from an observer and gets the heading of an assessment.
        let is_kept = !deserializer.is_human_readable();
        let feedback = Feedback::deserialize(deserializer)?;
        Ok(if is_kept { Self(feedback) } else { feedback.into() })
    }
}
