//! How messages are built, cut to their maximum length, rendered as text, and read from JSON.

use midcourse_core::{
    Assessment, ClassificationResult, Feedback, GuidanceInjection, InvalidConfidence,
    MAX_FEEDBACK_CHARS, MAX_FEEDBACK_LINES, Observation, Severity, Timestamp,
};
use serde_json::json;

#[test]
fn feedback_renders_its_heading_summary_observations_and_suggestions() {
    let feedback = Feedback::new("Tests", "Two tests fail.")
        .with_observation(Observation::new("Errors", "both in parser.rs").with_evidence("seq 7"))
        .with_observation(Observation::new("Time", "ten minutes since the last change"))
        .with_suggestion("Run one test alone.")
        .with_suggestion("Read the assertion.")
        .with_severity(Severity::Caution);
    assert_eq!(
        feedback.render(),
        "[Feedback - Tests]\n\nTwo tests fail.\n\n\
         • Errors: both in parser.rs\n\
         • Time: ten minutes since the last change\n\n\
         → Run one test alone.\n\
         → Read the assertion."
    );
    assert_eq!(feedback.severity(), Severity::Caution);
    let first = &feedback.observations()[0];
    assert_eq!((first.category(), first.evidence()), ("Errors", Some("seq 7")));
    assert_eq!(feedback.observations()[1].evidence(), None);
    assert_eq!(
        feedback.suggestions().collect::<Vec<_>>(),
        ["Run one test alone.", "Read the assertion."]
    );
}

#[test]
fn feedback_has_defaults_for_everything_but_name_and_summary() {
    let feedback = Feedback::new("Name", "Summary");
    assert!(feedback.observations().is_empty());
    assert_eq!(feedback.suggestions().len(), 0);
    assert_eq!(feedback.severity(), Severity::Info);
    assert_eq!((feedback.call_index(), feedback.prompt_name()), (0, ""));
    let at = Timestamp::from_unix_ms(5);
    assert_eq!(feedback.with_timestamp(at).timestamp(), at);
}

#[test]
fn an_assessment_made_by_hand_has_the_heading_of_assessments() {
    let assessment = Assessment::new("Progress", "Half of the files are done.")
        .with_observation(Observation::new("Files", "5 of 10"))
        .with_suggestion("Continue.")
        .with_severity(Severity::Info);
    assert_eq!(
        assessment.render(),
        "[Trajectory Assessment - Progress]\n\nHalf of the files are done.\n\n\
         • Files: 5 of 10\n\n→ Continue."
    );
    assert_eq!(assessment.observer_name(), "Progress");
}

#[test]
fn a_name_is_rendered_as_given() {
    for name in ["Tool Usage Monitor", "Überwachung", "監視"] {
        let feedback = Feedback::new(name, "Text.");
        assert_eq!(feedback.provider_name(), name);
        assert_eq!(feedback.render(), format!("[Feedback - {name}]\n\nText."));
    }
}

#[test]
fn texts_of_any_size_are_cut_to_their_limits() {
    let long = "ü".repeat(10_000);
    let mut feedback = Feedback::new(&long, long.as_str());
    for _ in 0..20 {
        feedback = feedback
            .with_observation(Observation::new(&long, long.as_str()).with_evidence(long.as_str()))
            .with_suggestion(long.as_str());
    }
    assert_eq!(feedback.summary().chars().count(), 500);
    assert!(feedback.summary().ends_with("ü…"));
    assert_eq!(feedback.observations().len(), MAX_FEEDBACK_LINES);
    assert_eq!(feedback.observations()[0].category().chars().count(), 40);
    assert_eq!(feedback.observations()[0].description().chars().count(), 200);
    assert_eq!(feedback.observations()[0].evidence().unwrap().chars().count(), 200);
    assert_eq!(feedback.suggestions().len(), MAX_FEEDBACK_LINES);
    assert!(feedback.suggestions().all(|text| text.chars().count() == 200));
    assert!(feedback.render().chars().count() <= MAX_FEEDBACK_CHARS);
}

#[test]
fn json_without_the_fields_that_have_defaults_reads() {
    let read = serde_json::from_value::<Feedback>;
    let feedback = read(json!({"provider_name": "Name", "summary": "Text."})).unwrap();
    assert_eq!(feedback, Feedback::new("Name", "Text."));
    let long = json!({"provider_name": "Name", "summary": "x".repeat(501)});
    assert_eq!(read(long).unwrap().summary().chars().count(), 500);

    let assessment = json!({"observer_name": "Name", "summary": "Text."});
    let assessment: Assessment = serde_json::from_value(assessment).unwrap();
    assert_eq!(assessment, Assessment::new("Name", "Text."));

    let injection = json!({"key": "k", "content": "Text."});
    let injection: GuidanceInjection = serde_json::from_value(injection).unwrap();
    assert_eq!(injection, GuidanceInjection::new("k", "Text.").unwrap());
    assert_eq!(injection.priority(), 100);

    let classified = json!({"relevant": true, "confidence": 0.5});
    let classified: ClassificationResult = serde_json::from_value(classified).unwrap();
    assert_eq!(classified, ClassificationResult::new(true, 0.5).unwrap());

    let observation = json!({"category": "Errors", "description": "two"});
    let observation: Observation = serde_json::from_value(observation).unwrap();
    assert_eq!(observation, Observation::new("Errors", "two"));
}

#[test]
fn an_injection_has_a_priority_and_a_category() {
    let injection = GuidanceInjection::new("k", "Text.").unwrap();
    assert_eq!((injection.priority(), injection.category()), (100, ""));
    let injection = injection.with_priority(5).with_category("diagnostic");
    assert_eq!((injection.priority(), injection.category()), (5, "diagnostic"));
    assert_eq!((injection.key().as_str(), injection.content()), ("k", "Text."));
}

#[test]
fn a_classification_can_be_irrelevant_with_a_confidence_and_a_reason() {
    let result = ClassificationResult::new(false, 0.8).unwrap().with_reason("one error only");
    assert!(!result.relevant());
    assert!((result.confidence().value() - 0.8).abs() < f64::EPSILON);
    assert_eq!(result.reason(), Some("one error only"));
    for confidence in [-0.1, 1.1] {
        let error = ClassificationResult::new(true, confidence);
        assert_eq!(error, Err(InvalidConfidence(confidence)));
    }
}
