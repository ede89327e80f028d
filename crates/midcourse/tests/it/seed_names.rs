//! Checks that every public name of the four documents that specify midcourse (the "seeds") can be
//! imported from the root of this crate.

/// The names in the document trajectory-observers.
mod observers {
    pub(super) use midcourse::{
        Assessment, Deadline, DeadlineObserver, DriftDetector, ErrorCascadeDetector, Filesystem,
        Observation, ObserverConfig, ObserverContext, ObserverTrigger, Prompt, PromptResources,
        PromptTemplate, RecordAssessment, Session, StallDetector, ToolInvoked, TrajectoryObserver,
        run_observers,
    };
}

/// The names in the document feedback-providers.
mod feedback {
    pub(super) use midcourse::{
        DeadlineFeedback, Feedback, FeedbackContext, FeedbackProvider, FeedbackProviderConfig,
        FeedbackTrigger, collect_feedback,
    };
}

/// The names in the document trajectory-capture.
mod capture {
    pub(super) use midcourse::{
        AgentMessage, AssistantContent, InMemoryTrajectorySink, RunIdentity, StopReason,
        TRAJECTORY_SCHEMA_VERSION, ToolResult, TrajectoryError, TrajectoryPayload,
        TrajectoryRecord, TrajectoryRecorder, TrajectorySink, UserContent,
    };
}

/// The names in the document decision-time-guidance.
mod guidance {
    pub(super) use midcourse::{
        ClassificationResult, ConsultationPromptProvider, DecisionPoint, DiagnosticSignalProvider,
        DoomLoopDetector, GuidanceContext, GuidanceDelivered, GuidanceInjection, GuidanceProvider,
        GuidanceProviderConfig, ParallelToolReminder, TrajectoryAnalysis, collect_guidance,
        format_guidance,
    };
}

/// Compiles only if `T` names a type, such as a struct or `dyn Trait`. Always returns `true`.
fn is_type<T: ?Sized>() -> bool {
    !std::any::type_name::<T>().is_empty()
}

#[test]
fn every_name_of_the_seeds_imports_from_the_root() {
    assert!(is_type::<observers::Assessment>() && is_type::<observers::Deadline>());
    assert!(is_type::<observers::DeadlineObserver>() && is_type::<observers::DriftDetector>());
    assert!(is_type::<observers::ErrorCascadeDetector>() && is_type::<observers::Observation>());
    assert!(is_type::<dyn observers::Filesystem>() && is_type::<observers::ObserverConfig>());
    assert!(is_type::<observers::ObserverContext<'_>>() && is_type::<observers::ToolInvoked>());
    assert!(is_type::<observers::ObserverTrigger>() && is_type::<observers::Prompt>());
    assert!(is_type::<observers::PromptResources>() && is_type::<observers::PromptTemplate>());
    assert!(is_type::<observers::RecordAssessment>() && is_type::<observers::Session>());
    assert!(
        is_type::<observers::StallDetector>() && is_type::<dyn observers::TrajectoryObserver>()
    );
    let none: [&observers::ObserverConfig; 0] = [];
    let _ = |context: &observers::ObserverContext<'_>| observers::run_observers(none, context);

    assert!(is_type::<feedback::DeadlineFeedback>() && is_type::<feedback::Feedback>());
    assert!(is_type::<feedback::FeedbackContext<'_>>() && is_type::<feedback::FeedbackTrigger>());
    assert!(is_type::<dyn feedback::FeedbackProvider>());
    assert!(is_type::<feedback::FeedbackProviderConfig>());
    let _ = feedback::collect_feedback;

    assert!(is_type::<capture::AgentMessage>() && is_type::<capture::AssistantContent>());
    assert!(is_type::<capture::InMemoryTrajectorySink>() && is_type::<capture::RunIdentity>());
    assert!(is_type::<capture::StopReason>() && is_type::<capture::ToolResult>());
    assert!(is_type::<capture::TrajectoryError>() && is_type::<capture::TrajectoryPayload>());
    assert!(is_type::<capture::TrajectoryRecord>() && is_type::<capture::TrajectoryRecorder>());
    assert!(is_type::<dyn capture::TrajectorySink>() && is_type::<capture::UserContent>());
    assert_eq!(capture::TRAJECTORY_SCHEMA_VERSION, 1);

    assert!(is_type::<guidance::ClassificationResult>() && is_type::<guidance::DecisionPoint>());
    assert!(is_type::<guidance::ConsultationPromptProvider>());
    assert!(is_type::<guidance::DiagnosticSignalProvider>());
    assert!(is_type::<guidance::DoomLoopDetector>() && is_type::<guidance::GuidanceContext<'_>>());
    assert!(is_type::<guidance::GuidanceDelivered>() && is_type::<guidance::GuidanceInjection>());
    assert!(is_type::<dyn guidance::GuidanceProvider>());
    assert!(is_type::<guidance::GuidanceProviderConfig>());
    assert!(
        is_type::<guidance::ParallelToolReminder>() && is_type::<guidance::TrajectoryAnalysis>()
    );
    let _ = guidance::collect_guidance;
    assert_eq!(guidance::format_guidance([]), "");
}
