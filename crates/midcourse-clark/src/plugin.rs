//! The plugin that the loop calls, and how it knows the current run.
//!
//! The loop's hooks do not say which run they belong to, so one plugin serves one run at a time. Runs
//! may follow each other; a child run gets a plugin of its own ([`Midcourse::child`]). Nothing here
//! fails for the loop: on any error, results and messages stay as they were.

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

/// The most earlier runs that are kept because their gap markers are not written yet. If there are
/// more, the oldest is given up.
const MAX_UNFLUSHED_RUNS: usize = 64;

/// Records the runs of a loop and adds messages to its tool results and requests.
pub struct Midcourse {
    setup: Setup,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    run: Option<Arc<Run>>,
    /// The previous run, which continues if the loop starts again with the same run id.
    previous: Option<Arc<Run>>,
    unflushed: Vec<Arc<Run>>,
}

impl Midcourse {
    /// Records into a sink, with midcourse's default engine.
    pub fn new(sink: Arc<dyn TrajectorySink>) -> Self {
        Self::with_monitor(Monitor::with_sink(sink))
    }

    /// Records with a monitor. If the monitor has a store, stored runs are continued.
    pub fn with_monitor(monitor: Monitor) -> Self {
        let monitor = monitor.host("clark-agent");
        Self::of(Setup { monitor, on_trouble: Arc::new(|_| {}) })
    }

    fn of(setup: Setup) -> Self {
        Self { setup, state: Mutex::default() }
    }

    /// Sets a function that makes the engine of each run. It gets the run's identity; `None` if the
    /// run has none when it starts.
    #[must_use]
    pub fn with_engine(
        mut self,
        make: impl Fn(Option<&RunIdentity>) -> Engine + Send + Sync + 'static,
    ) -> Self {
        self.setup.monitor = self.setup.monitor.engine(make);
        self
    }

    /// Sets what happens to events that the sink does not take. The loop takes no errors from its
    /// plugins: dropped and escalated events are both passed to [`on_trouble`](Self::on_trouble).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.setup.monitor = self.setup.monitor.on_failure(on_failure);
        self
    }

    /// Sets a function that is called with everything that goes wrong, for example to log it.
    #[must_use]
    pub fn on_trouble(mut self, tell: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.setup.on_trouble = Arc::new(tell);
        self
    }

    /// A plugin for a child run: it has the same sink and settings, but its own state.
    pub fn child(&self) -> Self {
        Self::of(self.setup.clone())
    }

    /// Adds the plugin to a loop. Add it last: later plugins may change or drop its messages.
    pub fn attach(self: &Arc<Self>, builder: AgentBuilder) -> AgentBuilder {
        builder
            .event_observer_arc(Arc::<Self>::clone(self))
            .after_tool_call_arc(Arc::<Self>::clone(self))
            .context_transform_arc(Arc::<Self>::clone(self))
    }

    /// Records that the run ended with an error. Call it with the error that the loop returned: the
    /// loop does not report errors to plugins.
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

    /// Writes the gap markers of this and earlier runs, if the sink works again.
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

    /// Called when the loop starts. A later event may give the new run its identity.
    async fn start(&self) {
        {
            let mut state = self.state();
            state.previous = state.run.take();
            let previous = state.previous.clone();
            state.unflushed.extend(previous);
        }
        // A gap marker that cannot be written now is tried again with the next run.
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

    /// The current run; it has no id until it is identified.
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
            // A child run needs a plugin of its own: in a shared one, its calls could not be told
            // from its parent's.
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
        // Some transports join the blocks of a result without a separator.
        let follows_text = matches!(result.content.last(), Some(ToolResultBlock::Text(text)) if !text.text.is_empty());
        let text = if follows_text { format!("\n\n{text}") } else { text };
        result.content.push(ToolResultBlock::Text(TextContent { text }));
        AfterToolDecision {
            result: Some(result),
            // Without this, the loop would decide again whether the changed result is an error.
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
            // Every transport keeps a user message in its place. A system message may be moved to the
            // front, and other kinds may be dropped.
            messages.push(AgentMessage::User { content: UserContent::Text(text), timestamp: None });
        }
        messages
    }
}
