//! Shows how to write a feedback provider, a pattern detector, a classifier and a guidance provider
//! of your own, and how to use them in an engine.
//!
//! Run it with `cargo run -p midcourse-core --example custom`.

use midcourse_core::{
    Cause, ClassificationResult, Classifier, Confidence, DecisionPoint, Delivery, Detection,
    Engine, Feedback, FeedbackContext, FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger,
    GuidanceContext, GuidanceInjection, GuidanceProvider, GuidanceProviderConfig, PatternDetail,
    PatternDetector, PatternType, Prompt, PromptTemplate, ProviderError, SafeName, Severity,
    TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern, TrajectoryPayload,
    TrajectoryRecord, not, parse_notation,
};

/// A feedback provider that tells the agent how many tool calls it has made if there are too many,
/// and "OK" otherwise.
pub(crate) struct ToolUsageMonitor {
    /// With more tool calls than this, the feedback states their number. All tool calls count: this
    /// simple example does not check whether they made progress.
    pub(crate) max_calls_without_progress: u64,
}

impl FeedbackProvider for ToolUsageMonitor {
    fn name(&self) -> &str {
        "ToolUsageMonitor"
    }

    fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(true)
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let count = context.tool_call_count();
        if count > self.max_calls_without_progress {
            return Ok(Feedback::new(self.name(), format!("You have made {count} tool calls."))
                .with_suggestion("Review progress.")
                .with_severity(Severity::Caution));
        }
        Ok(Feedback::new(self.name(), "OK"))
    }
}

/// Detects four or more edits of one file in a row, without another tool call in between.
#[derive(Default)]
pub(crate) struct EditedAgainAndAgain {
    edits: u8,
}

/// The name of the pattern that [`EditedAgainAndAgain`] reports.
pub(crate) const EDITED_AGAIN: &str = "edited_again";

impl PatternDetector for EditedAgainAndAgain {
    fn name(&self) -> &str {
        EDITED_AGAIN
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        let Some(call) = trajectory.call_just_ended() else { return Detection::Unchanged };
        let before = trajectory.recent_tool_calls(2).next();
        let same_file = call.writes()
            && call.target().is_some()
            && before.is_some_and(|before| before.target() == call.target());
        self.edits = if same_file { self.edits.saturating_add(1) } else { 1 };
        if self.edits < 4 {
            return Detection::Absent;
        }
        let (Some(file), Some(digest)) = (call.target_name(), call.target()) else {
            return Detection::Absent;
        };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Custom { name: SafeName::of(EDITED_AGAIN), subject: Some(file.clone()) },
            Confidence::clamped(0.7),
            Cause::new(EDITED_AGAIN, digest),
            u32::from(self.edits),
            [call.ended_seq()],
        ))
    }

    fn reset(&mut self) {
        self.edits = 0;
    }

    fn save(&self) -> Vec<u8> {
        vec![self.edits]
    }

    fn restore(&mut self, state: &[u8]) {
        self.edits = state.first().copied().unwrap_or(0);
    }
}

/// A classifier that applies if one of the latest eight tool calls is a shell command that contains
/// the word `test`.
pub(crate) struct RanATest;

impl Classifier for RanATest {
    fn name(&self) -> &str {
        "ran_a_test"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        let mut calls = context.trajectory().recent_tool_calls(8);
        let ran = calls.any(|call| call.is_shell() && call.args_excerpt().contains("test"));
        Ok(if ran { ClassificationResult::yes() } else { ClassificationResult::no() })
    }
}

/// A guidance provider that suggests to run a test after four edits of one file in a row, unless
/// the agent has just run a test.
pub(crate) struct TestAfterEdits;

impl GuidanceProvider for TestAfterEdits {
    fn name(&self) -> &str {
        "test_after_edits"
    }

    fn category(&self) -> &str {
        "testing"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        let edited = PatternType::Custom(SafeName::of(EDITED_AGAIN));
        if !context.trajectory().has_pattern(&edited) {
            return Ok(ClassificationResult::no());
        }
        not(RanATest).classify(context)
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let edited = PatternType::Custom(SafeName::of(EDITED_AGAIN));
        let pattern = context.trajectory().pattern(&edited).ok_or("nothing was edited again")?;
        let PatternDetail::Custom { subject: Some(file), .. } = pattern.detail() else {
            return Err("the pattern names no file".into());
        };
        let text = format!(
            "You edited {file} {} times in a row. Run a test to see whether it is getting better.",
            pattern.occurrences()
        );
        Ok(GuidanceInjection::new("testing.run-one", text)?.about(context.why(pattern)))
    }
}

/// An engine that uses the providers, the detector and the classifier of this example.
pub(crate) fn engine() -> Result<Engine, ProviderError> {
    let template = PromptTemplate::new("example", "custom")?
        .with_feedback_provider(FeedbackProviderConfig::new(
            ToolUsageMonitor { max_calls_without_progress: 4 },
            FeedbackTrigger::every_n_calls(5)?,
        ))?
        .with_guidance_provider(GuidanceProviderConfig::new(TestAfterEdits))?;
    Ok(Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
        .with_detector(EditedAgainAndAgain::default()))
}

/// The messages that the agent gets during five edits of one file.
pub(crate) fn messages() -> Result<Vec<String>, ProviderError> {
    let mut engine = engine()?;
    let mut messages = Vec::new();
    let records = parse_notation(
        r#"
        edit {"path": "parser.rs", "old": "a", "new": "b"} -> ok
        edit {"path": "parser.rs", "old": "c", "new": "d"} -> ok
        edit {"path": "parser.rs", "old": "e", "new": "f"} -> ok
        edit {"path": "parser.rs", "old": "g", "new": "h"} -> ok
        edit {"path": "parser.rs", "old": "i", "new": "j"} -> ok
        "#,
    )?;
    for record in &records {
        let is_result = matches!(record.payload, TrajectoryPayload::ToolEnded { .. });
        let point = is_result.then_some(DecisionPoint::PreToolSelection);
        messages.extend(engine.step(record, point).deliveries.iter().map(Delivery::text));
    }
    Ok(messages)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), ProviderError> {
    for text in messages()? {
        println!("{text}\n");
    }
    Ok(())
}
