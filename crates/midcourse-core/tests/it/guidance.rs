//! Who may speak at a decision point, in which order, and when classifiers apply.

use std::num::NonZeroU32;

use midcourse_core::{
    ClassificationResult, Classifier, Confidence, DecisionPoint, DecisionPoints, DeliveryPolicy,
    DoomLoopClassifier, Engine, ErrorStreakClassifier, GuidanceContext, GuidanceInjection,
    GuidanceProvider, GuidanceProviderConfig, GuidanceSelection, HighToolCountClassifier,
    LargeOutputClassifier, ProgressStallClassifier, Prompt, PromptTemplate, ProviderError,
    SensitiveContentClassifier, SequentialWhenParallelClassifier, SingleToolRepeatedClassifier,
    Timestamp, TrajectoryAnalysisConfig, TrajectoryPayload, TrajectoryRecord, all_of, any_of, not,
    parse_notation, threshold,
};

const POINT: DecisionPoint = DecisionPoint::PreToolSelection;

fn n(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// Says its own name.
struct Voice {
    name: &'static str,
    category: &'static str,
    priority: i32,
    confidence: f64,
}

impl GuidanceProvider for Voice {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> &str {
        self.category
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        Ok(ClassificationResult::maybe(Confidence::try_from(self.confidence)?))
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        Ok(GuidanceInjection::new("k", self.name)?.with_priority(self.priority))
    }
}

fn voice(
    name: &'static str,
    category: &'static str,
    priority: i32,
    confidence: f64,
) -> GuidanceProviderConfig {
    GuidanceProviderConfig::new(Voice { name, category, priority, confidence })
}

fn engine(voices: Vec<GuidanceProviderConfig>, delivery: DeliveryPolicy) -> Engine {
    let mut template = PromptTemplate::new("a", "b").unwrap().with_delivery(delivery);
    for voice in voices {
        template = template.with_guidance_provider(voice).unwrap();
    }
    Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
}

/// The providers that deliver guidance at a point, in order.
fn speakers(mut engine: Engine, point: DecisionPoint) -> Vec<String> {
    let record = TrajectoryRecord::new(0, Timestamp::default(), TrajectoryPayload::TurnStarted);
    let step = engine.step(&record, Some(point));
    step.deliveries.iter().map(|delivery| delivery.provider().to_owned()).collect()
}

#[test]
fn by_priority_then_as_declared_and_the_best_of_each_category() {
    let engine = engine(
        vec![
            voice("late", "one", 200, 1.0),
            voice("first", "two", 50, 0.6),
            voice("unsure", "three", 1, 0.4),
            voice("rival", "two", 50, 0.9),
            voice("middle", "four", 100, 1.0),
            voice("also_middle", "five", 100, 1.0),
        ],
        DeliveryPolicy::default(),
    );
    // `rival` is surer than `first` in one category; `unsure` is below one half; three at most.
    assert_eq!(speakers(engine, POINT), ["rival", "middle", "also_middle"]);
}

#[test]
fn a_decision_has_a_cap() {
    let delivery = DeliveryPolicy {
        guidance: GuidanceSelection { max_per_decision: 1 },
        ..DeliveryPolicy::default()
    };
    let voices = vec![voice("a", "a", 2, 1.0), voice("b", "b", 1, 1.0)];
    assert_eq!(speakers(engine(voices, delivery), POINT), ["b"]);
}

#[test]
fn a_run_has_a_budget_of_words() {
    let delivery = DeliveryPolicy { max_deliveries: Some(2), ..DeliveryPolicy::default() };
    let mut engine = engine(vec![voice("a", "a", 1, 1.0)], delivery);
    let records = parse_notation("5x bash ls -> a").unwrap();
    let steps = records.iter().map(|record| engine.step(record, Some(POINT)));
    assert_eq!(steps.map(|step| step.deliveries.len()).sum::<usize>(), 2);
    let totals = engine.session().delivery_totals();
    assert_eq!((totals.deliveries, totals.chars), (2, 2));
}

#[test]
fn a_provider_speaks_only_at_its_points() {
    for point in DecisionPoint::ALL {
        let mut config = voice("a", "a", 1, 1.0);
        config.points = DecisionPoints::of([DecisionPoint::PreResponse]);
        let engine = engine(vec![config], DeliveryPolicy::default());
        let expected = usize::from(point == DecisionPoint::PreResponse);
        assert_eq!(speakers(engine, point).len(), expected, "{point:?}");
    }
}

/// After which turns a provider speaks, asked three times a turn.
fn fired(change: impl Fn(&mut GuidanceProviderConfig)) -> Vec<u64> {
    let mut config = voice("a", "a", 1, 1.0);
    change(&mut config);
    let mut engine = engine(vec![config], DeliveryPolicy::default());
    let mut turns = Vec::new();
    for record in parse_notation("6x bash ls -> a").unwrap() {
        for _ in engine.step(&record, Some(POINT)).deliveries {
            turns.push(engine.trajectory().turn_count());
        }
    }
    turns
}

#[test]
fn how_often_a_provider_may_speak() {
    // A call is three records, so there are three questions a turn.
    assert_eq!(fired(|config| config.limits.max_per_turn = n(2))[..5], [1, 1, 2, 2, 3]);
    assert_eq!(fired(|config| config.limits.max_per_turn = n(1)), [1, 2, 3, 4, 5, 6]);
    assert_eq!(fired(|config| config.limits.cooldown_turns = 2), [1, 4]);
    assert_eq!(fired(|config| config.limits.max_fires_per_session = Some(n(4))), [1, 1, 1, 2]);
}

/// Whether a classifier applies after a trajectory, and how sure it is.
fn classified(classifier: &dyn Classifier, notation: &str) -> Option<f64> {
    let mut engine = engine(Vec::new(), DeliveryPolicy::default());
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
    assert!(classified(classifier, yes).is_some(), "{} is silent at {yes}", classifier.name());
    assert!(classified(classifier, no).is_none(), "{} speaks at {no}", classifier.name());
}

#[test]
fn when_the_classifiers_apply() {
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
fn classifiers_made_of_classifiers() {
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
fn a_classification_is_bounded() {
    let mut result = ClassificationResult::yes().with_reason("ü".repeat(1_000));
    for index in 0..20 {
        result = result.with_metadata(&format!("key {index}"), "x".repeat(1_000));
    }
    assert!(result.reason().unwrap().len() <= 200);
    assert_eq!(result.metadata().len(), midcourse_core::MAX_METADATA_ENTRIES);
    assert!(result.metadata().values().all(|value| value.len() <= 200));
}
