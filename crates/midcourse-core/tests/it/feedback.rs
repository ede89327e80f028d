//! Which providers and observers deliver feedback, depending on their names, triggers and order.

use std::sync::Arc;

use midcourse_core::{
    Assessment, Classifier, Collected, DeliveryPolicy, ErrorStreakClassifier, Feedback,
    FeedbackContext, FeedbackPolicy, FeedbackProvider, FeedbackProviderConfig, FeedbackTrigger,
    GuidanceProvider, GuidanceProviderConfig, InvalidPrompt, ObserverConfig, ObserverContext,
    ParallelToolReminder, Prompt, PromptTemplate, ProviderError, RecordAssessment, Session,
    StaticFeedback, Timestamp, ToolInvoked, TrajectoryAnalysisConfig, TrajectoryObserver,
    collect_feedback, run_observers,
};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

fn template() -> PromptTemplate {
    PromptTemplate::new("agent", "main").unwrap()
}

fn every_call() -> FeedbackTrigger {
    FeedbackTrigger::every_n_calls(1).unwrap()
}

fn fixed(name: &str) -> FeedbackProviderConfig {
    let provider = StaticFeedback::new(name, "Text.").unwrap();
    FeedbackProviderConfig::new(provider, every_call())
}

/// A session with the prompt `agent:main` and `calls` tool calls.
fn session(calls: u64) -> Session {
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), "agent:main");
    for n in 0..calls {
        call(&mut session, n, NOW);
    }
    session
}

fn call(session: &mut Session, n: u64, at: Timestamp) {
    let id = format!("c{n}").into();
    session.dispatch(ToolInvoked::new(&id, "bash", &json!({"n": n}), "ok", false, at));
}

fn providers_of(collected: &Collected<Feedback>) -> Vec<&str> {
    collected.messages.iter().map(Feedback::provider_name).collect()
}

#[test]
fn the_first_provider_that_is_due_delivers_unless_the_policy_is_all_matching() {
    let never = StaticFeedback::new("Never", "Text.").unwrap();
    let template = |policy| {
        let delivery = DeliveryPolicy { feedback: policy, ..DeliveryPolicy::default() };
        template()
            .with_delivery(delivery)
            .with_feedback_provider(FeedbackProviderConfig::new(
                never.clone(),
                FeedbackTrigger::never(),
            ))
            .unwrap()
            .with_feedback_provider(fixed("First"))
            .unwrap()
            .with_feedback_provider(fixed("Second"))
            .unwrap()
    };
    let session = session(1);
    let first = Prompt::new(template(FeedbackPolicy::FirstMatch));
    let collected = collect_feedback(&FeedbackContext::new(&session, &first, NOW));
    assert_eq!(providers_of(&collected), ["First"]);
    let all = Prompt::new(template(FeedbackPolicy::AllMatching));
    let collected = collect_feedback(&FeedbackContext::new(&session, &all, NOW));
    assert_eq!(providers_of(&collected), ["First", "Second"]);
    assert_eq!(
        collected.text().unwrap(),
        "[Feedback - First]\n\nText.\n\n[Feedback - Second]\n\nText."
    );
}

#[test]
fn collecting_changes_nothing_and_dispatching_restarts_the_cadence() {
    let prompt = Prompt::new(template().with_feedback_provider(fixed("Fixed")).unwrap());
    let mut session = session(3);
    let collect =
        |session: &Session| collect_feedback(&FeedbackContext::new(session, &prompt, NOW));
    let collected = collect(&session);
    assert_eq!(collected, collect(&session));
    let feedback = &collected.messages[0];
    assert_eq!((feedback.call_index(), feedback.timestamp()), (3, NOW));
    assert_eq!(feedback.prompt_name(), "agent:main");
    collected.dispatch_to(&mut session);
    assert_eq!(session.slice::<Feedback>().total(), 1);
    assert!(collect(&session).messages.is_empty());
    call(&mut session, 3, NOW);
    assert_eq!(collect(&session).messages.len(), 1);
}

