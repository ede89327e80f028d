//! When classifiers apply, alone and combined.

use midcourse_core::{
    ClassificationResult, Classifier, Confidence, DecisionPoint, DoomLoopClassifier, Engine,
    ErrorStreakClassifier, GuidanceContext, HighToolCountClassifier, LargeOutputClassifier,
    ProgressStallClassifier, Prompt, PromptTemplate, ProviderError, SensitiveContentClassifier,
    SequentialWhenParallelClassifier, SingleToolRepeatedClassifier, TrajectoryAnalysisConfig,
    all_of, any_of, not, parse_notation, threshold,
};

const POINT: DecisionPoint = DecisionPoint::PreToolSelection;

/// The confidence with which a classifier applies at the end of a run; `None` if it does not apply.
fn classified(classifier: &dyn Classifier, notation: &str) -> Option<f64> {
    let template = PromptTemplate::new("a", "b").unwrap();
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped());
    for record in parse_notation(notation).unwrap() {
        engine.step(&record, None);
    }
    let now = engine.trajectory().latest_at();
    let context = GuidanceContext::new(engine.session(), engine.prompt(), POINT, now);
    let result = classifier.classify(&context).unwrap();
    result.relevant().then(|| result.confidence().value())
}

#[track_caller]
fn applies(classifier: &dyn Classifier, yes: &str, no: &str) {
    assert!(classified(classifier, yes).is_some(), "{} does not apply to {yes}", classifier.name());
    assert!(classified(classifier, no).is_none(), "{} applies to {no}", classifier.name());
}

#[test]
fn each_classifier_applies_at_its_threshold_and_not_below() {
    let file = "read a -> the text of file a";
    applies(
        &DoomLoopClassifier::default(),
        &format!("3x {{\n{file}\nread b -> the text of file b\n}}"),
        &format!("5x {file}"),
    );
    applies(
        &ErrorStreakClassifier::default(),
        "read a !! error: x\nread b !! error: y\nread c !! error: z",
        "read a !! error: x\nread b !! error: y\nread c -> fine and good",
    );
    applies(&ProgressStallClassifier::default(), &format!("6x {file}"), &format!("5x {file}"));
    applies(&HighToolCountClassifier::default(), "40x bash a -> b", "39x bash a -> b");
    applies(
        &SingleToolRepeatedClassifier::default(),
        "read a -> x\n4x grep b -> y",
        "read a -> x\n3x grep b -> y\nread c -> z",
    );
    applies(
        &SequentialWhenParallelClassifier::default(),
        "read a -> x\nread b -> y\nread c -> z",
        "read a -> x\nread b -> y\n& read c -> z",
    );
    let long = "x".repeat(10_000);
    applies(
        &LargeOutputClassifier::default(),
        &format!("bash a -> {long}"),
        &format!("bash a -> {long}\nbash b -> short"),
    );
    applies(&SensitiveContentClassifier, "bash echo $DB_PASSWORD ..", "bash echo $HOME ..");
    applies(&SensitiveContentClassifier, "assistant: the Secret is safe", "assistant: hello");
}

/// A classifier that always applies, with this confidence. If the confidence is 0, it never
/// applies.
struct Sure(f64);

impl Classifier for Sure {
    fn name(&self) -> &str {
        "sure"
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        let confidence = Confidence::try_from(self.0)?;
        Ok(match self.0 {
            0.0 => ClassificationResult::no(),
            _ => ClassificationResult::maybe(confidence),
        })
    }
}

#[test]
fn classifiers_can_be_combined() {
    let of = |classifier: &dyn Classifier| classified(classifier, "");
    let list = |parts: &[f64]| -> Vec<Box<dyn Classifier>> {
        parts.iter().map(|part| Box::new(Sure(*part)) as Box<dyn Classifier>).collect()
    };
    assert_eq!(of(&all_of(list(&[0.9, 0.6, 0.8]))), Some(0.6));
    assert_eq!(of(&all_of(list(&[0.9, 0.0]))), None);
    assert_eq!(of(&all_of(list(&[]))), None);
    assert_eq!(of(&any_of(list(&[0.0, 0.6, 0.8]))), Some(0.8));
    assert_eq!(of(&any_of(list(&[0.0, 0.0]))), None);
    assert_eq!(of(&not(Sure(0.9))), None);
    assert_eq!(of(&not(Sure(0.0))), Some(1.0));
    let half = Confidence::HALF;
    assert_eq!(of(&threshold(Sure(0.5), half)), Some(0.5));
    assert_eq!(of(&threshold(Sure(0.4), half)), None);
    assert_eq!(of(&not(all_of(vec![Box::new(Sure(0.9)), Box::new(not(Sure(0.9)))]))), Some(0.9));
}

#[test]
fn the_reason_and_the_metadata_of_a_classification_are_cut() {
    let mut result = ClassificationResult::yes().with_reason("ü".repeat(1_000));
    for index in 0..20 {
        result = result.with_metadata(&format!("key {index}"), "x".repeat(1_000));
    }
    assert!(result.reason().unwrap().len() <= 200);
    assert_eq!(result.metadata().len(), midcourse_core::MAX_METADATA_ENTRIES);
    assert!(result.metadata().values().all(|value| value.len() <= 200));
}
