//! When a trigger makes a feedback provider due, that is, allows it to deliver.

use midcourse_core::{
    Feedback, FeedbackContext, FeedbackProviderConfig, FeedbackTrigger, Prompt, PromptTemplate,
    Session, StaticFeedback, Timestamp, ToolInvoked, TrajectoryAnalysisConfig, collect_feedback,
};
use serde_json::json;

const START: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

fn after_ms(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(START.unix_ms() + ms)
}

/// A session, and a prompt with one provider that has the trigger under test.
struct Case {
    session: Session,
    prompt: Prompt,
}

impl Case {
    fn new(trigger: FeedbackTrigger) -> Self {
        let provider = StaticFeedback::new("Fixed", "Text.").unwrap();
        let config = FeedbackProviderConfig::new(provider, trigger);
        let template = PromptTemplate::new("a", "b").unwrap();
        let prompt = Prompt::new(template.with_feedback_provider(config).unwrap());
        let session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
        Self { session, prompt }
    }

    fn with_calls(mut self, calls: u32) -> Self {
        for n in 0..calls {
            let (id, args) = (format!("c{n}").into(), json!({"n": n}));
            self.session.dispatch(ToolInvoked::new(&id, "bash", &args, "ok", false, START));
        }
        self
    }

    /// Tells the session that the provider delivered feedback at this time.
    fn with_feedback(mut self, at: Timestamp) -> Self {
        self.session.dispatch(Feedback::new("Fixed", "Text.").with_timestamp(at));
        self
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let context = FeedbackContext::new(&self.session, &self.prompt, now);
        !collect_feedback(&context).messages.is_empty()
    }
}

fn calls(n: u32) -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(n).unwrap()
}

fn seconds(n: f64) -> FeedbackTrigger {
    FeedbackTrigger::every_n_seconds(n).unwrap()
}

#[test]
fn a_provider_is_due_after_its_number_of_calls() {
    assert!(!Case::new(calls(3)).with_calls(2).is_due(START));
    assert!(Case::new(calls(3)).with_calls(3).is_due(START));
    let delivered = Case::new(calls(3)).with_calls(3).with_feedback(START);
    assert!(!delivered.is_due(after_ms(60_000)));
}

#[test]
fn a_provider_is_due_after_its_time_which_may_be_a_fraction_of_a_second() {
    let delivered = || Case::new(seconds(0.5)).with_calls(1).with_feedback(START);
    assert!(!delivered().is_due(after_ms(499)));
    assert!(delivered().is_due(after_ms(500)));
}

#[test]
fn a_time_trigger_is_due_at_once_if_there_was_no_feedback() {
    assert!(Case::new(seconds(30.0)).with_calls(1).is_due(START));
}

#[test]
fn one_condition_of_a_trigger_is_enough() {
    let either = || calls(3).or(seconds(30.0));
    let delivered = || Case::new(either()).with_calls(1).with_feedback(START);
    assert!(!delivered().is_due(after_ms(29_999)));
    assert!(delivered().is_due(after_ms(30_000)));
    assert!(Case::new(either()).with_feedback(START).with_calls(3).is_due(START));
}

#[test]
fn a_trigger_without_conditions_is_never_due() {
    assert!(!Case::new(FeedbackTrigger::never()).with_calls(9).is_due(after_ms(u64::MAX / 2)));
}
