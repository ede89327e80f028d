//! Sample payloads of Copilot CLI's hooks, for `midcourse doctor`.

use serde_json::json;

use super::super::sample::{COMMAND, EXIT_CODE, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        samples.push(Sample::new("SessionStart", json!({"source": "new"})).at(call, 0));
        samples.push(Sample::new("UserPromptSubmit", json!({"prompt": PROMPT})).at(call, 1));
    }
    let input = json!({"command": COMMAND, "mode": "sync"});
    let text = format!("{OUTPUT}\n<shellId: {call} completed with exit code {EXIT_CODE}>");
    let started = json!({"tool_name": "Bash", "tool_input": input});
    let ended = json!({"tool_name": "Bash", "tool_input": input,
                       "tool_result": {"result_type": "success", "text_result_for_llm": text}});
    samples.push(Sample::new("PreToolUse", started).at(call, 2));
    samples.push(Sample::new("PostToolUse", ended).at(call, 3));
    samples
}
