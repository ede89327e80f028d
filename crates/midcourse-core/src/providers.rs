//! Built-in providers that are off by default, under the names that the specifications give them.
//!
//! midcourse ships with feedback about the deadline and the budget and with guidance about detected
//! patterns ([`CourseCorrection`](crate::CourseCorrection)). The providers here report some of
//! these patterns with fixed texts. They are added to a [`PromptTemplate`](crate::PromptTemplate)
//! like any other provider.

pub use crate::feedback::{DriftDetector, ErrorCascadeDetector, StallDetector, StaticFeedback};
pub use crate::guidance::{
    ConsultationPromptProvider, DiagnosticSignalProvider, DoomLoopDetector, ParallelToolReminder,
};
