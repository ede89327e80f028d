//! Asking the providers at a decision point.

use crate::fault::{Fault, guard};
use crate::message::GuidanceDelivered;
use crate::prompt::{Asked, GuidanceContext, GuidanceProviderConfig, GuidanceSelection};
use crate::text::ProviderName;

/// Asks every provider and returns what is to be said here, most important first.
///
/// Asking changes nothing: what was delivered is dispatched to the session by whoever delivered
/// it.
pub fn collect_guidance(
    providers: &[GuidanceProviderConfig],
    context: &GuidanceContext<'_>,
    choice: GuidanceSelection,
) -> Asked<GuidanceDelivered> {
    let mut asked = Asked::default();
    for config in providers {
        if !config.points.contains(context.decision_point()) || !config.may_fire(context) {
            continue;
        }
        match ask(config, context) {
            Ok(Some(piece)) => keep_best(&mut asked.said, piece),
            Ok(None) => {}
            Err(fault) => asked.faults.push(fault),
        }
    }
    // The sort is stable: pieces of one priority stay in the order of declaration.
    asked.said.sort_by_key(|piece| piece.injection.priority());
    asked.said.truncate(choice.max_per_decision);
    asked
}

fn ask(
    config: &GuidanceProviderConfig,
    context: &GuidanceContext<'_>,
) -> Result<Option<GuidanceDelivered>, Fault> {
    let provider = &*config.provider;
    let piece = guard(|| {
        let classification = provider.classify(context)?;
        if !classification.relevant() || classification.confidence() < config.limits.min_confidence
        {
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
    Ok(piece.filter(|piece| {
        piece.injection.why().is_none_or(|why| {
            context.may_deliver(&why.cause)
                && context.session().ledger().is_new_text(why, piece.injection.content())
        })
    }))
}

/// Keeps one piece a category, and one a cause: the most important, then the surest, then the
/// first.
fn keep_best(kept: &mut Vec<GuidanceDelivered>, piece: GuidanceDelivered) {
    let rivals = |other: &GuidanceDelivered| {
        let cause = |piece: &GuidanceDelivered| piece.injection.why().map(|why| why.cause.clone());
        other.injection.category() == piece.injection.category()
            || (cause(other).is_some() && cause(other) == cause(&piece))
    };
    let rank = |piece: &GuidanceDelivered| {
        (piece.injection.priority(), std::cmp::Reverse(piece.classification.confidence()))
    };
    if kept.iter().filter(|other| rivals(other)).all(|other| rank(&piece) < rank(other)) {
        kept.retain(|other| !rivals(other));
        kept.push(piece);
    }
}
