//! Feedback: the message that an agent gets after a tool call.

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize};

use super::Observation;
use crate::text::{CutText, ProviderName};
use crate::time::Timestamp;
use crate::why::Why;

/// One feedback has at most this many observations and at most this many suggestions. Further ones
/// are ignored.
pub const MAX_FEEDBACK_LINES: usize = 5;

/// The maximum length of rendered feedback, in characters. Nothing is cut to this length: the
/// limits on the parts of feedback already ensure it.
pub const MAX_FEEDBACK_CHARS: usize = 3_000;

/// How urgent feedback is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For the agent's information.
    #[default]
    Info,
    /// The agent should consider the feedback.
    Caution,
    /// The agent should act on the feedback.
    Warning,
}

/// Whether rendered feedback begins with `[Feedback - NAME]` or `[Trajectory Assessment - NAME]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Heading {
    #[default]
    Feedback,
    Assessment,
}

/// What a provider tells the agent after a tool call.
///
/// Texts of any length are accepted and cut to their limits: 500 characters for the summary, 200
/// for a suggestion or the description of an observation.
///
/// ```
/// use midcourse_core::{Feedback, Severity};
///
/// let feedback = Feedback::new("ToolUsageMonitor", "You have made 21 tool calls.")
///     .with_suggestion("Review progress.")
///     .with_severity(Severity::Caution);
/// assert_eq!(
///     feedback.render(),
///     "[Feedback - ToolUsageMonitor]\n\nYou have made 21 tool calls.\n\n→ Review progress."
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    #[serde(alias = "observer_name")]
    provider_name: ProviderName,
    summary: CutText<500>,
    #[serde(default, deserialize_with = "first_lines")]
    observations: Vec<Observation>,
    #[serde(default, deserialize_with = "first_lines")]
    suggestions: Vec<CutText<200>>,
    #[serde(default)]
    severity: Severity,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default)]
    call_index: Option<u64>,
    #[serde(default)]
    prompt_name: CompactString,
    #[serde(default)]
    heading: Heading,
    #[serde(default)]
    why: Option<Why>,
}

impl Feedback {
    /// Feedback with this summary, which is cut to 500 characters. Feedback with an empty summary
    /// is never delivered.
    pub fn new(provider_name: &str, summary: impl Into<String>) -> Self {
        Self {
            provider_name: ProviderName::of(provider_name),
            summary: summary.into().into(),
            observations: Vec::new(),
            suggestions: Vec::new(),
            severity: Severity::Info,
            timestamp: None,
            call_index: None,
            prompt_name: CompactString::default(),
            heading: Heading::Feedback,
            why: None,
        }
    }

    /// Adds an observation. Does nothing if there are already [`MAX_FEEDBACK_LINES`] observations.
    #[must_use]
    pub fn with_observation(mut self, observation: Observation) -> Self {
        if self.observations.len() < MAX_FEEDBACK_LINES {
            self.observations.push(observation);
        }
        self
    }

    /// Adds a suggestion, cut to 200 characters. Does nothing if there are already
    /// [`MAX_FEEDBACK_LINES`] suggestions.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        if self.suggestions.len() < MAX_FEEDBACK_LINES {
            self.suggestions.push(suggestion.into().into());
        }
        self
    }

    /// Sets how urgent the feedback is; [`Severity::Info`] by default.
    #[must_use]
    pub const fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Sets when the feedback was made. `collect_feedback` overwrites this time. Feedback without a
    /// time gets the time of the session's latest record when it is dispatched.
    #[must_use]
    pub const fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets what the feedback is about. After a message about a problem, the next message about the
    /// same problem has to wait for some tool calls. Feedback for which this method was not called
    /// never waits.
    #[must_use]
    pub fn about(mut self, why: Why) -> Self {
        self.why = Some(why);
        self
    }

    /// Name of the provider that made the feedback.
    pub fn provider_name(&self) -> &str {
        self.provider_name.as_str()
    }

    /// The main message, at most 500 characters.
    pub fn summary(&self) -> &str {
        self.summary.as_str()
    }

    /// Findings about the run, at most [`MAX_FEEDBACK_LINES`].
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// What the agent could do next, at most [`MAX_FEEDBACK_LINES`] suggestions.
    pub fn suggestions(&self) -> impl ExactSizeIterator<Item = &str> {
        self.suggestions.iter().map(CutText::as_str)
    }

    /// How urgent the feedback is.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// When the feedback was made; the UNIX epoch if the time was never set.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp.unwrap_or_default()
    }

    /// How many tool calls the agent had made with the prompt [`Self::prompt_name`] when the
    /// feedback was made. The value is 0 until `collect_feedback` or a session sets it.
    pub fn call_index(&self) -> u64 {
        self.call_index.unwrap_or_default()
    }

    /// Name of the prompt that the feedback was made for. A run can switch between prompts. The
    /// name is empty until `collect_feedback` or a session sets it.
    pub fn prompt_name(&self) -> &str {
        &self.prompt_name
    }

    /// What the feedback is about, and the records that show it; `None` if the provider did not
    /// say.
    pub const fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }

    /// Sets provider, time, call index and prompt name, even if the provider has set them.
    #[must_use]
    pub(crate) fn stamp(
        mut self,
        provider: &str,
        timestamp: Timestamp,
        call_index: u64,
        prompt_name: &str,
    ) -> Self {
        self.provider_name = ProviderName::of(provider);
        self.timestamp = Some(timestamp);
        self.call_index = Some(call_index);
        self.prompt_name = prompt_name.into();
        self
    }

    /// Sets time, call index and prompt name where they are not set yet.
    pub(crate) fn complete(&mut self, timestamp: Timestamp, call_index: u64, prompt_name: &str) {
        self.timestamp.get_or_insert(timestamp);
        self.call_index.get_or_insert(call_index);
        if self.prompt_name.is_empty() {
            self.prompt_name = prompt_name.into();
        }
    }

    /// Changes the heading from `[Feedback - NAME]` to `[Trajectory Assessment - NAME]`.
    #[must_use]
    pub(super) const fn into_assessment(mut self) -> Self {
        self.heading = Heading::Assessment;
        self
    }

    /// The text for the agent: heading, summary, observations, suggestions.
    pub fn render(&self) -> String {
        let heading = match self.heading {
            Heading::Feedback => "Feedback",
            Heading::Assessment => "Trajectory Assessment",
        };
        let mut text = format!("[{heading} - {}]\n\n{}", self.provider_name, self.summary);
        if !self.observations.is_empty() {
            text.push('\n');
            for observation in &self.observations {
                text.push_str(&format!("\n• {observation}"));
            }
        }
        if !self.suggestions.is_empty() {
            text.push('\n');
            for suggestion in &self.suggestions {
                text.push_str(&format!("\n→ {suggestion}"));
            }
        }
        text
    }
}

/// Reads a stored list and keeps its first [`MAX_FEEDBACK_LINES`] items.
fn first_lines<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    lines: D,
) -> Result<Vec<T>, D::Error> {
    let mut lines = Vec::deserialize(lines)?;
    lines.truncate(MAX_FEEDBACK_LINES);
    Ok(lines)
}
