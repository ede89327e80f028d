//! The plugin that clark-agent's loop calls, and how the plugin knows which run is the current one.
//!
//! When the loop calls a plugin, it does not say for which run, so one plugin serves one run at a
//! time. It can serve several runs one after the other; a child run, which runs at the same time as
//! its parent, gets a plugin of its own ([`Midcourse::child`]). The plugin never returns an error
//! to the loop: if something fails, results and messages stay as they were.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use clark_agent::plugin::AfterToolCallContext;
use clark_agent::{
    AfterToolCall, AfterToolDecision, AgentBuilder, AgentEvent, AgentMessage, ContextTransform,
    EventObserver, LoopError, Plugin, PluginCapabilities, TextContent, ToolResultBlock,
    TransformContext, UserContent,
};
use midcourse::{
    Engine, Monitor, OnFailure, RunIdentity, RunOutcome, TrajectoryError, TrajectoryPayload,
    TrajectorySink,
};

use crate::convert::{identity, payload_of};
use crate::guard::{guard, guard_all};
use crate::run::Run;
use crate::setup::Setup;
use crate::trouble::Trouble;

/// The plugin keeps an earlier run until the run's gap markers (records with the number of lost
/// events) are stored. It keeps at most this many such runs; if there are more, it gives up the
/// oldest.
const MAX_UNFLUSHED_RUNS: usize = 64;

/// Records the runs of a loop and adds messages to its tool results and requests.
pub struct Midcourse {
    setup: Setup,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    run: Option<Arc<Run>>,
    /// The run before the current one. If the loop starts again with the id of that run, the run
    /// continues.
    previous: Option<Arc<Run>>,
    /// Earlier runs whose gap markers may not be stored yet.
    unflushed: Vec<Arc<Run>>,
}

impl Midcourse {
    /// Records into a sink, with midcourse's default engine.
    pub fn new(sink: Arc<dyn TrajectorySink>) -> Self {
        Self::with_monitor(Monitor::with_sink(sink))
    }

    /// Records and analyses runs with this monitor. If the monitor has a store and the loop starts
    /// with the id of a stored run, that run continues.
    pub fn with_monitor(monitor: Monitor) -> Self {
        let monitor = monitor.host("clark-agent");
        Self::of(Setup { monitor, on_trouble: Arc::new(|_| {}) })
    }

    fn of(setup: Setup) -> Self {
        Self { setup, state: Mutex::default() }
    }

    /// Sets a function that makes the engine of each run, instead of midcourse's default engine.
    /// Its argument is the run's identity; `None` if the run has no identity when it starts.
    #[must_use]
    pub fn with_engine(
        mut self,
        make: impl Fn(Option<&RunIdentity>) -> Engine + Send + Sync + 'static,
    ) -> Self {
        self.setup.monitor = self.setup.monitor.engine(make);
        self
    }

