//! Evaluates the guidance providers of a prompt at a decision point.

use crate::fault::{Fault, guard};
use crate::ledger::unnamed_cause;
use crate::message::GuidanceDelivered;
use crate::prompt::{Collected, GuidanceContext, GuidanceProviderConfig};
use crate::text::ProviderName;

/// Evaluates all providers of the context's prompt at the context's decision point. Returns their
/// guidance sorted by priority: at most one message per category and one per cause (problem), and
/// no more than the prompt's delivery policy allows.
///
/// This function changes nothing. The caller shows the guidance to the agent and then dispatches it
/// to the session, so that the limits of the providers count it.
pub fn collect_guidance(context: &GuidanceContext<'_>) -> Collected<GuidanceDelivered> {
    let mut collected = Collected::default();
    for config in context.prompt().guidance_providers() {
        if !config.points.contains(context.decision_point()) || !config.may_fire(context) {
            continue;
        }
        match evaluate(config, context) {
            Ok(Some(guidance)) => keep_best(&mut collected.messages, guidance),
            Ok(None) => {}
            Err(fault) => collected.faults.push(fault),
        }
    }
    // The sort is stable: guidance of the same priority stays in the order of the providers.
    collected.messages.sort_by_key(|guidance| guidance.injection.priority());
    collected.messages.truncate(context.prompt().delivery().guidance.max_per_decision);
    collected
}

/// The guidance of a provider. `None` if the provider finds that it does not apply or is not
/// confident enough, or if the guidance repeats an earlier text or follows the latest message about
/// the same problem too soon.
fn evaluate(
    config: &GuidanceProviderConfig,
    context: &GuidanceContext<'_>,
) -> Result<Option<GuidanceDelivered>, Fault> {
    let provider = &*config.provider;
    let guidance = guard(|| {
        let classification = provider.classify(context)?;
        let is_confident = classification.confidence() >= config.limits.min_confidence;
        if !classification.relevant() || !is_confident {
            return Ok(None);
        }
        let mut injection = provider.provide(context)?;
        if injection.category().is_empty() {
            injection = injection.with_category(provider.category());
        }
        Ok(Some(GuidanceDelivered {
            provider_name: ProviderName::of(provider.name()).as_str().into(),
            injection,
            decision_point: context.decision_point(),
            classification,
            timestamp: context.now(),
        }))
    })
    .map_err(|failure| failure.of(provider.name()))?;
    Ok(guidance.filter(|guidance| {
        let (ledger, text) = (context.session().ledger(), guidance.injection.content());
        match guidance.injection.why() {
            Some(why) => context.may_deliver(&why.cause) && ledger.is_new_text(why, text),
            // If the provider names no cause, the same text may be delivered again, each time after
            // a longer wait.
            None => {
                let cause = unnamed_cause(&guidance.provider_name, text);
                let policy = context.prompt().delivery().ledger;
                ledger.has_waited(&cause, context.tool_call_count(), policy)
            }
        }
    }))
}

/// Adds guidance to `kept`, which has at most one message per category and one per cause. Of two
/// messages with the same category or cause, the one with the lower priority number stays; if these
/// are equal, the one with the higher confidence; if these are equal, too, the first.
fn keep_best(kept: &mut Vec<GuidanceDelivered>, guidance: GuidanceDelivered) {
    fn cause(guidance: &GuidanceDelivered) -> Option<&crate::cause::Cause> {
        guidance.injection.why().map(|why| &why.cause)
    }
    let competes = |other: &GuidanceDelivered| {
        other.injection.category() == guidance.injection.category()
            || (cause(other).is_some() && cause(other) == cause(&guidance))
    };
    let rank = |guidance: &GuidanceDelivered| {
        let confidence = guidance.classification.confidence();
        (guidance.injection.priority(), std::cmp::Reverse(confidence))
    };
    if kept.iter().filter(|other| competes(other)).all(|other| rank(&guidance) < rank(other)) {
        kept.retain(|other| !competes(other));
        kept.push(guidance);
    }
}
