//! Which providers deliver guidance at a decision point, how often, and in which order.

use std::sync::atomic::{AtomicU32, Ordering};

use midcourse_core::{
    ClassificationResult, DecisionPoint, DeliveryPolicy, Engine, GuidanceContext,
    GuidanceInjection, GuidanceProvider, GuidanceProviderConfig, GuidanceSelection,
    InvalidConfidence, InvalidThreshold, Prompt, PromptTemplate, ProviderError, Timestamp,
    TrajectoryAnalysisConfig, TrajectoryPayload, TrajectoryRecord, parse_notation,
};

const POINT: DecisionPoint = DecisionPoint::PreToolSelection;

/// A guidance provider that always applies, with its own name as the text.
struct Named {
    name: &'static str,
    category: &'static str,
    priority: i32,
    confidence: f64,
}

impl GuidanceProvider for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> &str {
        self.category
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        Ok(ClassificationResult::new(true, self.confidence)?)
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        Ok(GuidanceInjection::new("k", self.name)?.with_priority(self.priority))
    }
}

fn named(
    name: &'static str,
    category: &'static str,
    priority: i32,
    confidence: f64,
) -> GuidanceProviderConfig {
    GuidanceProviderConfig::new(Named { name, category, priority, confidence })
}

fn engine(providers: Vec<GuidanceProviderConfig>, delivery: DeliveryPolicy) -> Engine {
    let mut template = PromptTemplate::new("a", "b").unwrap().with_delivery(delivery);
    for provider in providers {
        template = template.with_guidance_provider(provider).unwrap();
    }
    Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
}

/// The names of the providers that deliver guidance at a decision point, in the order of delivery.
fn delivering(mut engine: Engine, point: DecisionPoint) -> Vec<String> {
    let record = TrajectoryRecord::new(0, Timestamp::default(), TrajectoryPayload::TurnStarted);
    let step = engine.step(&record, Some(point));
    step.deliveries.iter().map(|delivery| delivery.provider().to_owned()).collect()
}

#[test]
fn guidance_is_ordered_by_priority_and_only_the_best_of_a_category_is_delivered() {
    let engine = engine(
        vec![
            named("late", "one", 200, 1.0),
            named("first", "two", 50, 0.6),
            named("unsure", "three", 1, 0.4),
            named("more_confident", "two", 50, 0.9),
            named("middle", "four", 100, 1.0),
            named("also_middle", "five", 100, 1.0),
        ],
        DeliveryPolicy::default(),
    );
    // `more_confident` and `first` have the same category, so only one of them delivers; `unsure`
    // has a confidence below 0.5; and at most three messages are delivered.
    assert_eq!(delivering(engine, POINT), ["more_confident", "middle", "also_middle"]);
}

#[test]
fn the_number_of_messages_at_one_decision_point_is_limited() {
    let delivery = DeliveryPolicy {
        guidance: GuidanceSelection { max_per_decision: 1 },
        ..DeliveryPolicy::default()
    };
    let providers = vec![named("a", "a", 2, 1.0), named("b", "b", 1, 1.0)];
    assert_eq!(delivering(engine(providers, delivery), POINT), ["b"]);
}

#[test]
fn the_number_of_messages_in_one_run_is_limited() {
    let delivery = DeliveryPolicy { max_deliveries: Some(2), ..DeliveryPolicy::default() };
    let mut engine = engine(vec![named("a", "a", 1, 1.0)], delivery);
    let records = parse_notation("5x bash ls -> a").unwrap();
    let steps = records.iter().map(|record| engine.step(record, Some(POINT)));
    assert_eq!(steps.map(|step| step.deliveries.len()).sum::<usize>(), 2);
    let totals = engine.session().delivery_totals();
    assert_eq!((totals.deliveries, totals.chars), (2, 2));
}

#[test]
fn a_provider_delivers_only_at_its_decision_points() {
    for point in DecisionPoint::ALL {
        let config = named("a", "a", 1, 1.0).with_points([DecisionPoint::PreResponse]);
        let engine = engine(vec![config], DeliveryPolicy::default());
        let expected = usize::from(point == DecisionPoint::PreResponse);
        assert_eq!(delivering(engine, point).len(), expected, "{point:?}");
    }
}

/// The numbers of the turns in which a provider delivers during a run of six turns, one number for
/// each message.
fn turns_of(config: GuidanceProviderConfig) -> Vec<u64> {
    let mut engine = engine(vec![config], DeliveryPolicy::default());
    let mut turns = Vec::new();
    // Each turn is one call and has three records. The provider is asked after every record, so it
    // can deliver up to three times per turn.
    for record in parse_notation("6x bash ls -> a").unwrap() {
        for _ in engine.step(&record, Some(POINT)).deliveries {
            turns.push(engine.trajectory().turn_count());
        }
    }
    turns
}

/// A guidance provider that always applies, with a new text each time.
struct Counting {
    confidence: f64,
    count: AtomicU32,
}

impl GuidanceProvider for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn category(&self) -> &str {
        "counting"
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        Ok(ClassificationResult::new(true, self.confidence)?)
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Ok(GuidanceInjection::new("k", count.to_string())?)
    }
}

fn counting(confidence: f64) -> GuidanceProviderConfig {
    GuidanceProviderConfig::new(Counting { confidence, count: AtomicU32::new(0) })
}

#[test]
fn a_text_without_a_cause_is_repeated_with_growing_pauses() {
    let mut engine = engine(vec![named("a", "a", 1, 1.0)], DeliveryPolicy::default());
    let mut calls = Vec::new();
    for record in parse_notation("40x bash ls -> a").unwrap() {
        for _ in engine.step(&record, Some(POINT)).deliveries {
            calls.push(engine.trajectory().tool_call_count());
        }
    }
    assert_eq!(calls, [0, 3, 9, 21]);
}

#[test]
fn the_limits_of_a_provider_say_how_often_it_delivers() {
    let config = || counting(1.0);
    assert_eq!(turns_of(config())[..4], [1, 1, 1, 2]);
    assert_eq!(turns_of(config().with_max_per_turn(2).unwrap())[..5], [1, 1, 2, 2, 3]);
    assert_eq!(turns_of(config().with_max_per_turn(1).unwrap()), [1, 2, 3, 4, 5, 6]);
    assert_eq!(turns_of(config().with_cooldown_turns(2)), [1, 4]);
    assert_eq!(turns_of(config().with_max_fires_per_session(4).unwrap()), [1, 1, 1, 2]);
    let unsure = || counting(0.6);
    assert!(!turns_of(unsure()).is_empty());
    assert!(turns_of(unsure().with_min_confidence(0.7).unwrap()).is_empty());
}

#[test]
fn the_limits_have_the_defaults_of_the_seed_and_refuse_nonsense() {
    let config = || named("a", "a", 1, 1.0);
    assert_eq!(config().max_per_turn(), 3);
    assert!((config().min_confidence() - 0.5).abs() < f64::EPSILON);
    assert_eq!(config().provider().category(), "a");
    assert_eq!(config().with_max_per_turn(0).unwrap_err(), InvalidThreshold::Zero);
    assert_eq!(config().with_max_fires_per_session(0).unwrap_err(), InvalidThreshold::Zero);
    let error = config().with_min_confidence(1.5).unwrap_err();
    assert_eq!(error, InvalidThreshold::Confidence(InvalidConfidence(1.5)));
}
