//! Sample payloads of Claude Code's hooks, for `midcourse doctor`.

use serde_json::json;

use super::super::sample::{COMMAND, EXIT_CODE, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        samples.push(Sample::new("SessionStart", json!({"source": "startup"})));
        samples.push(Sample::new("UserPromptSubmit", json!({"prompt": PROMPT})));
    }
    let (id, input) = (format!("toolu_{call}"), json!({"command": COMMAND}));
    let error = format!("Exit code {EXIT_CODE}\n{OUTPUT}");
    let started = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id});
    let failed = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id,
                        "error": error, "is_interrupt": false});
    let batch = json!({"tool_calls": [{"tool_name": "Bash", "tool_input": input,
                                       "tool_use_id": id, "tool_response": error}]});
    samples.push(Sample::new("PreToolUse", started));
    samples.push(Sample::new("PostToolUseFailure", failed));
    samples.push(Sample::new("PostToolBatch", batch));
    samples
}
