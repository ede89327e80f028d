//! Feedback: the message that an agent gets after a tool call.

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cause::Why;
use crate::text::{InvalidText, SafeName, Text};
use crate::time::Timestamp;

/// The most observations, and the most suggestions, of one feedback.
pub const MAX_FEEDBACK_LINES: usize = 5;

/// The longest feedback there can be once it is rendered, in characters.
pub const MAX_FEEDBACK_CHARS: usize = 3_000;

/// How urgent feedback is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    #[default]
    Info,
    /// Worth a thought.
    Caution,
    /// Worth acting on.
    Warning,
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// What sort of thing.
    pub category: Text<40>,
    /// The thing.
    pub description: Text<200>,
    /// What shows it; recorded, not said.
    #[serde(default)]
    pub evidence: Option<Text<200>>,
}

impl Observation {
    /// Something that was seen.
    pub fn new(category: &str, description: impl Into<String>) -> Result<Self, InvalidText> {
        Ok(Self {
            category: category.try_into()?,
            description: description.into().try_into()?,
            evidence: None,
        })
    }
}

/// The first line of feedback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Heading {
    #[default]
    Feedback,
    Assessment,
}

/// What a provider says after a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    provider_name: SafeName,
    summary: Text<500>,
    #[serde(default, deserialize_with = "a_few")]
    observations: Vec<Observation>,
    #[serde(default, deserialize_with = "a_few")]
    suggestions: Vec<Text<200>>,
    severity: Severity,
    timestamp: Timestamp,
    call_index: u64,
    prompt_name: CompactString,
    #[serde(default)]
    heading: Heading,
    #[serde(default)]
    why: Option<Why>,
}

impl Feedback {
    /// Feedback with a summary of 1 to 500 characters.
    pub fn new(provider_name: &str, summary: impl Into<String>) -> Result<Self, InvalidFeedback> {
        Ok(Self {
            provider_name: SafeName::of(provider_name),
            summary: summary.into().try_into()?,
            observations: Vec::new(),
            suggestions: Vec::new(),
            severity: Severity::Info,
            timestamp: Timestamp::default(),
            call_index: 0,
            prompt_name: CompactString::default(),
            heading: Heading::Feedback,
            why: None,
        })
    }

    /// Adds something that was seen.
    pub fn observe(mut self, observation: Observation) -> Result<Self, InvalidFeedback> {
        if self.observations.len() == MAX_FEEDBACK_LINES {
            return Err(InvalidFeedback::TooMany("observations"));
        }
        self.observations.push(observation);
        Ok(self)
    }

    /// Adds something to do, in 1 to 200 characters.
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Result<Self, InvalidFeedback> {
        if self.suggestions.len() == MAX_FEEDBACK_LINES {
            return Err(InvalidFeedback::TooMany("suggestions"));
        }
        self.suggestions.push(suggestion.into().try_into()?);
        Ok(self)
    }

    /// Says how urgent it is.
    #[must_use]
    pub const fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Says what it is about, which puts it on that cause's ladder.
    #[must_use]
    pub fn about(mut self, why: Why) -> Self {
        self.why = Some(why);
        self
    }

    /// Who says it.
    pub fn provider_name(&self) -> &str {
        self.provider_name.as_str()
    }

    /// The main message.
    pub fn summary(&self) -> &str {
        self.summary.as_str()
    }

    /// What was seen.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// What could be done.
    pub fn suggestions(&self) -> impl ExactSizeIterator<Item = &str> {
        self.suggestions.iter().map(Text::as_str)
    }

    /// How urgent it is.
    pub const fn urgency(&self) -> Severity {
        self.severity
    }

    /// When it was made.
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// How many calls the prompt had made by then.
    pub const fn call_index(&self) -> u64 {
        self.call_index
    }

    /// The prompt it belongs to.
    pub fn prompt_name(&self) -> &str {
        &self.prompt_name
    }

    /// What it is about.
    pub const fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }

    /// The same feedback, as made by `provider` at this moment of a run.
    #[must_use]
    pub(crate) fn stamp(
        mut self,
        provider: &str,
        timestamp: Timestamp,
        call_index: u64,
        prompt_name: &str,
    ) -> Self {
        self.provider_name = SafeName::of(provider);
        self.timestamp = timestamp;
        self.call_index = call_index;
        self.prompt_name = prompt_name.into();
        self
    }

    /// The same feedback, under the heading of an assessment.
    #[must_use]
    pub(crate) const fn into_assessment(mut self) -> Self {
        self.heading = Heading::Assessment;
        self
    }

    /// The words the agent gets: heading, summary, observations, suggestions.
    pub fn render(&self) -> String {
        let heading = match self.heading {
            Heading::Feedback => "Feedback",
            Heading::Assessment => "Trajectory Assessment",
        };
        let mut text = format!("[{heading} - {}]\n\n{}", self.provider_name, self.summary);
        if !self.observations.is_empty() {
            text.push('\n');
            for seen in &self.observations {
                text.push_str(&format!("\n• {}: {}", seen.category, seen.description));
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

/// As many lines as feedback can have; a stored one may claim more.
fn a_few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(lines: D) -> Result<Vec<T>, D::Error> {
    let mut lines = Vec::deserialize(lines)?;
    lines.truncate(MAX_FEEDBACK_LINES);
    Ok(lines)
}

/// Feedback that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFeedback {
    /// A part of it does not fit.
    #[error(transparent)]
    Text(#[from] InvalidText),
    /// It has too many parts.
    #[error("feedback has room for {MAX_FEEDBACK_LINES} {0}")]
    TooMany(&'static str),
}
