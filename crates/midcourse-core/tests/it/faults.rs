//! A provider, classifier or detector that fails is skipped and reported, and the others still run.

use midcourse_core::{
    ClassificationResult, Classifier, DecisionPoint, Delivery, Detection, Engine, Failure,
    Feedback, FeedbackContext, FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger,
    GuidanceContext, GuidanceInjection, GuidanceProvider, GuidanceProviderConfig, PatternDetector,
    PatternType, Prompt, PromptTemplate, ProviderError, StaticFeedback, TrajectoryAnalysis,
    TrajectoryAnalysisConfig, TrajectoryRecord, any_of, parse_notation,
};

#[derive(Clone, Copy)]
enum Fails {
    WithAPanic,
    WithAnError,
}

impl Fails {
    fn fail<T>(self) -> Result<T, ProviderError> {
        match self {
            Self::WithAPanic => panic!("oh no"),
            Self::WithAnError => Err("not today".into()),
        }
    }
}

impl FeedbackProvider for Fails {
    fn name(&self) -> &str {
        "failing_feedback"
    }

    fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(true)
    }

    fn provide(&self, _: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        self.fail()
    }
}

impl Classifier for Fails {
    fn name(&self) -> &str {
        "failing_classifier"
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        self.fail()
    }
}

/// A guidance provider with the given name that has guidance whenever the given classifier applies.
struct Classified(Box<dyn Classifier>, &'static str);

impl GuidanceProvider for Classified {
    fn name(&self) -> &str {
        self.1
    }

    fn category(&self) -> &str {
        self.1
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        self.0.classify(context)
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        Ok(GuidanceInjection::new("k", format!("Guidance of {}.", self.1))?)
    }
}

struct Always;

impl Classifier for Always {
    fn name(&self) -> &str {
        "always"
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        Ok(ClassificationResult::yes())
    }
}

struct PanickingDetector {
    runs: u32,
}

impl PatternDetector for PanickingDetector {
    fn name(&self) -> &str {
        "panicking_detector"
    }

    fn detect(&mut self, _: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        self.runs += 1;
        panic!("run {}", self.runs)
    }

    fn reset(&mut self) {
        self.runs = 0;
    }
}

fn engine(fails: Fails) -> Engine {
    let each_call = || FeedbackTrigger::every_n_calls(1).unwrap();
    let fixed = StaticFeedback::new("fixed", "Still here.").unwrap();
    let guided = |classifier: Box<dyn Classifier>, name| {
        GuidanceProviderConfig::new(Classified(classifier, name))
    };
    let template = PromptTemplate::new("a", "b")
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(fails, each_call()))
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(fixed, each_call()))
        .unwrap()
        .with_guidance_provider(guided(Box::new(fails), "bare"))
        .unwrap()
        .with_guidance_provider(guided(
            Box::new(any_of(vec![Box::new(Always), Box::new(fails)])),
            "composed",
        ))
        .unwrap()
        .with_guidance_provider(guided(Box::new(Always), "good"))
        .unwrap();
    Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
        .with_detector(PanickingDetector { runs: 0 })
}

#[test]
fn a_failing_provider_is_skipped_and_reported_and_the_others_still_run() {
    // The panics below are expected, so their traces are not printed.
    std::panic::set_hook(Box::new(|_| ()));
    for (fails, failure) in [
        (Fails::WithAPanic, Failure::Panic("oh no".into())),
        (Fails::WithAnError, Failure::Error("not today".into())),
    ] {
        let mut engine = engine(fails);
        let mut detector_faults = Vec::new();
        let records = parse_notation("3x bash ls -> a.txt and b.txt and c.txt").unwrap();
        for record in &records {
            detector_faults.extend(engine.step(record, None).faults);
        }
        // The engine resets the detector after each panic, so the detector counts from 1 again and
        // every fault says "run 1".
        assert_eq!(detector_faults.len(), records.len());
        assert_eq!(
            detector_faults[0].to_string(),
            "panicking_detector was skipped: it panicked: run 1"
        );
        assert!(detector_faults.iter().all(|fault| *fault == detector_faults[0]));
        assert!(engine.trajectory().has_pattern(&PatternType::DoomLoop));

        let call = &parse_notation("bash ls -> a.txt and b.txt and c.txt").unwrap()[1..];
        let mut steps =
            call.iter().map(|record| engine.step(record, Some(DecisionPoint::PreResponse)));
        let step = steps.next_back().unwrap();
        let texts: Vec<_> = step.deliveries.iter().map(Delivery::text).collect();
        assert_eq!(texts, ["[Feedback - fixed]\n\nStill here.", "Guidance of good."]);
        let provider_faults = step.faults.iter().filter(|fault| fault.name != "panicking_detector");
        let names: Vec<_> = provider_faults.clone().map(|fault| fault.name.as_str()).collect();
        assert_eq!(names, ["failing_feedback", "bare", "composed"]);
        assert!(provider_faults.clone().all(|fault| fault.failure == failure));
    }
    let _ = std::panic::take_hook();
}
