//! Feedback: messages that the agent gets together with the result of a tool call.
//!
//! This module has the built-in feedback providers and [`collect_feedback`], which evaluates the
//! providers of a prompt in order. Each provider has a trigger, such as "every five calls", that
//! says when it is evaluated. The trait [`FeedbackProvider`](crate::FeedbackProvider) is in
//! `prompt`. The module `observers` is a second API for feedback providers, in which they are
//! called observers.

mod budget;
mod collect;
mod deadline;
mod drift;
mod error_cascade;
mod fixed;
mod stall;

pub use budget::{Budget, BudgetFeedback, InvalidBudget};
pub use collect::collect_feedback;
pub(crate) use collect::collect_from;
pub use deadline::DeadlineFeedback;
pub(crate) use deadline::{deadline_cause, duration_text};
pub use drift::DriftDetector;
pub use error_cascade::ErrorCascadeDetector;
pub use fixed::StaticFeedback;
pub use stall::StallDetector;
