//! Feedback: what is said after a tool call, when a trigger is due.
//!
//! One mechanism with two vocabularies. [`FeedbackProvider`] and its friends are the mechanism; the
//! observer names ([`TrajectoryObserver`], [`Assessment`], …) are a thin layer over it. ProviderSettings
//! are asked in the order they were declared, each at its own cadence, and the first that has
//! something to say speaks.

mod budget;
mod collect;
mod deadline;
mod drift;
mod error_cascade;
mod fixed;
mod observer;
mod stall;

pub use budget::{Budget, BudgetFeedback, InvalidBudget};
pub use collect::collect_feedback;
pub use deadline::DeadlineFeedback;
pub(crate) use deadline::{deadline_cause, duration_text};
pub use drift::DriftDetector;
pub use error_cascade::ErrorCascadeDetector;
pub use fixed::StaticFeedback;
pub use observer::{
    DeadlineObserver, ObserverConfig, ObserverContext, ObserverTrigger, RecordAssessment,
    TrajectoryObserver, run_observers,
};
pub use stall::StallDetector;

#[cfg(doc)]
use crate::prompt::FeedbackProvider;
