//! Checks the messages of the example `custom`.

#[expect(dead_code, reason = "the example's own main is not called here")]
#[path = "../../examples/custom.rs"]
mod example;

#[test]
fn custom_providers_a_detector_and_a_classifier_work_together() {
    assert_eq!(
        example::messages().unwrap(),
        [
            "You edited parser.rs 4 times in a row. Run a test to see whether it is getting better.",
            "[Feedback - ToolUsageMonitor]\n\nYou have made 5 tool calls.\n\n→ Review progress.",
        ]
    );
}
