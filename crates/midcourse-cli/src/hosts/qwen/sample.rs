//! Sample payloads of Qwen Code's hooks, for `midcourse doctor`.

use serde_json::json;

use super::super::sample::{COMMAND, EXIT_CODE, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        samples.push(Sample::new("SessionStart", json!({"source": "startup"})).at(call, 0));
        samples.push(Sample::new("UserPromptSubmit", json!({"prompt": PROMPT})).at(call, 1));
    }
    let (id, input) = (format!("call_{call}"), json!({"command": COMMAND}));
    let started = json!({"tool_name": "run_shell_command", "tool_input": input,
                         "tool_use_id": id, "tool_call_id": id});
    let error = format!("Command: {COMMAND}\nOutput: {OUTPUT}\nExit Code: {EXIT_CODE}");
    let failed = json!({"tool_name": "run_shell_command", "tool_input": input,
                        "tool_use_id": id, "tool_call_id": id, "error": error});
    samples.push(Sample::new("PreToolUse", started).at(call, 2));
    samples.push(Sample::new("PostToolUseFailure", failed).at(call, 3));
    samples.push(Sample::new("UserPromptSubmit", json!({"prompt": ""})).at(call, 4));
    samples
}
