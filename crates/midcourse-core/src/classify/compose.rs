//! Classifiers made of classifiers.

use super::Classifier;
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

type Classified = Result<ClassificationResult, ProviderError>;

/// Applies when all of its parts do, as sure as the least sure of them.
pub struct AllOf(Vec<Box<dyn Classifier>>);

/// Applies when all of these do; of none, never.
pub fn all_of(parts: Vec<Box<dyn Classifier>>) -> AllOf {
    AllOf(parts)
}

impl Classifier for AllOf {
    fn name(&self) -> &str {
        "all_of"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let mut least: Option<ClassificationResult> = None;
        for part in &self.0 {
            let result = part.classify(context)?;
            if !result.relevant() {
                return Ok(ClassificationResult::no());
            }
            if least.as_ref().is_none_or(|known| result.confidence() < known.confidence()) {
                least = Some(result);
            }
        }
        Ok(least.unwrap_or_else(ClassificationResult::no))
    }
}

/// Applies when one of its parts does, as sure as the surest of them.
pub struct AnyOf(Vec<Box<dyn Classifier>>);

/// Applies when one of these does.
pub fn any_of(parts: Vec<Box<dyn Classifier>>) -> AnyOf {
    AnyOf(parts)
}

impl Classifier for AnyOf {
    fn name(&self) -> &str {
        "any_of"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let mut most = ClassificationResult::no();
        for part in &self.0 {
            let result = part.classify(context)?;
            if result.relevant() && (!most.relevant() || result.confidence() > most.confidence()) {
                most = result;
            }
        }
        Ok(most)
    }
}

/// Applies when its part does not.
pub struct Not<C>(C);

/// Applies when this one does not.
pub fn not<C: Classifier>(part: C) -> Not<C> {
    Not(part)
}

impl<C: Classifier> Classifier for Not<C> {
    fn name(&self) -> &str {
        "not"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let result = self.0.classify(context)?;
        Ok(if result.relevant() {
            ClassificationResult::no()
        } else {
            ClassificationResult::maybe(result.confidence().opposite())
        })
    }
}

/// Applies when its part does, and is sure enough of it.
pub struct Threshold<C> {
    part: C,
    at_least: Confidence,
}

/// Applies when this one does with at least this confidence.
pub fn threshold<C: Classifier>(part: C, at_least: Confidence) -> Threshold<C> {
    Threshold { part, at_least }
}

impl<C: Classifier> Classifier for Threshold<C> {
    fn name(&self) -> &str {
        "threshold"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let result = self.part.classify(context)?;
        let is_sure = result.relevant() && result.confidence() >= self.at_least;
        Ok(if is_sure { result } else { ClassificationResult::no() })
    }
}
