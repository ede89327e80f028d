//! Codex's rollout, the transcript of a session: one JSON object per line. Only the last part of
//! the file is read, so the first line may be cut off.

use std::borrow::Cow;

use midcourse::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of tool calls that are reported from the rollout at one hook call.
const MAX_CALLS: usize = 32;

/// The tool that starts a subagent, which hooks report without the name of its group.
const SPAWN_AGENT: &str = "spawn_agent";

/// The last lines of Codex's transcript of a session (the rollout), oldest first.
pub(super) struct Rollout {
    lines: Vec<ItemWire>,
}

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
    cli_version: Option<String>,
    #[serde(rename = "type", default)]
    kind: String,
    call_id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    output: Option<Value>,
    item: Option<CompletedItemWire>,
    response_id: Option<String>,
    usage: Option<UsageWire>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsageWire {
    #[serde(default)]
    input_tokens: i64,
    /// Tokens read from the prompt cache. They are part of `input_tokens`.
    #[serde(default)]
    cached_input_tokens: i64,
    #[serde(default)]
    output_tokens: i64,
}

#[derive(Deserialize)]
pub(super) struct CompletedItemWire {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    pub(super) id: String,
    exit_code: Option<i64>,
    status: Option<String>,
}

impl Rollout {
    pub(super) fn parse(tail: &[u8]) -> Self {
        let line = |line: &[u8]| serde_json::from_slice(line).ok();
        let lines = tail.split(|byte| *byte == b'\n').filter_map(line);
        Self { lines: lines.map(|LineWire { payload }| payload).collect() }
    }

    /// The version of Codex, which the first line of the rollout has; `None` if that line was not
    /// read.
    pub(super) fn version(&self) -> Option<String> {
        self.lines.iter().find_map(|line| line.cli_version.clone())
    }

    /// The token usage of each model response, with the response's id.
    pub(super) fn usage(&self) -> Vec<(String, Usage)> {
        let usage_of = |line: &ItemWire| Some((line.response_id.clone()?, line.usage?.usage()));
        self.lines.iter().filter_map(usage_of).collect()
    }

    pub(super) fn exit_code(&self, call: &str) -> Option<i64> {
        let completed = self.lines.iter().rev().filter_map(|line| line.item.as_ref());
        completed.into_iter().find(|item| item.id == call)?.exit_code()
    }

    /// Calls that have an output but whose end no hook reported, oldest first. Searches back to the
    /// latest turn with a reported call, or to the user's latest message.
    ///
    /// When a call has run to its end, Codex calls a hook and writes a completed item to the
    /// rollout. It does neither for a patch that does not apply, a tool that does not exist or a
    /// command that continues in the background. So a call without a completed item was not
    /// reported.
    pub(super) fn unreported_calls(&self) -> Vec<Call> {
        let is_reported = |id: &str| {
            let mut completed = self.lines.iter().filter_map(|line| line.item.as_ref());
            completed.any(|item| item.id == id)
        };
        let (mut outputs, mut calls) = (Vec::new(), Vec::new());
        let (mut is_last_turn, mut in_calls) = (false, false);
        for line in self.lines.iter().rev() {
            if line.is_output() {
                if is_last_turn && in_calls {
                    break;
                }
                in_calls = false;
                outputs.extend(line.call_id.as_deref().zip(line.output.as_ref()));
            } else if line.is_call() {
                in_calls = true;
                let Some(id) = line.call_id.as_deref() else { continue };
                let Some((_, output)) = outputs.iter().find(|(of, _)| *of == id) else { continue };
                if is_reported(id) {
                    is_last_turn = true;
                } else if calls.len() < MAX_CALLS {
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

    /// Returns the call with the tool name and arguments that a hook would report.
    fn call(&self, id: &str, output: &Value) -> Option<Call> {
        let name = full_name(self.namespace.as_deref(), self.name.as_ref()?);
        let (tool, args) =
            named_as_in_hooks(&name, self.input.as_deref(), self.arguments.as_deref());
        Some(Call { id: id.to_owned(), tool, args, output: output.clone() })
    }
}

impl UsageWire {
    pub(super) fn usage(self) -> Usage {
        let cached = self.cached_input_tokens.clamp(0, self.input_tokens.max(0));
        Usage {
            input_tokens: self.input_tokens.saturating_sub(cached),
            output_tokens: self.output_tokens,
            cache_read_input_tokens: cached,
            ..Usage::default()
        }
    }
}

impl CompletedItemWire {
    /// The exit code of a command. Of other calls, only whether they failed is known.
    pub(super) fn exit_code(&self) -> Option<i64> {
        self.exit_code.or(match self.status.as_deref() {
            Some("completed") => Some(0),
            Some("failed" | "declined") => Some(1),
            _ => None,
        })
    }
}

/// The name of a tool as hooks report it: after the name of its group or server, if it has one.
pub(super) fn full_name<'n>(namespace: Option<&str>, name: &'n str) -> Cow<'n, str> {
    match namespace {
        Some(namespace) if name != SPAWN_AGENT => format!("{namespace}{name}").into(),
        _ => name.into(),
    }
}

/// The name and the arguments of a call as a hook would report them: the rollout uses other names for
/// the shell tools and their arguments. `input` is the text that a call has instead of arguments.
pub(super) fn named_as_in_hooks(
    name: &str,
    input: Option<&str>,
    arguments: Option<&str>,
) -> (String, Value) {
    let mut args = match (input, arguments) {
        (Some(input), _) => json!({"command": input}),
        (None, Some(arguments)) => {
            serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
        }
        (None, None) => Value::Null,
    };
    let command = match name {
        "exec_command" => args.get_mut("cmd").map(Value::take),
        "shell_command" => args.get_mut("command").map(Value::take),
        "shell" | "container.exec" | "local_shell" => {
            let words = args.get("command").and_then(Value::as_array);
            let words = words.map(|words| words.iter().filter_map(Value::as_str));
            words.map(|words| Value::String(shell_script(&words.collect::<Vec<_>>())))
        }
        _ => None,
    };
    match command {
        Some(command) => ("Bash".to_owned(), json!({"command": command})),
        None => (name.to_owned(), args),
    }
}

/// The script that a shell is given, as in `bash -lc SCRIPT`, or the words of another command.
pub(super) fn shell_script(words: &[&str]) -> String {
    match words {
        [shell, "-lc" | "-c", script] if shell.ends_with("sh") => (*script).to_owned(),
        words => words.join(" "),
    }
}
