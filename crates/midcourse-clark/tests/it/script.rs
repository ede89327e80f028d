//! Test fixtures: a scripted model, a few tools, and a store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clark_agent::stream::StreamErrorKind;
use clark_agent::{
    AgentBuilder, AgentContext, AgentEvent, AgentMessage, AgentTool, AssistantContent, EventSink,
    LoopError, RunIdentity, RunResult, StopReason, StreamEvent, StreamFn, StreamRequest, ToolCall,
    ToolError, ToolRegistry, ToolResult, ToolResultBlock, ToolUpdateSink, UserContent,
};
use futures::stream::{self, BoxStream, StreamExt};
use midcourse::{DataDir, Store, StoreSettings, StoreWriter};
use midcourse::{TrajectoryPayload, TrajectoryRecord};
use midcourse_clark::Midcourse;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) const LABEL: &str = "[midcourse run monitor]";

/// A scripted reply of the model.
#[derive(Clone)]
pub(crate) enum Reply {
    Says(AgentMessage),
    Fails(StreamErrorKind),
}

/// A scripted model that keeps its requests.
pub(crate) struct Model {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<StreamRequest>>,
}

impl Model {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { replies, requests: Mutex::default() })
    }

    /// The messages of each request, without timestamps.
    pub(crate) fn requests(&self) -> Vec<Vec<AgentMessage>> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|request| without_times(&request.messages)).collect()
    }
}

#[async_trait]
impl StreamFn for Model {
    async fn stream(
        &self,
        request: StreamRequest,
        _: CancellationToken,
    ) -> BoxStream<'static, StreamEvent> {
        self.requests.lock().unwrap().push(request);
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or_else(|| says("done"));
        let partial = message(AssistantContent { blocks: Vec::new() }, StopReason::Other);
        let last = match reply {
            Reply::Says(message) => StreamEvent::Done { message },
            Reply::Fails(kind) => {
                StreamEvent::Error { partial: partial.clone(), kind, message: "no".into() }
            }
        };
        stream::iter([StreamEvent::Start { partial }, last]).boxed()
    }
}

