//! The guidance provider that is on by default: it reports any pattern that a built-in detector
//! found, with the text that `wording` has for it.

use crate::analysis::{PatternDetail, TrajectoryPattern};
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::why::Why;
use crate::wording;

/// Reports the most exact of the patterns that may be reported now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CourseCorrection;

/// How exactly a pattern says what is wrong, compared with other patterns that are present at the
/// same time. This is not the confidence: a loop explains a stall, however sure both are.
fn exactness(pattern: &TrajectoryPattern) -> f64 {
    match pattern.detail() {
        PatternDetail::Monologue { .. } => 0.9,
        PatternDetail::DoomLoop { similarity, .. } => 0.9 * similarity.value(),
        PatternDetail::RepeatedError { .. }
        | PatternDetail::Outage { .. }
        | PatternDetail::WriteThrash { .. } => 0.85,
        PatternDetail::Stagnation { .. } => 0.8,
        PatternDetail::ErrorCascade { .. }
        | PatternDetail::NoEffect { .. }
        | PatternDetail::Churn { .. }
        | PatternDetail::IdleTalk { .. }
        | PatternDetail::Drift { .. } => 0.75,
        PatternDetail::ToolAvoidance { .. } | PatternDetail::Sweep { .. } => 0.7,
        PatternDetail::ProgressStall { .. } => 0.65,
        PatternDetail::ContextDegradation { .. } => 0.6,
        _ => pattern.confidence().value(),
    }
}

/// The pattern to report, with the reason for the message and its text; `None` if no pattern may be
/// reported now.
fn reportable_pattern<'a>(
    context: &GuidanceContext<'a>,
) -> Option<(&'a TrajectoryPattern, Why, String)> {
    let mut best: Option<(&TrajectoryPattern, Why, String)> = None;
    for pattern in context.trajectory().patterns() {
        let is_better = best.as_ref().is_none_or(|(b, ..)| exactness(pattern) > exactness(b));
        let muted = &context.trajectory().config().muted;
        let shows = context.trajectory().shows_now(pattern)
            && !muted.contains(pattern.pattern_type().as_str());
        if !is_better || !shows || !context.may_deliver(pattern.cause()) {
            continue;
        }
        let why = context.why(pattern);
        if let Some(text) = wording::text(pattern, &why)
            && context.session().ledger().is_new_text(&why, &text)
        {
            best = Some((pattern, why, text));
        }
    }
    best
}

impl GuidanceProvider for CourseCorrection {
    fn name(&self) -> &str {
        "course_correction"
    }

    fn category(&self) -> &str {
        "course"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        let Some((pattern, why, _)) = reportable_pattern(context) else {
            return Ok(ClassificationResult::no());
        };
        Ok(ClassificationResult::maybe(pattern.confidence())
            .with_reason(pattern.pattern_type().as_str())
            .with_metadata("occurrences", pattern.occurrences())
            .with_metadata("rung", why.rung.0))
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (pattern, why, text) =
            reportable_pattern(context).ok_or("there is no pattern to report")?;
        let key = format!("course.{}", pattern.pattern_type());
        Ok(GuidanceInjection::new(&key, text)?.about(why))
    }
}
