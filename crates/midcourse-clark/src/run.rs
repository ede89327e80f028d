//! One run of the loop: records what the loop reports, and keeps midcourse's messages until the
//! loop builds the next model request.
//!
//! Several tool calls may return at the same time, so a lock makes sure that their reports are
//! recorded and evaluated one after the other. A message is recorded before it goes to the model.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use clark_agent::{ToolCall, ToolResult};
use midcourse::{
    AgentMessage, DecisionPoint, Delivery, MonitoredRun, RecordOutcome, Report, RunId, RunIdentity,
    TrajectoryError, TrajectoryPayload,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::calls::Calls;
use crate::convert::tool_result;
use crate::setup::Setup;
use crate::trouble::Trouble;

pub(crate) struct Run {
    setup: Setup,
    run_id: OnceLock<RunId>,
    monitored: MonitoredRun,
    /// The calls so far. Locked during a report, so that reports are handled one after the other.
    calls: AsyncMutex<Calls>,
    requests: Mutex<Requests>,
    has_ended: AtomicBool,
}

/// The messages that are added to model requests.
#[derive(Default)]
struct Requests {
    /// Messages that wait for the next request.
    pending: Vec<Delivery>,
    /// The number of the latest request, and the text that was added to it (`None` if there was no
    /// message). When the loop retries a request, it builds the request again, and the retry has to
    /// get the same text.
    latest: Option<(usize, Option<String>)>,
}

impl Run {
    pub(crate) fn new(setup: &Setup, identity: Option<&RunIdentity>) -> Self {
        Self::with_calls(setup, setup.monitor.start(identity), Calls::default())
    }

    /// Continues the run `before`, because the loop was started again with the same run id.
    pub(crate) async fn restarted(setup: &Setup, before: &Self) -> Self {
        let mut calls = std::mem::take(&mut *before.calls.lock().await);
        calls.abandon_open();
        Self::with_calls(setup, setup.monitor.restart(&before.monitored), calls)
    }

    fn with_calls(setup: &Setup, monitored: MonitoredRun, calls: Calls) -> Self {
        Self {
            setup: setup.clone(),
            run_id: OnceLock::new(),
            monitored,
            calls: AsyncMutex::new(calls),
            requests: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn run_id(&self) -> Option<&RunId> {
        self.run_id.get()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Tries again to store the gap markers (records with the number of lost events).
    pub(crate) async fn flush(&self) -> Result<(), TrajectoryError> {
        self.monitored.flush().await
    }

    /// Sets the identity of the run and records its start.
    pub(crate) async fn begin(&self, identity: RunIdentity) {
        let _report = self.calls.lock().await;
        // A run is identified once, so the cell is still empty.
        let _ = self.run_id.set(identity.run_id.clone());
        let report = self.monitored.identify(identity).await;
        let deliveries = self.checked(report);
        self.requests().pending.extend(deliveries);
    }

    /// Records a payload that the loop reported.
    pub(crate) async fn report(&self, mut payload: TrajectoryPayload) {
        let mut calls = self.calls.lock().await;
        if matches!(payload, TrajectoryPayload::RunEnded { .. }) {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        if !calls.identify(&mut payload) {
            return;
        }
        let decision_point = decision_point(&payload);
        let report = self.monitored.report(payload, decision_point).await;
        let deliveries = self.checked(report);
        self.requests().pending.extend(deliveries);
    }

    /// Records the end of a call, also of a refused one. Returns the text to add to the call's
    /// result; `None` if there is no message.
    ///
    /// The result is recorded here and not with the loop's later event, because the result in that
    /// event already contains the added text. A result that ends the run goes to the user, so
    /// nothing is added to it.
    pub(crate) async fn tool_returned(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        is_error: bool,
    ) -> Option<String> {
        let mut calls = self.calls.lock().await;
        let ended = TrajectoryPayload::ToolEnded {
            tool_call_id: calls.returned(&call.id),
            tool_name: (&call.name).into(),
            result: tool_result(result),
            is_error,
        };
        let point = (!result.terminate).then_some(DecisionPoint::PostToolResult);
        let report = self.monitored.report(ended, point).await;
        // Feedback is added to the result and stays there; guidance is added to the next request
        // only.
        let deliveries = self.checked(report).into_iter();
        let (feedback, guidance): (Vec<_>, Vec<_>) =
            deliveries.partition(|delivery| matches!(delivery, Delivery::Feedback { .. }));
        self.requests().pending.extend(guidance);
        Delivery::labelled_text(&feedback)
    }

    /// Whether there is a text to add to the request of this iteration.
    pub(crate) fn has_guidance(&self, iteration: usize) -> bool {
        let requests = self.requests();
        match &requests.latest {
            Some((latest, text)) if *latest == iteration => text.is_some(),
            _ => !requests.pending.is_empty(),
        }
    }

    /// The text to add to the model request of this iteration of the loop; `None` if there is no
    /// message. A retry of the request gets the same text.
    pub(crate) fn guidance(&self, iteration: usize) -> Option<String> {
        let mut requests = self.requests();
        match &requests.latest {
            Some((latest, text)) if *latest == iteration => text.clone(),
            _ => {
                let text = Delivery::labelled_text(&std::mem::take(&mut requests.pending));
                requests.latest = Some((iteration, text.clone()));
                text
            }
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The messages for the agent that a report contains. Passes errors and faults to the function
    /// that the program set with `on_trouble`.
    fn checked(&self, report: Result<Report, TrajectoryError>) -> Vec<Delivery> {
        match report {
            Err(error) => {
                self.setup.report(&Trouble::Recording(error));
                Vec::new()
            }
            Ok(Report { outcome, step }) => {
                if let RecordOutcome::Dropped(error) = outcome {
                    self.setup.report(&Trouble::Recording(error));
                }
                for fault in step.faults {
                    self.setup.report(&Trouble::Fault(fault));
                }
                step.deliveries
            }
        }
    }
}

/// The decision point of a payload: the moment at which the agent can still get a message about
/// it. `None` if it cannot get one.
const fn decision_point(payload: &TrajectoryPayload) -> Option<DecisionPoint> {
    match payload {
        TrajectoryPayload::MessageAppended { message: AgentMessage::User { .. } } => {
            Some(DecisionPoint::PreRender)
        }
        TrajectoryPayload::TurnStarted => Some(DecisionPoint::PreToolSelection),
        TrajectoryPayload::ToolStarted { .. } => Some(DecisionPoint::PreToolExecution),
        _ => None,
    }
}