#[test]
fn a_second_provider_of_the_same_name_is_an_error() {
    let twice = template().with_feedback_provider(fixed("My Monitor")).unwrap();
    let error = twice.with_feedback_provider(fixed("My Monitor")).unwrap_err();
    assert!(matches!(&error, InvalidPrompt::DuplicateProvider(name) if name == "My Monitor"));
    assert_eq!(
        error.to_string(),
        "duplicate provider name \"My Monitor\"; give each provider its own"
    );
    let guidance = || GuidanceProviderConfig::new(ParallelToolReminder::default());
    let twice = template().with_guidance_provider(guidance()).unwrap();
    assert!(twice.with_guidance_provider(guidance()).is_err());
}

#[test]
fn a_second_observer_of_the_same_name_in_a_list_is_reported() {
    let prompt = Prompt::new(template());
    let session = session(1);
    let observers = [fixed("Same"), fixed("Same")];
    let never = FeedbackProviderConfig::new(
        StaticFeedback::new("Same", "Text.").unwrap(),
        FeedbackTrigger::never(),
    );
    let context = ObserverContext::new(&session, &prompt, NOW);
    // The first observer delivers, so the second is not called and its name is not checked.
    assert!(run_observers(&observers, &context).faults.is_empty());
    let collected = run_observers([&never, &observers[0]], &context);
    assert!(collected.messages.is_empty());
    assert_eq!(
        collected.faults[0].to_string(),
        "Same was skipped: another provider has the same name; give each provider its own name"
    );
}

#[test]
fn names_in_other_scripts_have_a_cadence_of_their_own() {
    let template = template()
        .with_feedback_provider(fixed("監視"))
        .unwrap()
        .with_feedback_provider(fixed("監査"))
        .unwrap();
    let prompt = Prompt::new(template);
    let mut session = session(1);
    let mut delivered = Vec::new();
    for _ in 0..3 {
        let collected = collect_feedback(&FeedbackContext::new(&session, &prompt, NOW));
        delivered.extend(collected.text());
        collected.dispatch_to(&mut session);
    }
    assert_eq!(delivered, ["[Feedback - 監視]\n\nText.", "[Feedback - 監査]\n\nText."]);
}

#[test]
fn feedback_made_by_hand_gets_the_time_and_call_index_of_the_session() {
    let trigger = FeedbackTrigger::every_n_calls(2).unwrap();
    let provider = StaticFeedback::new("Hand", "Text.").unwrap();
    let config = FeedbackProviderConfig::new(provider, trigger);
    let prompt = Prompt::new(template().with_feedback_provider(config).unwrap());
    let mut session = session(3);
    session.dispatch(Feedback::new("Hand", "Written by hand."));
    let kept = session.slice::<Feedback>().latest().unwrap();
    assert_eq!((kept.timestamp(), kept.call_index()), (NOW, 3));
    assert_eq!(kept.prompt_name(), "agent:main");
    let is_due = |session: &Session| {
        let collected = collect_feedback(&FeedbackContext::new(session, &prompt, NOW));
        !collected.messages.is_empty()
    };
    assert!(!is_due(&session));
    call(&mut session, 3, NOW);
    assert!(!is_due(&session));
    call(&mut session, 4, NOW);
    assert!(is_due(&session));

    let earlier = Timestamp::from_unix_ms(7);
    session.dispatch(Feedback::new("Other", "Text.").with_timestamp(earlier));
    assert_eq!(session.slice::<Feedback>().latest().unwrap().timestamp(), earlier);
}

#[test]
fn feedback_with_an_empty_summary_is_not_delivered() {
    struct Silent;

    impl FeedbackProvider for Silent {
        fn name(&self) -> &str {
            "Silent"
        }

        fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
            Ok(true)
        }

        fn provide(&self, _: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
            Ok(Feedback::new(self.name(), ""))
        }
    }

    let silent = FeedbackProviderConfig::new(Silent, every_call());
    let template = template().with_feedback_provider(silent).unwrap();
    let prompt = Prompt::new(template.with_feedback_provider(fixed("Fixed")).unwrap());
    let session = session(1);
    let collected = collect_feedback(&FeedbackContext::new(&session, &prompt, NOW));
    assert_eq!(providers_of(&collected), ["Fixed"]);
}

