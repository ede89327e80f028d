//! Evaluates the feedback providers of a prompt after a tool call.

use crate::fault::{Failure, Fault, guard};
use crate::message::Feedback;
use crate::prompt::{Collected, FeedbackContext, FeedbackPolicy, FeedbackProviderConfig};

/// Evaluates the providers of the context's prompt that are due, in order. Returns the feedback of
/// the first provider that has some, or of all providers if the prompt's delivery policy is
/// [`FeedbackPolicy::AllMatching`].
///
/// This function changes nothing. The caller shows the feedback to the agent and then dispatches it
/// to the session, so that the provider's trigger counts calls and time from this feedback on:
///
/// ```
/// # use midcourse_core::*;
/// # let template = PromptTemplate::new("agent", "main")?.with_feedback_provider(
/// #     FeedbackProviderConfig::new(
/// #         StaticFeedback::new("Reminder", "Run the tests.")?,
/// #         FeedbackTrigger::every_n_calls(1)?,
/// #     ),
/// # )?;
/// # let (prompt, now) = (Prompt::new(template), Timestamp::default());
/// # let mut session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
/// # let args = serde_json::json!({});
/// # session.dispatch(ToolInvoked::new(&"1".into(), "bash", &args, "", false, now));
/// let collected = collect_feedback(&FeedbackContext::new(&session, &prompt, now));
/// let text = collected.text();
/// collected.dispatch_to(&mut session);
/// # assert_eq!(text.as_deref(), Some("[Feedback - Reminder]\n\nRun the tests."));
/// # assert_eq!(session.slice::<Feedback>().total(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn collect_feedback(context: &FeedbackContext<'_>) -> Collected<Feedback> {
    let prompt = context.prompt();
    collect_from(prompt.feedback_providers(), context, prompt.delivery().feedback)
}

pub(crate) fn collect_from<C: AsRef<FeedbackProviderConfig>>(
    providers: impl IntoIterator<Item = C>,
    context: &FeedbackContext<'_>,
    policy: FeedbackPolicy,
) -> Collected<Feedback> {
    let mut collected = Collected::default();
    let mut names = Vec::new();
    for config in providers {
        let config = config.as_ref();
        if names.contains(&config.id) {
            let failure = "another provider has the same name; give each provider its own name";
            let fault = Failure::Error(failure.to_owned()).of(config.name());
            collected.faults.push(fault);
            continue;
        }
        names.push(config.id);
        let is_possible = context.has_result() || config.provider.is_about_run();
        if !is_possible || !config.trigger.is_due(context, config.id) {
            continue;
        }
        match evaluate(config, context) {
            Ok(Some(feedback)) => {
                // If two providers report the same problem (cause), the agent gets only the first
                // of the two messages.
                if collected.messages.iter().any(|other| have_same_cause(other, &feedback)) {
                    continue;
                }
                collected.messages.push(feedback);
            }
            Ok(None) => continue,
            Err(fault) => {
                collected.faults.push(fault);
                continue;
            }
        }
        if policy == FeedbackPolicy::FirstMatch {
            break;
        }
    }
    collected
}

fn have_same_cause(a: &Feedback, b: &Feedback) -> bool {
    a.why().zip(b.why()).is_some_and(|(a, b)| a.cause == b.cause)
}

/// The feedback of a provider that is due. `None` if the provider has none, or if its feedback is
/// empty, repeats an earlier text, or follows the latest message about the same problem too soon.
fn evaluate(
    config: &FeedbackProviderConfig,
    context: &FeedbackContext<'_>,
) -> Result<Option<Feedback>, Fault> {
    let provider = &*config.provider;
    let feedback = guard(|| {
        if provider.should_run(context)? { provider.provide(context).map(Some) } else { Ok(None) }
    })
    .map_err(|failure| failure.of(provider.name()))?;
    let stamp = |feedback: Feedback| {
        let (now, calls) = (context.now(), context.tool_call_count());
        feedback.stamp(provider.name(), now, calls, context.prompt().name())
    };
    Ok(feedback.map(stamp).filter(|feedback| {
        !feedback.summary().is_empty()
            && feedback.why().is_none_or(|why| {
                context.may_deliver(&why.cause)
                    && context.session().ledger().is_new_text(why, &feedback.render())
            })
    }))
}
