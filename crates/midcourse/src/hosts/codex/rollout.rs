//! The end of a session's file as Codex writes it: one JSON object a line, the first perhaps torn.

use serde::Deserialize;
use serde_json::{Value, json};

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

    /// The calls of the latest round that has outputs, without the commands: hooks tell their ends.
    pub(super) fn calls_before(&self) -> Vec<Call> {
        let mut round = self.lines.iter().rev().skip_while(|line| !line.is_output()).peekable();
        let mut outputs = Vec::new();
        while let Some(line) = round.next_if(|line| !line.is_call()) {
            outputs.extend(line.call_id.as_deref().zip(line.output.as_ref()));
        }
        let is_command = |id: &str| {
            let mut done = self.lines.iter().filter_map(|line| line.item.as_ref());
            done.any(|item| item.id == id && item.kind == "CommandExecution")
        };
        let mut calls: Vec<Call> = round
            .take_while(|line| !line.is_output())
            .filter_map(|line| {
                let id = line.call_id.as_deref().filter(|id| !is_command(id))?;
                let (_, output) = outputs.iter().find(|(of, _)| *of == id)?;
                let tool = line.name.clone()?;
                Some(Call { id: id.to_owned(), tool, args: line.args(), output: (*output).clone() })
            })
            .collect();
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

    /// What the tool was asked, in the form in which hooks have it.
    fn args(&self) -> Value {
        if let Some(input) = &self.input {
            return json!({"command": input});
        }
        let arguments = self.arguments.as_deref().unwrap_or_default();
        serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
    }
}
