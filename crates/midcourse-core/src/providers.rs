//! Built-in providers that are off by default.
//!
//! By default the agent gets feedback about the deadline and the budget, and guidance about
//! detected patterns ([`CourseCorrection`](crate::CourseCorrection)). To use a provider of this
//! module, add it to a [`PromptTemplate`](crate::PromptTemplate), as with a provider of your own.

pub use crate::feedback::{DriftDetector, ErrorCascadeDetector, StallDetector, StaticFeedback};
pub use crate::guidance::{
    ConsultationPromptProvider, DiagnosticSignalProvider, DoomLoopDetector, ParallelToolReminder,
};
