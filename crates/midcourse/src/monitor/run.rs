//! A monitored run: the methods with which an agent's loop reports what happens in the run.

use std::sync::Arc;

use midcourse_core::{
    AgentMessage, CallId, Deadline, DecisionPoint, Engine, RunId, RunIdentity, RunOutcome, Step,
    ToolResult, TrajectoryPayload,
};
use serde_json::Value;
use tokio::sync::Mutex;

use super::BlockingRun;
use super::evaluating_sink::EvaluatingSink;
use crate::recorder::{RecordOutcome, TrajectoryRecorder};
use crate::sink::TrajectoryError;

/// The result of reporting an event to a [`MonitoredRun`].
#[derive(Debug)]
pub struct Report {
    /// Whether the event was stored, and its record.
    pub outcome: RecordOutcome,
    /// What the engine concluded: patterns, messages for the agent, and what followed earlier
    /// messages.
    pub step: Step,
}

impl Report {
    /// The messages as one text for the agent, with a label that names midcourse as the sender;
    /// `None` if there are no messages.
    pub fn text(&self) -> Option<String> {
        self.step.labelled_text()
    }
}

/// A run that is recorded and analysed. `Monitor::begin` returns one.
///
/// Reports may come from several tasks at once; each is recorded and evaluated before the next one.
pub struct MonitoredRun {
    recorder: TrajectoryRecorder,
    sink: Arc<EvaluatingSink>,
    // Locked while an event is reported, so that the messages about it are not returned to another
    // task that reports an event at the same time.
    turn: Mutex<()>,
}

impl MonitoredRun {
    pub(super) fn new(recorder: TrajectoryRecorder, sink: Arc<EvaluatingSink>) -> Self {
        Self { recorder, sink, turn: Mutex::new(()) }
    }

    /// Blocking versions of this run's methods, for callers without an async runtime.
    pub const fn blocking(&self) -> BlockingRun<'_> {
        BlockingRun(self)
    }

    /// Sets the run's identity and records the start of the run. Events that were reported earlier
    /// are moved into this run. If the sink already has the start of this run, the run is continued
    /// after its stored records.
    pub async fn identify(&self, identity: RunIdentity) -> Result<Report, TrajectoryError> {
        let _turn = self.turn.lock().await;
        let outcome = self.recorder.begin(identity).await?;
        if let Some(change) = self.sink.take_resumed() {
            if change.current != change.stored.map(Deadline::at) {
                let deadline = TrajectoryPayload::DeadlineSet { at_unix_ms: change.current };
                self.recorder.record(deadline).await?;
            }
            let point = Some(DecisionPoint::PreRender);
            self.recorder.record_at(TrajectoryPayload::Resumed, point).await?;
        }
        Ok(Report { outcome, step: self.sink.take_step() })
    }

    /// The run's id; `None` before `identify` is called.
    pub async fn run_id(&self) -> Option<RunId> {
        self.recorder.run_id().await
    }

    /// Reports a message of the conversation. After a user's message, add the returned text to the
    /// next model request.
    pub async fn message(&self, message: AgentMessage) -> Result<Report, TrajectoryError> {
        let is_user = matches!(message, AgentMessage::User { .. });
        let point = is_user.then_some(DecisionPoint::PreRender);
        self.report(TrajectoryPayload::MessageAppended { message }, point).await
    }

    /// Reports a model request before it is sent. Add the returned text at the end of this request,
    /// and leave it out of later requests. `message_count` is the number of messages in the
    /// request, and `tools` are the names of the tools that the model may call.
    pub async fn model_request(
        &self,
        model: &str,
        message_count: usize,
        tools: &[&str],
    ) -> Result<Report, TrajectoryError> {
        let _turn = self.turn.lock().await;
        let request = TrajectoryPayload::ProviderRequestPrepared {
            iteration: usize::try_from(self.sink.turn_count()).unwrap_or(usize::MAX),
            model_id: Some(model.to_owned()),
            system_prompt_chars: 0,
            message_count,
            tool_count: tools.len(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            kept_by_server: false,
        };
        let point = if tools.is_empty() {
            DecisionPoint::PreResponse
        } else {
            DecisionPoint::PreToolSelection
        };
        let outcome = self.recorder.record_at(request, Some(point)).await?;
        self.recorder.record(TrajectoryPayload::TurnStarted).await?;
        Ok(Report { outcome, step: self.sink.take_step() })
    }

    /// Reports a tool call before it runs. Add the returned text to the call's result.
    pub async fn tool_started(
        &self,
        call_id: impl Into<CallId>,
        tool: &str,
        args: Value,
    ) -> Result<Report, TrajectoryError> {
        let started = TrajectoryPayload::ToolStarted {
            tool_call_id: call_id.into(),
            tool_name: tool.into(),
            args,
        };
        self.report(started, Some(DecisionPoint::PreToolExecution)).await
    }

    /// Reports the result of a tool call. Add the returned text at the end of that result.
    pub async fn tool_ended(
        &self,
        call_id: impl Into<CallId>,
        tool: &str,
        result: ToolResult,
    ) -> Result<Report, TrajectoryError> {
        let is_error = result.is_error;
        let ended = TrajectoryPayload::ToolEnded {
            tool_call_id: call_id.into(),
            tool_name: tool.into(),
            result,
            is_error,
        };
        self.report(ended, Some(DecisionPoint::PostToolResult)).await
    }

    /// Reports the end of the run, and how it ended.
    pub async fn end(&self, outcome: RunOutcome) -> Result<Report, TrajectoryError> {
        let ended = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
        self.report(ended, None).await
    }

    /// Reports an event that has no method of its own here. `decision_point` is the moment at which
    /// a message can be shown to the agent; with `None` the event is recorded and analysed, but no
    /// message is returned.
    pub async fn report(
        &self,
        payload: TrajectoryPayload,
        decision_point: Option<DecisionPoint>,
    ) -> Result<Report, TrajectoryError> {
        let _turn = self.turn.lock().await;
        let outcome = self.recorder.record_at(payload, decision_point).await?;
        Ok(Report { outcome, step: self.sink.take_step() })
    }

    /// Tries again to write the starts of runs and the gap markers that the sink failed to store.
    pub async fn flush(&self) -> Result<(), TrajectoryError> {
        self.recorder.flush().await
    }

    pub(super) fn take_engine(&self) -> Option<Engine> {
        self.sink.take_engine()
    }
}
