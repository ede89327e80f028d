//! Sample payloads of midcourse's plugin for opencode, for `midcourse doctor`.

use serde_json::{Value, json};

use super::super::sample::{COMMAND, EXIT_CODE, OUTPUT, PROMPT, Sample};

pub(in crate::hosts) fn samples(call: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    if call == 0 {
        let prompt = json!({"message_id": "msg_0", "prompt": PROMPT});
        samples.push(Sample::new("chat.message", prompt));
        samples.push(Sample::new("chat.messages.transform", request("msg_0")));
    }
    let (id, args) = (format!("call_{call}"), json!({"command": COMMAND}));
    let started = json!({"call_id": id, "tool": "bash", "args": args});
    let ended = json!({"call_id": id, "tool": "bash", "args": args, "output": OUTPUT,
                       "exit": EXIT_CODE});
    samples.push(Sample::new("tool.execute.before", started));
    samples.push(Sample::new("tool.execute.after", ended));
    samples.push(Sample::new("chat.messages.transform", request(&format!("msg_after_{call}"))));
    samples
}

fn request(after: &str) -> Value {
    json!({"after_message": after, "accepts_message": true, "failed_calls": [], "usage": []})
}
