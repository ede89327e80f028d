//! Constructors return typed errors for invalid values.

use midcourse_core::{
    Budget, Confidence, ConsultationPromptProvider, DeadlineFeedback, DiagnosticSignalProvider,
    DoomLoopDetector, ErrorCascadeDetector, FeedbackTrigger, GuidanceInjection, InvalidBudget,
    InvalidGuidance, InvalidPrompt, InvalidThreshold, InvalidTrigger, ParallelToolReminder, Prompt,
    PromptTemplate, StaticFeedback, WindowSize,
};

#[test]
fn a_confidence_is_from_zero_to_one() {
    assert_eq!(
        Confidence::try_from(1.5).unwrap_err().to_string(),
        "invalid confidence `1.5`; expected a number from 0 to 1"
    );
}

#[test]
fn guidance_has_one_to_five_hundred_characters_and_a_key() {
    let of = |chars: usize| GuidanceInjection::new("key", "ü".repeat(chars));
    assert!(of(1).is_ok() && of(500).is_ok());
    for chars in [0, 501] {
        assert!(matches!(of(chars), Err(InvalidGuidance::Text(_))), "{chars}");
    }
    assert_eq!(of(501).unwrap_err().to_string(), "text has 501 characters; use 1 to 500");
    for key in ["", "a key", "Key", "-key", ".key", "ké", &"k".repeat(65)] {
        assert!(
            matches!(GuidanceInjection::new(key, "text"), Err(InvalidGuidance::Key(_))),
            "{key:?} was accepted as a key"
        );
    }
    for key in ["k", "0", "a.b_c-d", &"k".repeat(64)] {
        assert!(GuidanceInjection::new(key, "text").is_ok(), "{key:?}");
    }
}

#[test]
fn the_same_limits_apply_to_guidance_read_from_json() {
    let good = serde_json::to_value(GuidanceInjection::new("key", "text").unwrap()).unwrap();
    let read = |change: fn(&mut serde_json::Value)| {
        let mut json = good.clone();
        change(&mut json);
        serde_json::from_value::<GuidanceInjection>(json)
    };
    assert!(read(|_| ()).is_ok());
    assert!(read(|json| json["key"] = "a key".into()).is_err());
    assert!(read(|json| json["content"] = "".into()).is_err());
}

#[test]
fn a_trigger_needs_a_positive_number_or_a_file() {
    assert_eq!(FeedbackTrigger::every_n_calls(0), Err(InvalidTrigger::ZeroCalls));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            FeedbackTrigger::every_n_seconds(seconds),
            Err(InvalidTrigger::Seconds(_))
        ));
        assert!(DeadlineFeedback::new(seconds).is_err());
    }
    assert_eq!(FeedbackTrigger::on_file_created(""), Err(InvalidTrigger::EmptyPath));
}

#[test]
fn a_budget_is_more_than_zero() {
    assert_eq!(Budget::default().with_calls(0), Err(InvalidBudget::Zero));
    assert_eq!(Budget::default().with_tokens(0), Err(InvalidBudget::Zero));
    for dollars in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Budget::default().with_cost_usd(dollars).is_err(), "{dollars}");
    }
}

#[test]
fn a_window_has_1_to_200_calls() {
    assert!(WindowSize::try_from(0).is_err());
    assert!(WindowSize::try_from(201).is_err());
    assert!(WindowSize::try_from(1).is_ok() && WindowSize::try_from(200).is_ok());
}

#[test]
fn a_fixed_text_has_one_to_five_hundred_characters() {
    assert!(StaticFeedback::new("Name", &"x".repeat(500)).is_ok());
    for text in [String::new(), "x".repeat(501)] {
        assert!(StaticFeedback::new("Name", &text).is_err(), "{} characters", text.len());
    }
}

#[test]
fn thresholds_are_more_than_zero_and_cycles_are_not_too_long() {
    assert_eq!(DiagnosticSignalProvider::new(0), Err(InvalidThreshold::Zero));
    assert_eq!(ConsultationPromptProvider::new(0), Err(InvalidThreshold::Zero));
    assert_eq!(ParallelToolReminder::new(0), Err(InvalidThreshold::Zero));
    assert_eq!(ErrorCascadeDetector::new(0), Err(InvalidThreshold::Zero));
    assert_eq!(DoomLoopDetector::new(0.85, 5, 0), Err(InvalidThreshold::Zero));
    assert!(matches!(DoomLoopDetector::new(1.5, 5, 3), Err(InvalidThreshold::Confidence(_))));
    assert_eq!(
        DoomLoopDetector::new(0.85, 9, 3).unwrap_err().to_string(),
        "a cycle of 9 calls is too long; use 1 to 8"
    );
    assert_eq!(DoomLoopDetector::new(0.85, 5, 3), Ok(DoomLoopDetector::default()));
}

#[test]
fn prompts_have_names_and_sections_that_parse() {
    assert!(matches!(PromptTemplate::new("a b", "c"), Err(InvalidPrompt::Name(_))));
    let template = || PromptTemplate::new("a", "b").unwrap();
    let error = template().with_section("intro", "{% if %}").unwrap_err();
    assert!(error.to_string().starts_with("section \"intro\": syntax error"), "{error}");
    let twice = template().with_section("s", "x").unwrap().with_section("s", "y").unwrap_err();
    assert_eq!(twice.to_string(), "duplicate section key \"s\"; give each section its own");
    let behind = template()
        .with_section("hints", "{{ guidance }}")
        .unwrap()
        .with_section("body", "text")
        .unwrap_err();
    assert!(matches!(behind, InvalidPrompt::BehindGuidance(_)));
    let broken = Prompt::new(template().with_section("s", "{{ 1 / 0 }}").unwrap()).render(&[]);
    assert!(matches!(broken, Err(InvalidPrompt::Render(_))), "{broken:?}");
}
