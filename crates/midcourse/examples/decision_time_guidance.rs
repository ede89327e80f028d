//! The code examples of decision-time-guidance, one of the four documents that specify midcourse
//! ("seeds"), in Rust: the four built-in providers, a prompt template, a hook that injects guidance
//! before a tool runs, and what is stored about the guidance.

use std::error::Error;

use midcourse::{
    ClassificationResult, ConsultationPromptProvider, DecisionPoint, DiagnosticSignalProvider,
    DoomLoopDetector, Engine, GuidanceContext, GuidanceDelivered, GuidanceInjection,
    GuidanceProvider, GuidanceProviderConfig, InjectionPosition, ParallelToolReminder, Prompt,
    PromptTemplate, ProviderError, Session, TrajectoryAnalysisConfig, collect_guidance,
    format_guidance, parse_notation,
};
use serde_json::{Value, json};

/// Reminds the agent of a rule when it is about to delete something.
struct DeleteGuard;

impl GuidanceProvider for DeleteGuard {
    fn name(&self) -> &str {
        "delete_guard"
    }

    fn category(&self) -> &str {
        "safety"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        let deletes = context.pending_tool_calls().any(|call| call.args_excerpt.contains("rm "));
        let result = ClassificationResult::new(deletes, 0.8)?;
        Ok(if deletes { result.with_reason("a pending call deletes files") } else { result })
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let text = "Files that are not committed cannot be restored. Check `git status` first.";
        Ok(GuidanceInjection::new("safety.delete", text)?.with_priority(10))
    }
}

/// A prompt template with two built-in providers and `DeleteGuard`.
fn template() -> Result<PromptTemplate, Box<dyn Error>> {
    Ok(PromptTemplate::new("agent", "main")?
        .with_section("task", "Make the tests pass.")?
        .with_guidance_provider(
            GuidanceProviderConfig::new(DiagnosticSignalProvider::new(3)?).with_max_per_turn(1)?,
        )?
        .with_guidance_provider(
            GuidanceProviderConfig::new(DoomLoopDetector::default().with_window_size(5)?)
                .with_min_confidence(0.7)?,
        )?
        .with_guidance_provider(
            GuidanceProviderConfig::new(DeleteGuard).with_points([DecisionPoint::PreToolExecution]),
        )?)
}

/// Injects guidance before a tool runs.
struct GuidanceHookHandler {
    prompt: Prompt,
    session: Session,
}

impl GuidanceHookHandler {
    fn pre_tool_use(&mut self) -> Value {
        let now = self.session.trajectory().latest_at();
        let point = DecisionPoint::PreToolExecution;
        let context = GuidanceContext::new(&self.session, &self.prompt, point, now);
        let guidance = collect_guidance(&context);
        let injections = guidance.messages.iter().map(|message| &message.injection);
        let output = match format_guidance(injections) {
            text if text.is_empty() => json!({}),
            text => json!({"additionalContext": text}),
        };
        guidance.dispatch_to(&mut self.session);
        output
    }
}

/// All guidance that one provider gives while an agent makes the tool calls of `trajectory`, which
/// is in midcourse's text notation: a line per call.
fn guidance_of(
    provider: impl GuidanceProvider + 'static,
    trajectory: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let template = PromptTemplate::new("agent", "main")?
        .with_guidance_provider(GuidanceProviderConfig::new(provider))?;
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::default());
    let mut texts = Vec::new();
    for record in parse_notation(trajectory)? {
        let step = engine.step(&record, Some(DecisionPoint::PreToolSelection));
        texts.extend(step.deliveries.iter().map(|delivery| delivery.text()));
    }
    Ok(texts)
}

