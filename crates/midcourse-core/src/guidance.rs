//! Guidance: short ephemeral text at a decision point, when a classifier says it applies.
//!
//! At each of five points every provider is asked whether it applies; of those that do and may
//! speak, the best of each category are said, in order of priority. Guidance is for one decision:
//! it is in one request and in no later one, and changes no byte before it.

mod collect;
mod consultation;
mod context;
mod course_correction;
mod diagnostic;
mod doom_loop;
mod injection;
mod parallel;
mod point;
mod provider;
mod time_limit;

pub use collect::{GuidanceChoice, collect_guidance, format_guidance};
pub use consultation::ConsultationPromptProvider;
pub use context::GuidanceContext;
pub use course_correction::CourseCorrection;
pub use diagnostic::DiagnosticSignalProvider;
pub use doom_loop::DoomLoopDetector;
pub use injection::{GuidanceInjection, GuidanceKey, GuidanceText, InvalidGuidance};
pub use parallel::ParallelToolReminder;
pub use point::{DecisionPoint, DecisionPoints, InjectionPosition};
pub use provider::{GuidanceProvider, GuidanceProviderConfig};
pub use time_limit::TimeLimit;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::classify::ClassificationResult;
use crate::time::Timestamp;

/// What was said at a decision point, by whom and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuidanceDelivered {
    /// Who said it.
    pub provider_name: CompactString,
    /// What was said.
    pub injection: GuidanceInjection,
    /// Where.
    pub decision_point: DecisionPoint,
    /// Why it was thought to apply.
    pub classification: ClassificationResult,
    /// When.
    pub timestamp: Timestamp,
}
