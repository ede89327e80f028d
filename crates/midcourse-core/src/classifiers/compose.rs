//! Classifiers that combine or change other classifiers. A classifier *applies* if it finds that
//! the agent should get guidance now.

use super::Classifier;
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

type Classified = Result<ClassificationResult, ProviderError>;

/// Applies if all of its parts apply. The result is that of the part with the lowest confidence.
pub struct AllOf(Vec<Box<dyn Classifier>>);

/// Combines classifiers into one that applies if all of them apply. If `parts` is empty, it never
/// applies.
pub fn all_of(parts: Vec<Box<dyn Classifier>>) -> AllOf {
    AllOf(parts)
}

impl Classifier for AllOf {
    fn name(&self) -> &str {
        "all_of"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let mut lowest: Option<ClassificationResult> = None;
        for part in &self.0 {
            let result = part.classify(context)?;
            if !result.relevant() {
                return Ok(result);
            }
            if lowest.as_ref().is_none_or(|known| result.confidence() < known.confidence()) {
                lowest = Some(result);
            }
        }
        Ok(lowest.unwrap_or_else(ClassificationResult::no))
    }
}

/// Applies if at least one of its parts applies. The result is that of the part that applies with
/// the highest confidence.
pub struct AnyOf(Vec<Box<dyn Classifier>>);

/// Combines classifiers into one that applies if at least one of them applies.
pub fn any_of(parts: Vec<Box<dyn Classifier>>) -> AnyOf {
    AnyOf(parts)
}

impl Classifier for AnyOf {
    fn name(&self) -> &str {
        "any_of"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let mut highest = ClassificationResult::no();
        for part in &self.0 {
            let result = part.classify(context)?;
            let is_higher = !highest.relevant() || result.confidence() > highest.confidence();
            if result.relevant() && is_higher {
                highest = result;
            }
        }
        Ok(highest)
    }
}

/// Applies if the classifier inside does not apply, and the other way round. The confidence is that
/// of the classifier inside.
pub struct Not<C>(C);

/// Turns a classifier into its opposite, which applies if `part` does not.
pub fn not<C: Classifier>(part: C) -> Not<C> {
    Not(part)
}

impl<C: Classifier> Classifier for Not<C> {
    fn name(&self) -> &str {
        "not"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let result = self.0.classify(context)?;
        Ok(ClassificationResult::with_confidence(!result.relevant(), result.confidence()))
    }
}

/// Applies if the classifier inside applies with at least a minimum confidence.
pub struct Threshold<C> {
    part: C,
    min_confidence: Confidence,
}

/// Turns a classifier into one that applies only if `part` applies with at least `min_confidence`.
pub fn threshold<C: Classifier>(part: C, min_confidence: Confidence) -> Threshold<C> {
    Threshold { part, min_confidence }
}

impl<C: Classifier> Classifier for Threshold<C> {
    fn name(&self) -> &str {
        "threshold"
    }

    fn classify(&self, context: &GuidanceContext<'_>) -> Classified {
        let result = self.part.classify(context)?;
        let is_confident = result.confidence() >= self.min_confidence;
        Ok(if is_confident { result } else { ClassificationResult::no() })
    }
}
