//! The example of what somebody else writes does what it says.

#[expect(dead_code, reason = "the example's own main is not called here")]
#[path = "../../examples/custom.rs"]
mod example;

#[test]
fn a_provider_a_detector_and_a_classifier_of_ones_own() {
    assert_eq!(
        example::messages().unwrap(),
        [
            "parser.rs was edited 4 times in a row. A test would tell whether it is \
             getting better.",
            "[Feedback - ToolUsageMonitor]\n\nYou have made 5 tool calls.\n\n→ Review progress.",
        ]
    );
}
