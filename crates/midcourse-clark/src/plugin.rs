//! The plugin: what the loop calls, and which run it is about.
//!
//! The loop's hooks do not say which run they belong to, so one plugin serves one run at a time:
//! runs may follow each other, and a child run gets a plugin of its own ([`Midcourse::child`]).
//! Nothing here can fail for the loop: whatever goes wrong leaves results and messages as they were.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use clark_agent::plugin::AfterToolCallContext;
use clark_agent::{
    AfterToolCall, AfterToolDecision, AgentBuilder, AgentEvent, AgentMessage, ContextTransform,
    EventObserver, LoopError, Plugin, PluginCapabilities, TextContent, ToolResultBlock,
    TransformContext, UserContent,
};
use midcourse::{OnFailure, TrajectoryError, TrajectoryRecorder, TrajectorySink};
use midcourse_core::{Budget, Engine, RunIdentity, RunOutcome, TrajectoryPayload};

use crate::convert::{identity, payload_of};
use crate::guard::{guard, guard_all};
use crate::run::Run;
use crate::trouble::Trouble;

/// Runs that still owe the store their gap markers; beyond it the oldest is forgotten.
const OWING_MAX: usize = 64;

type MakeEngine = dyn Fn(Option<&RunIdentity>) -> Engine + Send + Sync;

/// What the plugins of a run and its children share.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) sink: Arc<dyn TrajectorySink>,
    pub(crate) on_failure: OnFailure,
    make_engine: Arc<MakeEngine>,
    on_trouble: Arc<dyn Fn(&Trouble) + Send + Sync>,
}

impl Setup {
    pub(crate) fn report(&self, trouble: &Trouble) {
        // Nobody is left to be told that this failed.
        let _ = guard(|| (self.on_trouble)(trouble));
    }

    fn run(&self, identity: Option<&RunIdentity>) -> Run {
        Run::new(self, guard(|| (self.make_engine)(identity)))
    }
}

/// Records the runs of a loop and says a short useful thing in time.
pub struct Midcourse {
    setup: Setup,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    run: Option<Arc<Run>>,
    /// The run before, which the loop may be started on once more.
    before: Option<Arc<Run>>,
    owing: Vec<Arc<TrajectoryRecorder>>,
}

impl Midcourse {
    /// Records into a sink and watches as midcourse ships.
    pub fn new(sink: Arc<dyn TrajectorySink>) -> Self {
        Self::of(Setup {
            sink,
            on_failure: OnFailure::default(),
            make_engine: Arc::new(|_| Engine::shipped(Budget::default())),
            on_trouble: Arc::new(|_| {}),
        })
    }

    fn of(setup: Setup) -> Self {
        Self { setup, state: Mutex::default() }
    }

    /// The same with other engines. Each run gets one; the identity is that of the run, if it has
    /// one. For a run that is in the store already, the engine may have been shown its records.
    #[must_use]
    pub fn with_engine(
        mut self,
        make: impl Fn(Option<&RunIdentity>) -> Engine + Send + Sync + 'static,
    ) -> Self {
        self.setup.make_engine = Arc::new(make);
        self
    }

