//! Blocking versions of the methods of a monitored run, for callers without an async runtime.

use midcourse_core::{
    AgentMessage, CallId, DecisionPoint, RunOutcome, ToolResult, TrajectoryPayload,
};
use pollster::block_on;
use serde_json::Value;

use super::{MonitoredRun, Report};
use crate::sink::TrajectoryError;

/// Blocking versions of the methods of [`MonitoredRun`]: each blocks this thread until the event is
/// stored.
#[derive(Clone, Copy)]
pub struct BlockingRun<'a>(pub(super) &'a MonitoredRun);

impl BlockingRun<'_> {
    /// Reports a message of the conversation; see [`MonitoredRun::message`].
    pub fn message(self, message: AgentMessage) -> Result<Report, TrajectoryError> {
        block_on(self.0.message(message))
    }

    /// Reports a model request before it is sent; see [`MonitoredRun::model_request`].
    pub fn model_request(
        self,
        model: &str,
        message_count: usize,
        tools: &[&str],
    ) -> Result<Report, TrajectoryError> {
        block_on(self.0.model_request(model, message_count, tools))
    }

    /// Reports a tool call before it runs; see [`MonitoredRun::tool_started`].
    pub fn tool_started(
        self,
        call_id: impl Into<CallId>,
        tool: &str,
        args: Value,
    ) -> Result<Report, TrajectoryError> {
        block_on(self.0.tool_started(call_id, tool, args))
    }

    /// Reports the result of a tool call; see [`MonitoredRun::tool_ended`].
    pub fn tool_ended(
        self,
        call_id: impl Into<CallId>,
        tool: &str,
        result: ToolResult,
    ) -> Result<Report, TrajectoryError> {
        block_on(self.0.tool_ended(call_id, tool, result))
    }

    /// Reports the end of the run; see [`MonitoredRun::end`].
    pub fn end(self, outcome: RunOutcome) -> Result<Report, TrajectoryError> {
        block_on(self.0.end(outcome))
    }

    /// Reports any other event; see [`MonitoredRun::report`].
    pub fn report(
        self,
        payload: TrajectoryPayload,
        decision_point: Option<DecisionPoint>,
    ) -> Result<Report, TrajectoryError> {
        block_on(self.0.report(payload, decision_point))
    }

    /// Tries again to store what the sink failed to store; see [`MonitoredRun::flush`].
    pub fn flush(self) -> Result<(), TrajectoryError> {
        block_on(self.0.flush())
    }
}
