//! Asking the providers after a tool call.

use crate::fault::{Fault, guard};
use crate::message::Feedback;
use crate::prompt::{Asked, FeedbackContext, FeedbackPolicy, FeedbackProviderConfig};

/// Asks the providers that are due, in order, and returns what they have to say.
///
/// Asking changes nothing: what was delivered is dispatched to the session by whoever delivered
/// it, and only then does the provider's cadence begin anew.
pub fn collect_feedback(
    providers: &[FeedbackProviderConfig],
    context: &FeedbackContext<'_>,
    policy: FeedbackPolicy,
) -> Asked<Feedback> {
    let mut asked = Asked::default();
    for config in providers {
        if !config.trigger.is_due(context, config.id) {
            continue;
        }
        match ask(config, context) {
            // Two voices about one cause are one too many.
            Ok(Some(feedback)) if asked.said.iter().any(|said| same_cause(said, &feedback)) => {
                continue;
            }
            Ok(Some(feedback)) => asked.said.push(feedback),
            Ok(None) => continue,
            Err(fault) => {
                asked.faults.push(fault);
                continue;
            }
        }
        if policy == FeedbackPolicy::FirstMatch {
            break;
        }
    }
    asked
}

fn same_cause(a: &Feedback, b: &Feedback) -> bool {
    a.why().zip(b.why()).is_some_and(|(a, b)| a.cause == b.cause)
}

fn ask(
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
        feedback.stamp(provider.name(), now, calls, context.session().prompt_name())
    };
    Ok(feedback.map(stamp).filter(|feedback| {
        !feedback.summary().is_empty()
            && feedback.why().is_none_or(|why| {
                context.may_deliver(&why.cause)
                    && context.session().ledger().is_new_text(why, &feedback.render())
            })
    }))
}
