//! Guidance: short ephemeral text at a decision point, when a classifier says it applies.
//!
//! At each of five points every provider is asked whether it applies; of those that do and may
//! speak, the best of each category are said, in order of priority. Guidance is for one decision:
//! it is in one request and in no later one, and changes no byte before it.

mod collect;
mod consultation;
mod course_correction;
mod deadline_notice;
mod diagnostic;
mod doom_loop;
mod parallel;

pub use collect::collect_guidance;
pub use consultation::ConsultationPromptProvider;
pub use course_correction::CourseCorrection;
pub use deadline_notice::DeadlineNotice;
pub use diagnostic::DiagnosticSignalProvider;
pub use doom_loop::DoomLoopDetector;
pub use parallel::ParallelToolReminder;
