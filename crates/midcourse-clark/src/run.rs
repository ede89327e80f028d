//! One run: its records, its engine and what is said in it.
//!
//! Tools of one batch return at the same time, so each report of the loop is one step: it is recorded
//! with what follows from it before the next one is. Only what is on record is said: the record of a
//! delivery is stored before the words go to the model.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clark_agent::{ToolCall, ToolResult};
use midcourse::{RecordOutcome, Recorded, Source, TrajectoryError, TrajectoryRecorder, now};
use midcourse_core::{
    Asked, Delivery, Engine, RunId, RunIdentity, TrajectoryPayload, format_guidance, labelled,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::calls::Calls;
use crate::convert::tool_result;
use crate::plugin::Setup;
use crate::trouble::Trouble;
use crate::watched::Watched;

/// A run that is recorded and watched.
pub(crate) struct Run {
    setup: Setup,
    run_id: OnceLock<RunId>,
    recorder: Arc<TrajectoryRecorder>,
    watched: Arc<Watched>,
    /// Held for a whole step.
    calls: AsyncMutex<Calls>,
    request: Mutex<Option<Request>>,
    has_ended: AtomicBool,
}

/// A request for the model. The loop puts one together anew for each attempt; the words stay.
struct Request {
    iteration: usize,
    words: Option<String>,
}

impl Run {
    pub(crate) fn new(setup: &Setup, engine: Option<Engine>) -> Self {
        Self::with_calls(setup, engine, Calls::default())
    }

    /// The same run, when the loop is started on it once more.
    pub(crate) async fn going_on(setup: &Setup, before: &Self) -> Self {
        let mut calls = std::mem::take(&mut *before.calls.lock().await);
        calls.break_off();
        Self::with_calls(setup, before.watched.hand_over(), calls)
    }

    fn with_calls(setup: &Setup, engine: Option<Engine>, calls: Calls) -> Self {
        let watched = Arc::new(Watched::new(Arc::clone(&setup.sink), engine));
        let source = Source::new("clark-agent", "plugin");
        let recorder = TrajectoryRecorder::new(Arc::<Watched>::clone(&watched), source)
            .on_failure(setup.on_failure);
        Self {
            setup: setup.clone(),
            run_id: OnceLock::new(),
            recorder: Arc::new(recorder),
            watched,
            calls: AsyncMutex::new(calls),
            request: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn run_id(&self) -> Option<&RunId> {
        self.run_id.get()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// What writes the markers of its gaps.
    pub(crate) fn recorder(&self) -> Arc<TrajectoryRecorder> {
        Arc::clone(&self.recorder)
    }

    /// The run is known from here on.
    pub(crate) async fn begin(&self, identity: RunIdentity) {
        let _step = self.calls.lock().await;
        // It is set once: a run that is known gets no other identity.
        let _ = self.run_id.set(identity.run_id.clone());
        self.note(self.recorder.begin(identity).await);
        self.record_due().await;
    }

    /// The loop reports something.
    pub(crate) async fn take(&self, mut payload: TrajectoryPayload) {
        let mut calls = self.calls.lock().await;
        if matches!(payload, TrajectoryPayload::RunEnded { .. }) {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        if calls.tell_apart(&mut payload) {
            self.record(payload).await;
        }
    }

    /// A tool has returned, or a call was refused; returns what is to be said behind the result.
    ///
    /// This is where the tool's own result is recorded: the loop's own event comes later, with our
    /// words in it. A result that asks for the end of the run is for its user and stays as it is.
    pub(crate) async fn give_back(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        is_error: bool,
    ) -> Option<String> {
        let mut calls = self.calls.lock().await;
        let id = calls.give_back(&call.id);
        let ended = TrajectoryPayload::ToolEnded {
            tool_call_id: id.clone(),
            tool_name: (&call.name).into(),
            result: tool_result(result),
            is_error,
        };
        let recorded = self.record(ended).await?;
        if result.terminate {
            return None;
        }
        let mut said = Vec::new();
        for piece in self.watched.feedback(recorded.record.at()) {
            let tool_call_id = Some(id.clone());
            if self.tell(Delivery::Feedback { feedback: piece.clone(), tool_call_id }).await {
                said.push(piece);
            }
        }
        self.report_faults();
        let text = Asked { said, faults: Vec::new() }.text()?;
        Some(labelled(&text))
    }

    /// Whether something is to be said in a request.
    pub(crate) fn has_guidance(&self, iteration: usize) -> bool {
        if let Some(words) = self.decided(iteration) {
            return words.is_some();
        }
        let has_words = !self.watched.guidance(now()).is_empty();
        if !has_words {
            self.decide(iteration, None);
            self.report_faults();
        }
        has_words
    }

    /// What is to be said in a request: the same at each attempt, and counted once.
    pub(crate) async fn guidance(&self, iteration: usize) -> Option<String> {
        let _step = self.calls.lock().await;
        if let Some(words) = self.decided(iteration) {
            return words;
        }
        let mut said = Vec::new();
        for piece in self.watched.guidance(now()) {
            if self.tell(piece.clone().into()).await {
                said.push(piece.injection);
            }
        }
        self.report_faults();
        let text = format_guidance(&said);
        let words = (!text.is_empty()).then(|| labelled(&text));
        self.decide(iteration, words.clone());
        words
    }

    /// What was decided about a request, if anything was.
    fn decided(&self, iteration: usize) -> Option<Option<String>> {
        let request = self.request();
        request.as_ref().filter(|it| it.iteration == iteration).map(|it| it.words.clone())
    }

    fn decide(&self, iteration: usize, words: Option<String>) {
        *self.request() = Some(Request { iteration, words });
    }

    fn request(&self) -> MutexGuard<'_, Option<Request>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a delivery; whether the words may go to the model.
    async fn tell(&self, delivery: Delivery) -> bool {
        let Some(payload) = self.watched.delivered(delivery) else { return false };
        let is_shadow = matches!(
            payload,
            TrajectoryPayload::FeedbackDelivered { shadow: true, .. }
                | TrajectoryPayload::GuidanceDelivered { shadow: true, .. }
        );
        self.record(payload).await.is_some() && !is_shadow
    }

    /// Records a fact and what follows from it. The step is the caller's.
    async fn record(&self, payload: TrajectoryPayload) -> Option<Recorded> {
        let recorded = self.note(self.recorder.record(payload).await);
        self.record_due().await;
        recorded
    }

    async fn record_due(&self) {
        loop {
            let due = self.watched.take_due();
            if due.is_empty() {
                return self.report_faults();
            }
            for payload in due {
                self.note(self.recorder.record(payload).await);
            }
        }
    }

    fn note(&self, recorded: Result<RecordOutcome, TrajectoryError>) -> Option<Recorded> {
        match recorded {
            Ok(RecordOutcome::Dropped(error)) | Err(error) => {
                self.setup.report(&Trouble::Recording(error));
                None
            }
            Ok(outcome) => outcome.recorded(),
        }
    }

    fn report_faults(&self) {
        for fault in self.watched.take_faults() {
            self.setup.report(&Trouble::Fault(fault));
        }
    }
}
