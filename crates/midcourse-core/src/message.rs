//! Messages as data: feedback, guidance, and what is recorded about them.
//!
//! Stored records contain these types, so the types do not depend on records, sessions, prompts or
//! providers. The types enforce the limits on length: feedback cuts texts that are too long, and
//! guidance returns an error for them.

mod assessment;
mod assignment;
mod classification;
mod decision_point;
mod feedback;
mod guidance;
mod observation;
mod outcome;

pub use assessment::Assessment;
pub use assignment::Assignment;
pub use classification::{ClassificationResult, MAX_METADATA_ENTRIES};
pub use decision_point::{DecisionPoint, DecisionPoints, InjectionPosition};
pub use feedback::{Feedback, MAX_FEEDBACK_CHARS, MAX_FEEDBACK_LINES, Severity};
pub use guidance::{
    GuidanceDelivered, GuidanceInjection, GuidanceKey, GuidanceText, InvalidGuidance,
    format_guidance,
};
pub use observation::Observation;
pub use outcome::{Outcome, OutcomeVerdict};
