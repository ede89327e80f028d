//! The observer names: the same mechanism in the words of trajectory observers.
//!
//! Aliases and one adapter. An observer's assessments have their own heading and are otherwise
//! feedback: one runner, one cadence, one ledger.

use super::{DeadlineFeedback, collect_feedback};
use crate::fault::ProviderError;
use crate::message::{Assessment, Feedback};
use crate::prompt::{
    Asked, FeedbackContext, FeedbackPolicy, FeedbackProvider, FeedbackProviderConfig,
    FeedbackTrigger, Prompt, PromptTemplate,
};
use crate::session::{Session, SessionEvent};
use crate::time::Timestamp;

/// When an observer is due.
pub type ObserverTrigger = FeedbackTrigger;

/// What an observer sees.
pub type ObserverContext<'a> = FeedbackContext<'a>;

/// Says how much time is left.
pub type DeadlineObserver = DeadlineFeedback;

/// Tells a session that an assessment was delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordAssessment(pub Assessment);

/// Assesses a run after tool calls.
pub trait TrajectoryObserver: Send + Sync {
    /// What it is called in what it says.
    fn name(&self) -> &str;

    /// Whether it has something to say, once its trigger is due.
    fn should_run(
        &self,
        session: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<bool, ProviderError>;

    /// What it has to say.
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

/// An observer as a provider, under the observers' heading.
struct Adapter<T>(T);

impl<T: TrajectoryObserver> FeedbackProvider for Adapter<T> {
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

/// An observer and when to ask it.
#[derive(Debug)]
pub struct ObserverConfig(FeedbackProviderConfig);

impl ObserverConfig {
    /// Asks `observer` whenever `trigger` is due.
    pub fn new(observer: impl TrajectoryObserver + 'static, trigger: ObserverTrigger) -> Self {
        let mut config = FeedbackProviderConfig::new(Adapter(observer), trigger);
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

/// Asks the observers that are due, in order, and delivers what the first has to say.
///
/// The words are for delivery right away, so the session is told of the assessment here. Observers
/// that failed were skipped and are in the answer.
pub fn run_observers<C: AsRef<FeedbackProviderConfig>>(
    observers: impl IntoIterator<Item = C>,
    session: &mut Session,
    prompt: &Prompt,
    now: Timestamp,
) -> Asked<Feedback> {
    let mut asked = Asked::default();
    let context = ObserverContext::new(session, prompt, now);
    for observer in observers {
        let one = std::slice::from_ref(observer.as_ref());
        let answer = collect_feedback(one, &context, FeedbackPolicy::FirstMatch);
        asked.faults.extend(answer.faults);
        if !answer.said.is_empty() {
            asked.said = answer.said;
            break;
        }
    }
    for assessment in &asked.said {
        session.dispatch(RecordAssessment(assessment.clone().into()));
    }
    asked
}

impl From<RecordAssessment> for SessionEvent {
    fn from(RecordAssessment(assessment): RecordAssessment) -> Self {
        Self::Feedback(assessment.into())
    }
}

impl PromptTemplate {
    /// Adds an observer behind the providers declared so far.
    #[must_use]
    pub fn with_observer(self, observer: ObserverConfig) -> Self {
        self.with_feedback_provider(observer.into())
    }
}