    /// The same with another policy for events that the sink does not take. The loop has no ear for
    /// errors: those that escalate are told to [`on_trouble`](Self::on_trouble).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.setup.on_failure = on_failure;
        self
    }

    /// The same, telling somebody what went wrong: to log it, or to cancel the run.
    #[must_use]
    pub fn on_trouble(mut self, tell: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.setup.on_trouble = Arc::new(tell);
        self
    }

    /// A plugin for a child run: into the same sink, with a state of its own.
    pub fn child(&self) -> Self {
        Self::of(self.setup.clone())
    }

    /// Puts the plugin into a loop. Behind the other plugins is its place: hooks that come later
    /// may change or drop what it said.
    pub fn attach(self: &Arc<Self>, builder: AgentBuilder) -> AgentBuilder {
        builder
            .event_observer_arc(Arc::<Self>::clone(self))
            .after_tool_call_arc(Arc::<Self>::clone(self))
            .context_transform_arc(Arc::<Self>::clone(self))
    }

    /// Records that the run ended with an error, of which the loop tells its caller only.
    pub async fn failed(&self, error: &LoopError) {
        let run = self.state().run.clone();
        let Some(run) = run.filter(|run| !run.has_ended()) else { return };
        let outcome = match error {
            LoopError::Aborted => RunOutcome::Aborted,
            LoopError::Stream(_)
            | LoopError::ToolFatal { .. }
            | LoopError::InvalidContinuation(_) => RunOutcome::Failed,
        };
        let ended = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
        guard_all(run.take(ended)).await;
    }

    /// Writes what is still owed to the store, if it works again: how much is missing, and where.
    pub async fn flush(&self) -> Result<(), TrajectoryError> {
        let (owing, current) = {
            let mut state = self.state();
            let current = state.run.as_ref().map(|run| run.recorder());
            (std::mem::take(&mut state.owing), current)
        };
        let mut result = Ok(());
        for recorder in owing {
            if let Err(error) = recorder.flush().await {
                result = Err(error);
                let mut state = self.state();
                if state.owing.len() >= OWING_MAX {
                    state.owing.remove(0);
                }
                state.owing.push(recorder);
            }
        }
        match current {
            Some(recorder) => recorder.flush().await.and(result),
            None => result,
        }
    }

    /// The loop begins. Whose run it is comes next, if it is known at all.
    async fn start(&self) {
        {
            let mut state = self.state();
            state.before = state.run.take();
            let owing = state.before.as_ref().map(|run| run.recorder());
            state.owing.extend(owing);
        }
        // What cannot be written now is tried again with the next run.
        let _ = self.flush().await;
    }

    async fn identify(&self, identity: RunIdentity) {
        let (run, before) = {
            let state = self.state();
            (state.run.clone(), state.before.clone())
        };
        let is_same = |run: &Arc<Run>| run.run_id() == Some(&identity.run_id);
        let run = match run.filter(|run| run.run_id().is_none()) {
            Some(unnamed) => unnamed,
            None => Arc::new(match before.filter(is_same) {
                Some(before) => Run::going_on(&self.setup, &before).await,
                None => self.setup.run(Some(&identity)),
            }),
        };
        self.state().run = Some(Arc::clone(&run));
        run.begin(identity).await;
    }

    async fn take(&self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart => self.start().await,
            AgentEvent::RunIdentified { identity: run } => self.identify(identity(run)).await,
            other => {
                let Some(payload) = payload_of(other) else { return };
                self.run().take(payload).await;
            }
        }
    }

    /// The run that the loop is at; one without a name until it is identified.
    fn run(&self) -> Arc<Run> {
        if let Some(run) = &self.state().run {
            return Arc::clone(run);
        }
        let unnamed = Arc::new(self.setup.run(None));
        Arc::clone(self.state().run.get_or_insert(unnamed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plugin for Midcourse {
    fn name(&self) -> &'static str {
        "midcourse"
    }

    fn capabilities(&self) -> PluginCapabilities {
        PluginCapabilities {
            after_tool_call: true,
            context_transform: true,
            event_observer: true,
            // A child's hooks could not be told from its parent's.
            inheritable_to_child: false,
            ..PluginCapabilities::default()
        }
    }
}

#[async_trait]
impl EventObserver for Midcourse {
    async fn on_event(&self, event: &AgentEvent) {
        guard_all(self.take(event)).await;
    }
}

#[async_trait]
impl AfterToolCall for Midcourse {
    async fn on_after_tool_call(&self, ctx: AfterToolCallContext<'_>) -> AfterToolDecision {
        let step = async { self.run().give_back(ctx.tool_call, ctx.result, ctx.is_error).await };
        let Some(words) = guard_all(step).await.flatten() else {
            return AfterToolDecision::passthrough();
        };
        let mut result = ctx.result.clone();
        // Some transports join the blocks of a result with nothing in between.
        let is_behind_text = matches!(result.content.last(), Some(ToolResultBlock::Text(text)) if !text.text.is_empty());
        let text = if is_behind_text { format!("\n\n{words}") } else { words };
        result.content.push(ToolResultBlock::Text(TextContent { text }));
        AfterToolDecision {
            result: Some(result),
            // The loop takes a new result's own mark for its verdict; this keeps the one it had.
            mark_error: Some(ctx.is_error),
            terminate: None,
        }
    }
}

#[async_trait]
impl ContextTransform for Midcourse {
    fn should_run(&self, _: &[AgentMessage], cx: &TransformContext<'_>) -> bool {
        guard(|| self.run().has_guidance(cx.iteration)).unwrap_or(false)
    }

    async fn transform(
        &self,
        mut messages: Vec<AgentMessage>,
        cx: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        let step = async { self.run().guidance(cx.iteration).await };
        if let Some(words) = guard_all(step).await.flatten() {
            // Every transport keeps a user's message in its place, as it does with steering; a
            // system message may be moved to the front, and one of another kind dropped.
            messages
                .push(AgentMessage::User { content: UserContent::Text(words), timestamp: None });
        }
        messages
    }
}
