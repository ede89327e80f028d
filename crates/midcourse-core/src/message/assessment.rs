//! Assessments: feedback under the name that trajectory observers use for it.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Feedback, Observation, Severity};
use crate::cause::Why;
use crate::time::Timestamp;

/// What an observer tells the agent after a tool call: [`Feedback`] that is rendered under
/// `[Trajectory Assessment - NAME]`.
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
    /// An assessment with a summary. One with an empty summary is never delivered.
    pub fn new(observer_name: &str, summary: impl Into<String>) -> Self {
        Self(Feedback::new(observer_name, summary).into_assessment())
    }

    /// Adds an observation, up to [`MAX_FEEDBACK_LINES`](crate::MAX_FEEDBACK_LINES).
    #[must_use]
    pub fn with_observation(self, observation: Observation) -> Self {
        Self(self.0.with_observation(observation))
    }

    /// Adds a suggestion, up to [`MAX_FEEDBACK_LINES`](crate::MAX_FEEDBACK_LINES).
    #[must_use]
    pub fn with_suggestion(self, suggestion: impl Into<String>) -> Self {
        Self(self.0.with_suggestion(suggestion))
    }

    /// Sets how urgent the assessment is; [`Severity::Info`] by default.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Self {
        Self(self.0.with_severity(severity))
    }

    /// Sets when the assessment was made. Otherwise the session that receives the assessment sets
    /// the time of its latest record.
    #[must_use]
    pub fn with_timestamp(self, timestamp: Timestamp) -> Self {
        Self(self.0.with_timestamp(timestamp))
    }

    /// Names what the assessment is about. Messages about one cause are numbered, and have to wait
    /// for each other.
    #[must_use]
    pub fn about(self, why: Why) -> Self {
        Self(self.0.about(why))
    }

    /// Name of the observer that made the assessment.
    pub fn observer_name(&self) -> &str {
        self.0.provider_name()
    }

    /// Wraps feedback that a session keeps, without changing its heading.
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
        // Binary data is a checkpoint, which keeps all feedback of a session as assessments, with
        // whichever heading each had.
        let is_kept = !deserializer.is_human_readable();
        let feedback = Feedback::deserialize(deserializer)?;
        Ok(if is_kept { Self(feedback) } else { feedback.into() })
    }
}
