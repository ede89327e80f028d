//! The engine of midcourse: records of an agent's run in, short messages for the agent out.
//!
//! Data flows one way. [`Engine::step`] applies a [`TrajectoryRecord`] (one event of a run) to the
//! [`Session`] (the bounded state of that run). Then detectors report patterns such as loops, and
//! providers make messages: feedback after a tool call, or guidance at a [`DecisionPoint`].
//!
//! The core does no I/O, reads no clock and starts no threads, and no record makes it fail. The
//! messages after a record depend only on the records up to that point. They stay the same if the
//! session is saved as a [`Checkpoint`] after any record and restored in another process.
//!
//! This file lists every public name.

#![warn(missing_docs)]

mod analysis;
mod cause;
pub mod classifiers;
mod confidence;
mod detect;
mod digest;
mod engine;
mod fault;
mod feedback;
mod guidance;
mod ledger;
mod message;
mod money;
mod notation;
pub mod observers;
mod prompt;
pub mod providers;
mod record;
mod session;
mod subject;
mod text;
mod threshold;
mod time;
mod why;
mod wording;

pub use analysis::{
    CallStatus, ErrorCount, Frequency, InvalidWindow, MAX_COUNTED_NAMES, MAX_OPEN_CALLS,
    MAX_REMEMBERED_CALL_IDS, PatternDetail, PatternType, PendingToolCall, ToolInvoked, ToolSetting,
    ToolSettings, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern, WindowSize,
    call_failed,
};
pub use cause::{Cause, MAX_EVIDENCE_SEQS, Rung};
pub use classifiers::Classifier;
#[doc(hidden)]
pub use classifiers::{
    AllOf, AnyOf, DoomLoopClassifier, ErrorStreakClassifier, HighToolCountClassifier,
    LargeOutputClassifier, Not, ProgressStallClassifier, SensitiveContentClassifier,
    SequentialWhenParallelClassifier, SingleToolRepeatedClassifier, Threshold, all_of, any_of, not,
    threshold,
};
pub use confidence::{Confidence, InvalidConfidence};
pub use detect::{
    Detection, MAX_CYCLE_LEN, MAX_DETECTOR_STATE_BYTES, PatternDetector, TrajectoryBuilder,
};
pub use digest::Digest;
pub use engine::{
    Delivery, Engine, FeedbackSetting, GuidanceSetting, Holdout, InvalidHoldout, LABEL,
    MessageSettings, Mode, ProviderSettings, Step, shipped_template,
};
pub use fault::{Failure, Fault, ProviderError};
pub use feedback::{Budget, BudgetFeedback, DeadlineFeedback, InvalidBudget, collect_feedback};
pub use guidance::{CourseCorrection, DeadlineNotice, collect_guidance};
pub use ledger::{Ledger, LedgerPolicy, MAX_CAUSES, MAX_REMEMBERED_TEXTS};
pub use message::{
    Assignment, ClassificationResult, DecisionPoint, DecisionPoints, Feedback, GuidanceDelivered,
    GuidanceInjection, GuidanceKey, GuidanceText, InjectionPosition, InvalidGuidance,
    MAX_FEEDBACK_CHARS, MAX_FEEDBACK_LINES, MAX_METADATA_ENTRIES, Observation, Outcome,
    OutcomeVerdict, Severity, format_guidance,
};
pub use money::{InvalidMoney, MicroUsd};
pub use notation::{NotationError, parse_notation, parse_notation_events, write_notation};
#[doc(hidden)]
pub use observers::{
    Assessment, DeadlineObserver, ObserverConfig, ObserverContext, ObserverTrigger,
    RecordAssessment, TrajectoryObserver, run_observers,
};
pub use prompt::{
    Collected, DeliveryPolicy, FeedbackContext, FeedbackPolicy, FeedbackProvider,
    FeedbackProviderConfig, FeedbackTrigger, Filesystem, GuidanceContext, GuidanceLimits,
    GuidanceProvider, GuidanceProviderConfig, GuidanceSelection, InvalidPrompt, InvalidTrigger,
    MissingResource, Prompt, PromptResources, PromptTemplate, RenderedPrompt,
};
#[doc(hidden)]
pub use providers::{
    ConsultationPromptProvider, DiagnosticSignalProvider, DoomLoopDetector, DriftDetector,
    ErrorCascadeDetector, ParallelToolReminder, StallDetector, StaticFeedback,
};
pub use record::{
    AgentMessage, AssistantBlock, AssistantContent, CallId, GapReason, ImageContent,
    ReasoningDetailsContent, RunId, RunIdentity, RunOutcome, StopReason, TRAJECTORY_SCHEMA_VERSION,
    TextContent, ToolCallBlock, ToolResult, ToolResultBlock, ToolResultContent, TrajectoryPayload,
    TrajectoryRecord, Usage, UserBlock, UserContent,
};
pub use session::{
    CALLS_TO_DECIDE, CHECKPOINT_VERSION, Changes, Checkpoint, CheckpointError, DeliveryTotals,
    Fired, MAX_CREATED_FILES, MAX_PROMPTS, Session, SessionEvent, Slice, SliceItem,
};
pub use subject::{Activity, Subject};
pub use text::{
    ErrorSignature, Excerpt, FailureKind, InvalidObjectName, InvalidText, MAX_EXCERPT_BYTES,
    MAX_OBJECT_CHARS, MAX_PROVIDER_NAME_CHARS, MAX_SAFE_NAME_CHARS, ObjectName, ProviderName,
    SafeName, Text, looks_failed, similarity,
};
pub use threshold::InvalidThreshold;
pub use time::{Deadline, InvalidSeconds, Seconds, Timestamp};
pub use why::Why;