fn message(content: AssistantContent, stop_reason: StopReason) -> AgentMessage {
    let usage = clark_agent::types::Usage { input_tokens: 7, ..Default::default() };
    AgentMessage::Assistant {
        content,
        stop_reason,
        error_message: None,
        timestamp: Some(1),
        usage: Some(usage),
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::Says(message(AssistantContent::text(text), StopReason::EndTurn))
}

pub(crate) fn cut_off(text: &str) -> Reply {
    Reply::Says(message(AssistantContent::text(text), StopReason::MaxTokens))
}

/// A response with tool calls: id, name and arguments of each.
pub(crate) fn calls<const N: usize>(calls: [(&str, &str, Value); N]) -> Reply {
    let calls =
        calls.map(|(id, name, arguments)| ToolCall { id: id.into(), name: name.into(), arguments });
    let content = AssistantContent::with_tool_calls(None, calls.into());
    Reply::Says(message(content, StopReason::ToolUse))
}

/// Responses for `times` equal calls that fail, and a final response.
pub(crate) fn failing_loop(times: usize) -> Vec<Reply> {
    let call = |n| calls([(format!("c{n}").as_str(), "make", json!({"command": "make"}))]);
    (1..=times).map(call).chain([says("I give up.")]).collect()
}

/// A tool that calls `act` with its arguments. The argument `wait_ms` delays the result.
struct Tool {
    name: &'static str,
    act: fn(&Value) -> Result<ToolResult, ToolError>,
}

#[async_trait]
impl AgentTool for Tool {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "a tool"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(
        &self,
        _: &str,
        args: Value,
        _: CancellationToken,
        update: ToolUpdateSink,
    ) -> Result<ToolResult, ToolError> {
        update.send(ToolResult::text("at it")).unwrap();
        let wait = args.get("wait_ms").and_then(Value::as_u64).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        (self.act)(&args)
    }
}

pub(crate) fn tools() -> ToolRegistry {
    let tool = |name, act| Arc::new(Tool { name, act });
    ToolRegistry::new()
        .with(tool("make", |_| {
            let mut result = ToolResult::error("make: *** No rule to make target 'all'.  Stop.");
            result.details = json!({"exit": 2});
            Ok(result)
        }))
        .with(tool("read", |args| Ok(ToolResult::text(format!("contents of {args}")))))
        .with(tool("touch", |_| {
            let mut result = ToolResult::text("");
            result.content.clear();
            Ok(result.with_narration("Touched it."))
        }))
        .with(tool("break", |_| Err(ToolError::Execution("it broke".into()))))
        .with(tool("ruin", |_| Err(ToolError::Fatal("it is ruined".into()))))
        .with(tool("deliver", |_| Ok(ToolResult::terminal("The answer is 4."))))
}

/// Keeps the events of the loop.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<AgentEvent>>);

impl Heard {
    /// The payloads of the events, in order.
    pub(crate) fn payloads(&self) -> Vec<TrajectoryPayload> {
        self.0.lock().unwrap().iter().filter_map(midcourse_clark::payload_of).collect()
    }
}

#[async_trait]
impl EventSink for Heard {
    async fn emit(&self, event: AgentEvent) {
        self.0.lock().unwrap().push(event);
    }
}

pub(crate) fn builder(model: &Arc<Model>) -> AgentBuilder {
    AgentBuilder::new().stream(Arc::<Model>::clone(model)).tools(tools()).model_id("scripted")
}

pub(crate) fn user(text: &str) -> AgentMessage {
    AgentMessage::User { content: UserContent::Text(text.into()), timestamp: Some(1) }
}

pub(crate) fn identity(id: &str) -> RunIdentity {
    RunIdentity::root().with_run_id(id)
}

/// Runs the loop with the prompt "Fix the build.".
pub(crate) async fn run(
    builder: AgentBuilder,
    identity: impl Into<Option<RunIdentity>>,
) -> Result<RunResult, LoopError> {
    let config = builder.build().unwrap();
    let mut context = AgentContext::new("You fix builds.");
    context.identity = identity.into();
    clark_agent::run(vec![user("Fix the build.")], context, &config, CancellationToken::new()).await
}

/// A store in a temporary folder.
pub(crate) struct Shelf {
    pub(crate) folder: TempDir,
    pub(crate) writer: Arc<StoreWriter>,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = DataDir::at(folder.path());
        let writer = Arc::new(StoreWriter::open(&home, StoreSettings::default()).unwrap());
        Self { folder, writer }
    }

    pub(crate) fn plugin(&self) -> Midcourse {
        Midcourse::new(Arc::<StoreWriter>::clone(&self.writer))
    }

    pub(crate) fn store(&self) -> Store {
        Store::open_read_only(&DataDir::at(self.folder.path())).unwrap().unwrap()
    }

    /// The records of a run, after a check that the store is sound.
    pub(crate) fn records(&self, run: &str) -> Vec<TrajectoryRecord> {
        let store = self.store();
        assert_eq!(store.verify_run(&run.into()).unwrap(), []);
        let records = store.trajectory(run).unwrap();
        for (seq, record) in (0..).zip(&records) {
            assert_eq!(record.seq, seq);
            assert_eq!(record.run_id.as_ref().unwrap().as_str(), run);
        }
        // No event is reported twice with different content, except the start of a continued run
        // (seq 0).
        for stored in store.records(run, 1, usize::MAX).unwrap() {
            assert_eq!(stored.conflicts, [] as [Value; 0]);
        }
        records
    }
}

pub(crate) fn payloads(records: &[TrajectoryRecord]) -> Vec<&TrajectoryPayload> {
    records.iter().map(|record| &record.payload).collect()
}

pub(crate) fn kinds(records: &[TrajectoryRecord]) -> Vec<&'static str> {
    records.iter().map(|record| record.payload.kind()).collect()
}

pub(crate) fn without_times(messages: &[AgentMessage]) -> Vec<AgentMessage> {
    let mut messages = messages.to_vec();
    for message in &mut messages {
        match message {
            AgentMessage::System { timestamp, .. }
            | AgentMessage::User { timestamp, .. }
            | AgentMessage::Assistant { timestamp, .. }
            | AgentMessage::ToolResult { timestamp, .. }
            | AgentMessage::Custom { timestamp, .. } => *timestamp = None,
        }
    }
    messages
}

/// The text that midcourse added to a message, if any.
pub(crate) fn message_text(message: &AgentMessage) -> Option<String> {
    match message {
        AgentMessage::User { content: UserContent::Text(text), .. } => {
            text.starts_with(LABEL).then(|| text.clone())
        }
        AgentMessage::ToolResult { content, .. } => match content.blocks.last() {
            Some(ToolResultBlock::Text(text)) => {
                text.text.trim_start().starts_with(LABEL).then(|| text.text.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The messages without the text that midcourse added.
pub(crate) fn without_messages(messages: &[AgentMessage]) -> Vec<AgentMessage> {
    let mut left = Vec::new();
    for message in messages {
        let said = message_text(message).is_some();
        let mut message = message.clone();
        match &mut message {
            AgentMessage::User { .. } if said => continue,
            AgentMessage::ToolResult { content, .. } if said => {
                content.blocks.pop();
            }
            _ => {}
        }
        left.push(message);
    }
    left
}