fn built_in_providers() -> Result<(), Box<dyn Error>> {
    let three_errors = "bash a !! error: one\nbash b !! error: two\nbash c !! error: three";
    let provider = DiagnosticSignalProvider::new(3)?.with_log_tool_name("view_logs");
    assert_eq!(
        guidance_of(provider, three_errors)?,
        ["Found 3 new console errors. Use the view_logs tool to examine before continuing."]
    );

    let three_rounds = "3x {\nread a -> the text of file a\nread b -> the text of file b\n}";
    assert_eq!(
        guidance_of(DoomLoopDetector::new(0.85, 5, 3)?, three_rounds)?,
        ["Detected repeated unsuccessful pattern. Consider a different approach or consult the \
          planning tool to reassess strategy."]
    );

    let five_failures: String =
        (1..=5).map(|n| format!("bash a{n} !! error: {n} left\n")).collect();
    let provider = ConsultationPromptProvider::new(5)?.with_consultation_tool("request_review");
    assert_eq!(
        guidance_of(provider, &five_failures)?,
        ["Multiple attempts unsuccessful. Consider using request_review to get fresh perspective \
          from specialized agent."]
    );

    let three_reads = "read a -> text a\nread b -> text b\nread c -> text c";
    assert_eq!(
        guidance_of(ParallelToolReminder::new(3)?, three_reads)?,
        ["Multiple independent operations detected. Consider executing tools in parallel for \
          efficiency."]
    );
    Ok(())
}

fn hook_and_events() -> Result<(), Box<dyn Error>> {
    let prompt = Prompt::new(template()?);
    let session = Session::new(TrajectoryAnalysisConfig::default(), prompt.name());
    let mut handler = GuidanceHookHandler { prompt, session };
    for record in parse_notation("bash ls -> a.txt\nbash rm a.txt ..")? {
        handler.session.apply(&record);
    }
    assert_eq!(
        handler.pre_tool_use(),
        json!({"additionalContext": "[Guidance]\n\n\
            Files that are not committed cannot be restored. Check `git status` first."})
    );

    // The session stores which guidance was delivered, at which decision point, and why.
    let slice = handler.session.slice::<GuidanceDelivered>();
    let event = slice.latest().ok_or("no guidance")?;
    assert_eq!(event.provider_name, "delete_guard");
    assert_eq!(event.injection.key().as_str(), "safety.delete");
    assert_eq!((event.injection.priority(), event.injection.category()), (10, "safety"));
    assert_eq!(event.decision_point, DecisionPoint::PreToolExecution);
    assert_eq!(event.classification.reason(), Some("a pending call deletes files"));
    assert_eq!(event.timestamp, handler.session.trajectory().latest_at());

    // The `rm` has already run, and the pending `ls` deletes nothing, so the hook adds no guidance.
    for record in parse_notation("bash ls -> a.txt\nbash rm a.txt -> \nbash ls ..")? {
        handler.session.apply(&record);
    }
    assert_eq!(handler.pre_tool_use(), json!({}));
    Ok(())
}

/// Checks that guidance is only in the rendering of the prompt that it is passed to, and that the
/// text before the guidance is unchanged.
fn guidance_is_ephemeral() -> Result<(), Box<dyn Error>> {
    let prompt = Prompt::new(template()?);
    let injection = GuidanceInjection::new("hint", "Run the tests first.")?;
    let (without, with) = (prompt.render(&[])?, prompt.render(&[injection])?);
    assert_eq!(without.text(), "Make the tests pass.");
    assert_eq!(with.text(), "Make the tests pass.\n\n[Guidance]\n\nRun the tests first.");
    assert_eq!(with.fixed_part(), without.text());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let names = DecisionPoint::ALL.map(DecisionPoint::as_str);
    assert_eq!(
        names,
        [
            "pre_render",
            "pre_tool_selection",
            "pre_tool_execution",
            "post_tool_result",
            "pre_response"
        ]
    );
    let position = DecisionPoint::PostToolResult.injection_position();
    assert_eq!(position, InjectionPosition::EndOfToolResult);
    built_in_providers()?;
    hook_and_events()?;
    guidance_is_ephemeral()
}

#[test]
fn the_providers_deliver_the_guidance_of_the_seed() {
    main().unwrap();
}
