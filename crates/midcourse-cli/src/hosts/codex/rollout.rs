//! The end of a session's file as Codex writes it: one JSON object a line, the first perhaps torn.

use midcourse::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

/// Calls that are taken from a file at a time.
const CALLS_MAX: usize = 32;

/// The last lines of a rollout, oldest first.
pub(super) struct Rollout {
    lines: Vec<ItemWire>,
}

/// A call and its output.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) args: Value,
    pub(super) output: Value,
}

#[derive(Deserialize)]
struct LineWire {
    payload: ItemWire,
}

#[derive(Deserialize)]
struct ItemWire {
    #[serde(rename = "type", default)]
    kind: String,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    output: Option<Value>,
    item: Option<DoneWire>,
    response_id: Option<String>,
    usage: Option<UsageWire>,
}

#[derive(Deserialize)]
struct UsageWire {
    #[serde(default)]
    input_tokens: i64,
    /// Those of them that came from the cache.
    #[serde(default)]
    cached_input_tokens: i64,
    #[serde(default)]
    output_tokens: i64,
}

#[derive(Deserialize)]
struct DoneWire {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    id: String,
    exit_code: Option<i64>,
    status: Option<String>,
}

impl Rollout {
    pub(super) fn read(end: &[u8]) -> Self {
        let line = |line: &[u8]| serde_json::from_slice(line).ok();
        let lines = end.split(|byte| *byte == b'\n').filter_map(line);
        Self { lines: lines.map(|LineWire { payload }| payload).collect() }
    }

    /// The tokens of each answer of the model, by the answer's id.
    pub(super) fn usage(&self) -> Vec<(String, Usage)> {
        let answer = |line: &ItemWire| {
            let usage = line.usage.as_ref()?;
            let cached = usage.cached_input_tokens.clamp(0, usage.input_tokens.max(0));
            Some(Usage {
                input_tokens: usage.input_tokens.saturating_sub(cached),
                output_tokens: usage.output_tokens,
                cache_read_input_tokens: cached,
                ..Usage::default()
            })
        };
        let lines = self.lines.iter();
        lines.filter_map(|line| Some((line.response_id.clone()?, answer(line)?))).collect()
    }

    /// How a command exited.
    pub(super) fn exit_of(&self, call: &str) -> Option<i64> {
        let done = self.lines.iter().rev().filter_map(|line| line.item.as_ref());
        let item = done.into_iter().find(|item| item.id == call)?;
        item.exit_code.or(match item.status.as_deref() {
            Some("completed") => Some(0),
            Some("failed" | "declined") => Some(1),
            _ => None,
        })
    }

    /// The calls with an output that no hook told the end of, since the latest round in which one
    /// did or since the person's latest word, oldest first.
    ///
    /// What ran stands in the file as an item that is completed, and has its hook. A patch that does
    /// not apply, a tool that does not exist and a command that goes on in the background do not.
    pub(super) fn calls_untold(&self) -> Vec<Call> {
        let is_told = |id: &str| {
            let mut done = self.lines.iter().filter_map(|line| line.item.as_ref());
            done.any(|item| item.id == id)
        };
        let (mut outputs, mut calls) = (Vec::new(), Vec::new());
        let (mut is_last_round, mut in_calls) = (false, false);
        for line in self.lines.iter().rev() {
            if line.is_output() {
                if is_last_round && in_calls {
                    break;
                }
                in_calls = false;
                outputs.extend(line.call_id.as_deref().zip(line.output.as_ref()));
            } else if line.is_call() {
                in_calls = true;
                let Some(id) = line.call_id.as_deref() else { continue };
                let Some((_, output)) = outputs.iter().find(|(of, _)| *of == id) else { continue };
                if is_told(id) {
                    is_last_round = true;
                } else if calls.len() < CALLS_MAX {
                    calls.extend(line.call(id, output));
                }
            } else if line.item.as_ref().is_some_and(|item| item.kind == "UserMessage") {
                break;
            }
        }
        calls.reverse();
        calls
    }
}

impl ItemWire {
    fn is_output(&self) -> bool {
        matches!(self.kind.as_str(), "function_call_output" | "custom_tool_call_output")
    }

    fn is_call(&self) -> bool {
        matches!(self.kind.as_str(), "function_call" | "custom_tool_call")
    }

    /// The call, in the words in which hooks tell it.
    fn call(&self, id: &str, output: &Value) -> Option<Call> {
        let mut tool = self.name.clone()?;
        let mut args = match (&self.input, &self.arguments) {
            (Some(input), _) => json!({"command": input}),
            (None, Some(arguments)) => {
                serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.clone()))
            }
            (None, None) => Value::Null,
        };
        if tool == "exec_command"
            && let Some(command) = args.get_mut("cmd").map(Value::take)
        {
            tool = "Bash".to_owned();
            args = json!({"command": command});
        }
        Some(Call { id: id.to_owned(), tool, args, output: output.clone() })
    }
}
