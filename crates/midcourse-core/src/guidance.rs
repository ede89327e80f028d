//! Guidance: short messages at a decision point, when a classifier finds that they apply.
//!
//! This module has the built-in guidance providers and [`collect_guidance`], which evaluates the
//! providers of a prompt and selects the best message of each category. The trait
//! [`GuidanceProvider`](crate::GuidanceProvider) is in `prompt`. Guidance is for one decision: it
//! is part of one model request, and changes no byte of the request before it.

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
