//! Sample payloads of Codex's hooks, for `midcourse doctor`. They name no rollout, so whether the
//! call failed is decided by its output.

use serde_json::json;

use super::super::sample::{COMMAND, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        samples.push(Sample::new("SessionStart", json!({"source": "startup"})));
        samples.push(Sample::new("UserPromptSubmit", json!({"prompt": PROMPT})));
    }
    let (id, input) = (format!("call_{call}"), json!({"command": COMMAND}));
    let started = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id});
    let ended = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id,
                       "tool_response": format!("{OUTPUT}\n")});
    samples.push(Sample::new("PreToolUse", started));
    samples.push(Sample::new("PostToolUse", ended));
    samples
}