    /// Sets what happens to an event that cannot be stored. A plugin cannot return an error to the
    /// loop, so with every setting the error goes to [`on_trouble`](Self::on_trouble).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.setup.monitor = self.setup.monitor.on_failure(on_failure);
        self
    }

    /// Sets a function that is called with each problem, for example to log it. By default problems
    /// are ignored.
    #[must_use]
    pub fn on_trouble(mut self, tell: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.setup.on_trouble = Arc::new(tell);
        self
    }

    /// A plugin for a child run: it has the same sink and settings, but its own state.
    pub fn child(&self) -> Self {
        Self::of(self.setup.clone())
    }

    /// Adds the plugin to a loop. Call this after all other plugins were added: a plugin that is
    /// added later could change or remove midcourse's messages.
    pub fn attach(self: &Arc<Self>, builder: AgentBuilder) -> AgentBuilder {
        builder
            .event_observer_arc(Arc::<Self>::clone(self))
            .after_tool_call_arc(Arc::<Self>::clone(self))
            .context_transform_arc(Arc::<Self>::clone(self))
    }

    /// Records that the current run ended with an error. The loop does not report errors to
    /// plugins, so the program has to call this with the error that the loop returned.
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
        guard_all(run.report(ended)).await;
    }

    /// Tries again to store the gap markers (records with the number of lost events) that the sink
    /// failed to store, of the current run and of earlier ones. Fails if the sink still does not
    /// work.
    pub async fn flush(&self) -> Result<(), TrajectoryError> {
        let (unflushed, current) = {
            let mut state = self.state();
            (std::mem::take(&mut state.unflushed), state.run.clone())
        };
        let mut result = Ok(());
        for run in unflushed {
            if let Err(error) = run.flush().await {
                result = Err(error);
                let mut state = self.state();
                if state.unflushed.len() >= MAX_UNFLUSHED_RUNS {
                    state.unflushed.remove(0);
                }
                state.unflushed.push(run);
            }
        }
        match current {
            Some(run) => run.flush().await.and(result),
            None => result,
        }
    }

    /// Called when the loop starts: the current run becomes the previous one. The new run is
    /// created with the next event, which may contain its identity.
    async fn start(&self) {
        {
            let mut state = self.state();
            state.previous = state.run.take();
            let previous = state.previous.clone();
            state.unflushed.extend(previous);
        }
        // If a gap marker still cannot be stored, the plugin tries again when the next run starts.
        let _ = self.flush().await;
    }

    async fn identify(&self, identity: RunIdentity) {
        let (run, previous) = {
            let state = self.state();
            (state.run.clone(), state.previous.clone())
        };
        let is_same = |run: &Arc<Run>| run.run_id() == Some(&identity.run_id);
        let run = match run.filter(|run| run.run_id().is_none()) {
            Some(unnamed) => unnamed,
            None => Arc::new(match previous.filter(is_same) {
                Some(previous) => Run::restarted(&self.setup, &previous).await,
                None => Run::new(&self.setup, Some(&identity)),
            }),
        };
        self.state().run = Some(Arc::clone(&run));
        run.begin(identity).await;
    }

    async fn observe(&self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart => self.start().await,
            AgentEvent::RunIdentified { identity: run } => self.identify(identity(run)).await,
            other => {
                let Some(payload) = payload_of(other) else { return };
                self.run().report(payload).await;
            }
        }
    }

    /// The current run. If there is none, creates a run without an id; `identify` can set the id.
    fn run(&self) -> Arc<Run> {
        if let Some(run) = &self.state().run {
            return Arc::clone(run);
        }
        let unnamed = Arc::new(Run::new(&self.setup, None));
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
            // If a child run shared this plugin, the plugin could not tell the calls of the child
            // from those of the parent.
            inheritable_to_child: false,
            ..PluginCapabilities::default()
        }
    }
}

#[async_trait]
impl EventObserver for Midcourse {
    async fn on_event(&self, event: &AgentEvent) {
        guard_all(self.observe(event)).await;
    }
}

#[async_trait]
impl AfterToolCall for Midcourse {
    async fn on_after_tool_call(&self, ctx: AfterToolCallContext<'_>) -> AfterToolDecision {
        let step =
            async { self.run().tool_returned(ctx.tool_call, ctx.result, ctx.is_error).await };
        let Some(text) = guard_all(step).await.flatten() else {
            return AfterToolDecision::passthrough();
        };
        let mut result = ctx.result.clone();
        // Some transports join the text blocks of a result without a separator, so the message
        // begins with an empty line.
        let follows_text = matches!(result.content.last(), Some(ToolResultBlock::Text(text)) if !text.text.is_empty());
        let text = if follows_text { format!("\n\n{text}") } else { text };
        result.content.push(ToolResultBlock::Text(TextContent { text }));
        AfterToolDecision {
            result: Some(result),
            // Keeps the error flag of the tool's own result. With `None`, the loop would decide
            // again whether the changed result is an error.
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
        if let Some(text) = guard(|| self.run().guidance(cx.iteration)).flatten() {
            // Every transport keeps a user message in its place. A system message may be moved to
            // the front, and other kinds may be dropped.
            messages.push(AgentMessage::User { content: UserContent::Text(text), timestamp: None });
        }
        messages
    }
}
