//! The code examples of feedback-providers, one of the four documents that specify midcourse
//! ("seeds"), in Rust: the built-in provider, a custom provider, what the session keeps, and one
//! session with two prompts.

use std::error::Error;

use midcourse::{
    Deadline, DeadlineFeedback, Feedback, FeedbackContext, FeedbackProvider,
    FeedbackProviderConfig, FeedbackTrigger, Prompt, PromptTemplate, ProviderError, Session,
    Severity, Timestamp, ToolInvoked, TrajectoryAnalysisConfig, collect_feedback,
};

/// A custom provider. Each time its trigger is due, it says `OK` or, after more than 20 tool calls,
/// the number of calls.
struct ToolUsageMonitor {
    max_calls_without_progress: u64,
}

impl Default for ToolUsageMonitor {
    fn default() -> Self {
        Self { max_calls_without_progress: 20 }
    }
}

impl FeedbackProvider for ToolUsageMonitor {
    fn name(&self) -> &str {
        "ToolUsageMonitor"
    }

    fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(true)
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let count = context.tool_call_count();
        if count > self.max_calls_without_progress {
            return Ok(Feedback::new(self.name(), format!("You have made {count} tool calls."))
                .with_suggestion("Review progress.")
                .with_severity(Severity::Caution));
        }
        Ok(Feedback::new(self.name(), "OK"))
    }
}

/// A prompt with the built-in provider every 30 seconds, and the custom one every 7 calls.
fn prompt(key: &str) -> Result<Prompt, Box<dyn Error>> {
    let template = PromptTemplate::new("my-agent", key)?
        .with_feedback_provider(FeedbackProviderConfig::new(
            DeadlineFeedback::new(120.0)?,
            FeedbackTrigger::every_n_seconds(30.0)?,
        ))?
        .with_feedback_provider(FeedbackProviderConfig::new(
            ToolUsageMonitor::default(),
            FeedbackTrigger::every_n_calls(7)?,
        ))?;
    Ok(Prompt::new(template))
}

/// Adds a tool call to the session, asks the providers that are due, and stores their feedback.
fn after_tool_call(session: &mut Session, prompt: &Prompt, number: u64) -> Option<String> {
    let (id, args) = (format!("call-{number}").into(), serde_json::json!({"step": number}));
    session.dispatch(ToolInvoked::new(&id, "bash", &args, "output", false, at(number)));
    let collected = collect_feedback(&FeedbackContext::new(session, prompt, at(number)));
    let text = collected.text();
    collected.dispatch_to(session);
    text
}

/// The time of a call: one call per second.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_767_225_600_000 + seconds * 1_000)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (main, review) = (prompt("main")?, prompt("review")?);
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), main.name());
    session.dispatch(Deadline::new(at(150), at(0)));

    let mut delivered = Vec::new();
    for number in 1..=35 {
        delivered.extend(after_tool_call(&mut session, &main, number).map(|text| (number, text)));
    }
    let monitor = |text: &str| format!("[Feedback - ToolUsageMonitor]\n\n{text}");
    let deadline = |text: &str| format!("[Feedback - Deadline]\n\n{text}");
    assert_eq!(
        delivered,
        [
            // The trigger of 30 seconds is due at the first call: there was no feedback yet.
            (1, deadline("You have 2 minutes remaining.")),
            (7, monitor("OK")),
            (14, monitor("OK")),
            (21, monitor("You have made 21 tool calls.\n\n→ Review progress.")),
            (28, monitor("You have made 28 tool calls.\n\n→ Review progress.")),
            // The trigger is due again 30 seconds after the first feedback. Less than 120 seconds
            // are left, so the feedback is a warning.
            (
                31,
                deadline(
                    "You have 119 seconds remaining.\n\n\
                     → Prioritize completing critical remaining work.\n\
                     → Consider summarizing progress and remaining tasks."
                )
            ),
            (35, monitor("You have made 35 tool calls.\n\n→ Review progress.")),
        ]
    );

    // The session has the complete history of feedback and calls.
    assert_eq!(session.slice::<Feedback>().total(), 7);
    assert_eq!(session.slice::<ToolInvoked>().total(), 35);
    let context = FeedbackContext::new(&session, &main, at(35));
    let last = context.last_feedback().ok_or("no feedback")?;
    assert_eq!((last.provider_name(), last.severity()), ("ToolUsageMonitor", Severity::Caution));
    assert_eq!((last.call_index(), last.timestamp()), (35, at(35)));
    assert_eq!(context.tool_calls_since_last_feedback(), 0);
    assert_eq!(context.recent_tool_calls(3).len(), 3);

    // With another prompt, the same session counts only the calls and feedback of that prompt.
    session.set_prompt(review.name());
    assert!(FeedbackContext::new(&session, &review, at(36)).last_feedback().is_none());
    after_tool_call(&mut session, &review, 36);
    assert_eq!(FeedbackContext::new(&session, &review, at(36)).tool_call_count(), 1);
    assert_eq!(FeedbackContext::new(&session, &main, at(36)).tool_call_count(), 35);

    // A program can also store feedback that does not come from a provider.
    session.dispatch(Feedback::new("Reviewer", "The parser has no tests."));
    let latest = session.slice::<Feedback>().latest().ok_or("no feedback")?;
    assert_eq!((latest.provider_name(), latest.call_index()), ("Reviewer", 1));
    assert_eq!((latest.prompt_name(), latest.timestamp()), ("my-agent:review", at(36)));
    Ok(())
}

#[test]
fn the_providers_deliver_the_feedback_of_the_seed() {
    main().unwrap();
}
