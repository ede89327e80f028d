//! Guidance: short messages for the agent's next decision, such as which tool to call. A classifier
//! decides whether a message applies.
//!
//! This module has the built-in guidance providers and [`collect_guidance`], which evaluates the
//! providers of a prompt and selects the best message of each category. The trait
//! [`GuidanceProvider`](crate::GuidanceProvider) is in `prompt`. Guidance in a prompt comes after
//! the other text of the prompt. So the bytes of that text are the same in each request, and the
//! model's prompt cache stays valid.

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
