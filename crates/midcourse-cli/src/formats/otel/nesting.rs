//! Finds the tool call that started a subagent, so that the subagent's span can be nested in it.
//!
//! Records name the parent run of a subagent, but not the call. A call whose arguments contain the
//! subagent's task started it; otherwise the latest call that was open when the subagent began.

use serde_json::Value;

use super::ids::SpanId;

/// How much later a subagent's first record may be than the end of its call. Clocks of two processes
/// are compared here.
const SLACK_MS: u64 = 2_000;

/// The fewest characters of a task that identify it in the arguments of a call.
const MIN_TASK_CHARS: usize = 12;

/// A run that the exported run started.
#[derive(Debug, Clone)]
pub(crate) struct Subagent {
    pub(crate) run_id: String,
    pub(crate) started_ms: u64,
    /// The beginning of its task, on one line.
    pub(crate) task: Option<String>,
}

/// The calls of a run that may have started one of its subagents.
#[derive(Default)]
pub(super) struct Nesting {
    subagents: Vec<Subagent>,
    calls: Vec<Call>,
}

struct Call {
    span_id: SpanId,
    start_ms: u64,
    end_ms: Option<u64>,
    /// The subagent whose task is in the arguments.
    subagent: Option<usize>,
}

impl Nesting {
    pub(super) fn new(subagents: Vec<Subagent>) -> Self {
        Self { subagents, calls: Vec::new() }
    }

    pub(super) fn call_started(&mut self, span_id: SpanId, at_ms: u64, arguments: Option<&Value>) {
        if self.subagents.is_empty() {
            return;
        }
        let taken: Vec<_> = self.calls.iter().filter_map(|call| call.subagent).collect();
        let subagent = arguments.and_then(|arguments| {
            let mut found = self.subagents.iter().enumerate();
            found.position(|(at, subagent)| {
                !taken.contains(&at)
                    && subagent.task.as_deref().is_some_and(|task| has_task(arguments, task))
            })
        });
        self.calls.push(Call { span_id, start_ms: at_ms, end_ms: None, subagent });
    }

    pub(super) fn call_ended(&mut self, span_id: SpanId, at_ms: u64) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.span_id == span_id) {
            call.end_ms = Some(at_ms);
        }
    }

    /// The span of the call that started this subagent.
    pub(super) fn call_of(&self, run_id: &str) -> Option<SpanId> {
        let at = self.subagents.iter().position(|subagent| subagent.run_id == run_id)?;
        let started = self.subagents.get(at)?.started_ms;
        let named = self.calls.iter().rev().find(|call| call.subagent == Some(at));
        let open = || {
            self.calls.iter().rev().find(|call| {
                call.subagent.is_none()
                    && call.start_ms <= started
                    && call.end_ms.is_none_or(|end| started <= end.saturating_add(SLACK_MS))
            })
        };
        named.or_else(open).map(|call| call.span_id)
    }
}

/// Whether one of the arguments begins with the task.
fn has_task(arguments: &Value, task: &str) -> bool {
    let task = task.trim_end_matches('…').trim_end();
    let is_task = |text: &Value| {
        let words = text.as_str().map(|text| text.split_whitespace().take(60));
        words.is_some_and(|words| words.collect::<Vec<_>>().join(" ").starts_with(task))
    };
    task.chars().count() >= MIN_TASK_CHARS
        && arguments.as_object().is_some_and(|arguments| arguments.values().any(is_task))
}
