//! Sample payloads of Gemini CLI's hooks, for `midcourse doctor`.

use serde_json::{Value, json};

use super::super::sample::{COMMAND, EXIT_CODE, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        samples.push(Sample::new("SessionStart", json!({"source": "startup"})).at(call, 0));
        samples.push(Sample::new("BeforeAgent", json!({"prompt": PROMPT})).at(call, 1));
        samples.push(Sample::new("BeforeModel", request()).at(call, 2));
    }
    let input = json!({"command": COMMAND});
    let content = format!("Output: {OUTPUT}\nExit Code: {EXIT_CODE}");
    let started = json!({"tool_name": "run_shell_command", "tool_input": input});
    let ended = json!({"tool_name": "run_shell_command", "tool_input": input,
                       "tool_response": {"llmContent": content, "returnDisplay": OUTPUT}});
    samples.push(Sample::new("BeforeTool", started).at(call, 3));
    samples.push(Sample::new("AfterTool", ended).at(call, 4));
    samples.push(Sample::new("BeforeModel", request()).at(call, 5));
    samples
}

fn request() -> Value {
    json!({"llm_request": {"model": "sample", "messages": [{"role": "user", "content": PROMPT}]}})
}
