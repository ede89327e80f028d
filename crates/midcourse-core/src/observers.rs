//! Trajectory observers: a second API for feedback providers, with the names of the document
//! trajectory-observers, one of those that specify midcourse.
//!
//! An observer is what the rest of the crate calls a feedback provider. It has the same triggers
//! and the same waits between messages about one problem. Its feedback is called an assessment and
//! has its own heading. New code uses [`FeedbackProvider`]; this module is for code that follows
//! that document.
//!
//! ```
//! use midcourse_core::observers::{
//!     DeadlineObserver, ObserverConfig, ObserverContext, ObserverTrigger, run_observers,
//! };
//! use midcourse_core::{
//!     Deadline, Prompt, PromptTemplate, Session, Timestamp, ToolInvoked, TrajectoryAnalysisConfig,
//! };
//!
//! let trigger = ObserverTrigger::every_n_seconds(30.0)?;
//! let template = PromptTemplate::new("my-agent", "main")?
//!     .with_observer(ObserverConfig::new(DeadlineObserver::default(), trigger))?;
//! let prompt = Prompt::new(template);
//! let mut session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
//! let now = Timestamp::from_unix_ms(0);
//! let args = serde_json::json!({"command": "ls"});
//! session.dispatch(ToolInvoked::new(&"1".into(), "bash", &args, "a.txt", false, now));
//!
//! let deadline = Deadline::new(Timestamp::from_unix_ms(480_000), now);
//! let context = ObserverContext::new(&session, &prompt, now).with_deadline(deadline);
//! let assessments = run_observers(prompt.observers(), &context);
//! assert_eq!(
//!     assessments.text().as_deref(),
//!     Some("[Trajectory Assessment - Deadline]\n\nYou have 8 minutes remaining.")
//! );
//! assessments.dispatch_to(&mut session);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

pub use crate::message::Assessment;

use crate::fault::ProviderError;
use crate::feedback::{DeadlineFeedback, collect_from};
use crate::message::Feedback;
use crate::prompt::{
    Collected, FeedbackContext, FeedbackPolicy, FeedbackProvider, FeedbackProviderConfig,
    FeedbackTrigger, InvalidPrompt, PromptTemplate,
};
use crate::session::{Session, SessionEvent};

/// When an observer is evaluated: after a number of calls, after a time, or when a file appears.
pub type ObserverTrigger = FeedbackTrigger;

/// What an observer sees: the run so far, the prompt, the time and the deadline.
pub type ObserverContext<'a> = FeedbackContext<'a>;

/// Tells the agent how much time is left.
pub type DeadlineObserver = DeadlineFeedback;

/// The event that an assessment was delivered to the agent. The caller passes it to
/// [`Session::dispatch`].
#[derive(Debug, Clone, PartialEq)]
pub struct RecordAssessment(pub Assessment);

impl From<RecordAssessment> for SessionEvent {
    fn from(RecordAssessment(assessment): RecordAssessment) -> Self {
        assessment.into()
    }
}

/// Assesses a run after tool calls.
///
/// The rules are those of a [`FeedbackProvider`]. The results of an observer depend on the session
/// and the context alone. If an observer returns an error or panics, it is skipped and reported.
pub trait TrajectoryObserver: Send + Sync {
    /// The observer's name, which is in the heading of its assessments. The name must be unique
    /// among the observers of a prompt.
    fn name(&self) -> &str;

    /// Whether the observer has something to report. Called only if its trigger is due.
    fn should_run(
        &self,
        session: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<bool, ProviderError>;

    /// Makes the assessment. Called only if [`Self::should_run`] returned true.
    fn observe(
        &self,
        session: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<Assessment, ProviderError>;
}

impl TrajectoryObserver for DeadlineFeedback {
    fn name(&self) -> &str {
        FeedbackProvider::name(self)
    }

    fn should_run(
        &self,
        _: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<bool, ProviderError> {
        FeedbackProvider::should_run(self, context)
    }

    fn observe(
        &self,
        _: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<Assessment, ProviderError> {
        self.provide(context).map(Assessment::from)
    }
}

macro_rules! observe_through_a_pointer {
    ($($pointer:ident),*) => {$(
        impl<T: TrajectoryObserver + ?Sized> TrajectoryObserver for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn should_run(
                &self,
                session: &Session,
                context: &ObserverContext<'_>,
            ) -> Result<bool, ProviderError> {
                (**self).should_run(session, context)
            }

            fn observe(
                &self,
                session: &Session,
                context: &ObserverContext<'_>,
            ) -> Result<Assessment, ProviderError> {
                (**self).observe(session, context)
            }
        }
    )*};
}

observe_through_a_pointer!(Box, Arc);

/// Wraps an observer so that it can be added to a prompt as a feedback provider.
struct ObserverAsProvider<T>(T);

impl<T: TrajectoryObserver> FeedbackProvider for ObserverAsProvider<T> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        self.0.should_run(context.session(), context)
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        Ok(self.0.observe(context.session(), context)?.into())
    }
}

/// An observer to add to a prompt, and when it is evaluated.
#[derive(Debug)]
pub struct ObserverConfig(FeedbackProviderConfig);

impl ObserverConfig {
    /// Evaluates `observer` whenever `trigger` is due.
    pub fn new(observer: impl TrajectoryObserver + 'static, trigger: ObserverTrigger) -> Self {
        let mut config = FeedbackProviderConfig::new(ObserverAsProvider(observer), trigger);
        config.is_observer = true;
        Self(config)
    }
}

impl From<ObserverConfig> for FeedbackProviderConfig {
    fn from(config: ObserverConfig) -> Self {
        config.0
    }
}

impl AsRef<FeedbackProviderConfig> for ObserverConfig {
    fn as_ref(&self) -> &FeedbackProviderConfig {
        &self.0
    }
}

impl PromptTemplate {
    /// Adds an observer. It is evaluated after the feedback providers and observers that were added
    /// before.
    pub fn with_observer(self, observer: ObserverConfig) -> Result<Self, InvalidPrompt> {
        self.with_feedback_provider(observer.into())
    }
}

/// Evaluates the observers that are due, in order, and returns the assessment of the first observer
/// that has something to report.
///
/// This does not change the session: the caller delivers the assessment to the agent and then calls
/// `dispatch_to` on the result, so that the session counts the assessment as delivered.
pub fn run_observers<C: AsRef<FeedbackProviderConfig>>(
    observers: impl IntoIterator<Item = C>,
    context: &ObserverContext<'_>,
) -> Collected<Assessment> {
    let Collected { messages, faults } =
        collect_from(observers, context, FeedbackPolicy::FirstMatch);
    let messages = messages.into_iter().map(Assessment::from).collect();
    Collected { messages, faults }
}
