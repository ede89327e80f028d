//! Observations: single findings about the run, which feedback lists below its summary.

use serde::{Deserialize, Serialize};

use crate::text::CutText;

/// One finding about the run, rendered as `category: description`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    category: CutText<40>,
    description: CutText<200>,
    #[serde(default)]
    evidence: Option<CutText<200>>,
}

impl Observation {
    /// An observation without evidence. A category longer than 40 characters and a description
    /// longer than 200 are cut.
    pub fn new(category: &str, description: impl Into<String>) -> Self {
        Self { category: category.into(), description: description.into().into(), evidence: None }
    }

    /// Sets a text that supports the observation, cut to 200 characters. The text is recorded, but
    /// the agent does not see it.
    #[must_use]
    pub fn with_evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence = Some(evidence.into().into());
        self
    }

    /// What the observation is about, such as `Errors`; at most 40 characters.
    pub fn category(&self) -> &str {
        self.category.as_str()
    }

    /// What was observed, at most 200 characters.
    pub fn description(&self) -> &str {
        self.description.as_str()
    }

    /// Text that supports the observation, which is recorded but not shown to the agent; `None` if
    /// there is none.
    pub fn evidence(&self) -> Option<&str> {
        self.evidence.as_ref().map(CutText::as_str)
    }
}

impl std::fmt::Display for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.category, self.description)
    }
}
