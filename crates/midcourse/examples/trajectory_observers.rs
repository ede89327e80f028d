//! The code examples of trajectory-observers, one of the four documents that specify midcourse
//! ("seeds"), in Rust: an observer, a prompt with observers, and the two adapters that show
//! assessments to the agent.

use std::error::Error;

use midcourse::{
    Assessment, Deadline, DeadlineObserver, Observation, ObserverConfig, ObserverContext,
    ObserverTrigger, Prompt, PromptTemplate, ProviderError, Session, Severity, Timestamp,
    ToolInvoked, TrajectoryAnalysisConfig, TrajectoryObserver, run_observers,
};
use serde_json::{Value, json};

/// Reports when several of the latest ten tool calls failed.
struct FailureObserver {
    min_failures: usize,
}

impl FailureObserver {
    fn failures(context: &ObserverContext<'_>) -> usize {
        context.recent_tool_calls(10).iter().filter(|call| call.is_error()).count()
    }
}

impl TrajectoryObserver for FailureObserver {
    fn name(&self) -> &str {
        "Failures"
    }

    fn should_run(
        &self,
        _: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<bool, ProviderError> {
        Ok(Self::failures(context) >= self.min_failures)
    }

    fn observe(
        &self,
        _: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<Assessment, ProviderError> {
        let (failures, calls) = (Self::failures(context), context.recent_tool_calls(10).len());
        Ok(Assessment::new(self.name(), "Your latest calls often fail.")
            .with_observation(Observation::new("Errors", format!("{failures} of {calls} calls")))
            .with_suggestion("Read the latest error in full.")
            .with_severity(Severity::Caution))
    }
}

/// A prompt whose template has two observers.
fn prompt() -> Result<Prompt, Box<dyn Error>> {
    let template = PromptTemplate::new("my-agent", "main")?
        .with_section("task", "Make the tests pass.")?
        .with_observer(ObserverConfig::new(
            DeadlineObserver::default(),
            ObserverTrigger::every_n_seconds(30.0)?,
        ))?
        .with_observer(ObserverConfig::new(
            FailureObserver { min_failures: 2 },
            ObserverTrigger::every_n_calls(3)?,
        ))?;
    Ok(Prompt::new(template))
}

/// Connects an agent's loop to the observers. The loop calls the adapter after each tool call.
struct Adapter {
    prompt: Prompt,
    session: Session,
    deadline: Deadline,
}

impl Adapter {
    fn new(deadline: Deadline) -> Result<Self, Box<dyn Error>> {
        let prompt = prompt()?;
        let session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
        Ok(Self { prompt, session, deadline })
    }

    /// Adds the tool call to the session, runs the observers, and stores the assessment that is
    /// shown to the agent.
    fn assess(&mut self, call: ToolInvoked, now: Timestamp) -> Option<String> {
        self.session.dispatch(call);
        let context =
            ObserverContext::new(&self.session, &self.prompt, now).with_deadline(self.deadline);
        let assessments = run_observers(self.prompt.observers(), &context);
        let text = assessments.text();
        assessments.dispatch_to(&mut self.session);
        text
    }

    /// For the Claude Agent SDK: the assessment becomes the additional context of a hook.
    fn post_tool_use_hook(&mut self, call: ToolInvoked, now: Timestamp) -> Value {
        match self.assess(call, now) {
            Some(text) => json!({
                "hookSpecificOutput": {
                    "hookEventName": "PostToolUse",
                    "additionalContext": text,
                }
            }),
            None => json!({}),
        }
    }

    /// For OpenAI: the assessment is appended to the message with the tool's result.
    fn execute_tool_call(&mut self, call: ToolInvoked, message: &str, now: Timestamp) -> String {
        match self.assess(call, now) {
            Some(text) if !message.is_empty() => format!("{message}\n\n{text}"),
            _ => message.to_owned(),
        }
    }
}

fn call(number: u32, failed: bool, at: Timestamp) -> ToolInvoked {
    let id = format!("call-{number}").into();
    let args = json!({"command": format!("make target-{number}")});
    ToolInvoked::new(&id, "bash", &args, "output", failed, at)
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_767_225_600_000 + seconds * 1_000)
}

fn main() -> Result<(), Box<dyn Error>> {
    // The deadline is eight and a half minutes away.
    let deadline = Deadline::new(seconds(510), seconds(0));
    let mut claude = Adapter::new(deadline)?;

    // There was no assessment yet, so the trigger of 30 seconds is due at the first call.
    let output = claude.post_tool_use_hook(call(1, false, seconds(30)), seconds(30));
    assert_eq!(
        output,
        json!({"hookSpecificOutput": {
            "hookEventName": "PostToolUse",
            "additionalContext": "[Trajectory Assessment - Deadline]\n\n\
                                  You have 8 minutes remaining.",
        }})
    );
    // Ten seconds later no trigger is due.
    assert_eq!(claude.post_tool_use_hook(call(2, true, seconds(40)), seconds(40)), json!({}));
    // At the third call `FailureObserver` is due. It reports that two of the three calls failed.
    claude.assess(call(3, true, seconds(45)), seconds(45));

    // Less than two minutes are left, so the assessment is a warning with suggestions.
    let output = claude.execute_tool_call(call(4, false, seconds(420)), "ok", seconds(420));
    assert_eq!(
        output,
        "ok\n\n\
         [Trajectory Assessment - Deadline]\n\n\
         You have 90 seconds remaining.\n\n\
         → Prioritize completing critical remaining work.\n\
         → Consider summarizing progress and remaining tasks."
    );

    // The session keeps the assessments, with the call after which they were made.
    let slice = claude.session.slice::<Assessment>();
    let history: Vec<_> =
        slice.all().map(|each| (each.observer_name(), each.call_index())).collect();
    assert_eq!(history, [("Deadline", 1), ("Failures", 3), ("Deadline", 4)]);
    let failures = slice.all().nth(1).ok_or("no assessment")?;
    assert_eq!(
        failures.render(),
        "[Trajectory Assessment - Failures]\n\n\
         Your latest calls often fail.\n\n\
         • Errors: 2 of 3 calls\n\n\
         → Read the latest error in full."
    );
    assert_eq!(slice.latest().map(|latest| latest.severity()), Some(Severity::Warning));

    // Now the deadline has passed.
    let output = claude.assess(call(5, false, seconds(600)), seconds(600));
    assert_eq!(
        output.as_deref(),
        Some(
            "[Trajectory Assessment - Deadline]\n\n\
             You have reached the time deadline.\n\n\
             → Wrap up immediately."
        )
    );
    Ok(())
}

#[test]
fn the_adapters_deliver_the_assessments_of_the_seed() {
    main().unwrap();
}
