//! The shipped provider: it speaks of whatever trouble the detectors see, in the detectors' words.

use crate::analysis::TrajectoryPattern;
use crate::cause::Why;
use crate::detect::message_text;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};

/// Speaks of the trouble that the detectors are surest of and that may be spoken of now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CourseCorrection;

/// What there is to say: the pattern, why, and in which words.
fn trouble<'a>(context: &GuidanceContext<'a>) -> Option<(&'a TrajectoryPattern, Why, String)> {
    let mut best: Option<(&TrajectoryPattern, Why, String)> = None;
    for pattern in context.trajectory().patterns() {
        let is_surer = best.as_ref().is_none_or(|(b, ..)| pattern.confidence() > b.confidence());
        let shows = context.trajectory().shows_now(pattern);
        if !is_surer || !shows || !context.may_deliver(pattern.cause()) {
            continue;
        }
        let why = context.why(pattern);
        if let Some(text) = message_text(pattern, why.rung)
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
        let Some((pattern, why, _)) = trouble(context) else {
            return Ok(ClassificationResult::no());
        };
        Ok(ClassificationResult::maybe(pattern.confidence())
            .because(pattern.pattern_type().as_str())
            .with("occurrences", pattern.occurrences())
            .with("rung", why.rung.0))
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (pattern, why, text) = trouble(context).ok_or("there is no trouble")?;
        let key = format!("course.{}", pattern.pattern_type());
        Ok(GuidanceInjection::new(&key, text)?.about(why))
    }
}