struct CallCounter;

impl TrajectoryObserver for CallCounter {
    fn name(&self) -> &str {
        "Call Counter"
    }

    fn should_run(
        &self,
        _: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<bool, ProviderError> {
        Ok(context.tool_call_count() >= 2)
    }

    fn observe(
        &self,
        session: &Session,
        context: &ObserverContext<'_>,
    ) -> Result<Assessment, ProviderError> {
        assert!(std::ptr::eq(session, context.session()));
        let count = context.tool_call_count();
        Ok(Assessment::new(self.name(), format!("You have made {count} tool calls.")))
    }
}

#[test]
fn an_observer_delivers_an_assessment_that_the_session_keeps() {
    let template = template()
        .with_feedback_provider(fixed("Fixed"))
        .unwrap()
        .with_observer(ObserverConfig::new(CallCounter, every_call()))
        .unwrap();
    let prompt = Prompt::new(template);
    assert_eq!(
        prompt.observers().map(|observer| observer.name()).collect::<Vec<_>>(),
        ["Call Counter"]
    );
    let mut session = session(1);
    let run = |session: &Session| {
        run_observers(prompt.observers(), &ObserverContext::new(session, &prompt, NOW))
    };
    assert_eq!(run(&session).text(), None);
    call(&mut session, 1, NOW);
    let assessments = run(&session);
    assert_eq!(
        assessments.text().unwrap(),
        "[Trajectory Assessment - Call Counter]\n\nYou have made 2 tool calls."
    );
    let assessment = assessments.messages[0].clone();
    session.dispatch(RecordAssessment(assessment.clone()));
    assert_eq!(session.slice::<Assessment>().latest(), Some(&assessment));
    assert_eq!(session.slice::<Assessment>().all().count(), 1);
    assert_eq!(assessment.call_index(), 2);
    let context = ObserverContext::new(&session, &prompt, NOW);
    assert_eq!(context.last_assessment(), Some(&assessment));
    assert_eq!(context.tool_calls_since_last_assessment(), 0);
    assert!(run(&session).messages.is_empty());
}

#[test]
fn providers_observers_and_classifiers_can_be_boxed_or_shared() {
    let boxed: Box<dyn FeedbackProvider> = Box::new(StaticFeedback::new("Box", "Text.").unwrap());
    let shared: Arc<dyn FeedbackProvider> = Arc::new(StaticFeedback::new("Arc", "Text.").unwrap());
    let observers: [Arc<dyn TrajectoryObserver>; 1] = [Arc::new(CallCounter)];
    let boxed_observer: Box<dyn TrajectoryObserver> = Box::new(CallCounter);
    let guidance: Arc<dyn GuidanceProvider> = Arc::new(ParallelToolReminder::default());
    let boxed_guidance: Box<dyn GuidanceProvider> = Box::new(ParallelToolReminder::default());
    let classifier: Arc<dyn Classifier> = Arc::new(ErrorStreakClassifier::default());
    let boxed_classifier: Box<dyn Classifier> = Box::new(Arc::clone(&classifier));
    assert_eq!((classifier.name(), boxed_classifier.name()), ("error_streak", "error_streak"));
    assert_eq!(boxed_observer.name(), "Call Counter");
    assert_eq!(boxed_guidance.category(), "efficiency");
    let [observer] = observers;
    let template = template()
        .with_feedback_provider(FeedbackProviderConfig::new(boxed, every_call()))
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(shared, every_call()))
        .unwrap()
        .with_observer(ObserverConfig::new(observer, every_call()))
        .unwrap()
        .with_guidance_provider(GuidanceProviderConfig::new(guidance))
        .unwrap();
    let prompt = Prompt::new(template);
    let mut session = session(2);
    for expected in ["Box", "Arc", "Call Counter"] {
        let collected = collect_feedback(&FeedbackContext::new(&session, &prompt, NOW));
        assert_eq!(providers_of(&collected), [expected]);
        collected.dispatch_to(&mut session);
    }
    assert_eq!(prompt.guidance_providers()[0].name(), "parallel_tool_reminder");
}
