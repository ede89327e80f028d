//! Sample payloads: what a host sends to its hooks while an agent repeats a failing command. With
//! them, `midcourse doctor` tries installed hooks. Each host has its own in `sample.rs`, in the form
//! of the payloads in `testdata/captures`; the values are made up.

use serde_json::{Value, json};

use super::{Host, claude_code, codex, copilot, gemini, opencode, qwen};

/// The session of all samples.
const SESSION: &str = "midcourse-doctor";

/// The command that fails, what it prints, and its exit code.
pub(super) const COMMAND: &str = "make test";
pub(super) const OUTPUT: &str = "make: *** No rule to make target 'test'.  Stop.";
pub(super) const EXIT_CODE: i64 = 2;

pub(super) const PROMPT: &str = "Make the tests pass.";

/// A payload and the hook event to which it belongs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) event: &'static str,
    pub(crate) payload: Value,
}

impl Host {
    /// The payloads of the failing call with this number, counted from 0, in an agent that works in
    /// `cwd`. Those of the first call begin with the start of the session.
    pub(crate) fn samples(self, cwd: &str, call: u32) -> Vec<Sample> {
        let samples = match self {
            Self::ClaudeCode | Self::Demo => claude_code::samples,
            Self::Codex => codex::samples,
            Self::Qwen => qwen::samples,
            Self::Gemini => gemini::samples,
            Self::Opencode => opencode::samples,
            Self::Copilot => copilot::samples,
        };
        let samples = samples(call).into_iter();
        samples.map(|sample| sample.with(json!({"session_id": SESSION, "cwd": cwd}))).collect()
    }
}

impl Sample {
    /// A payload with these fields and the name of its event.
    pub(super) fn new(event: &'static str, payload: Value) -> Self {
        Self { event, payload }.with(json!({"hook_event_name": event}))
    }

    fn with(mut self, fields: Value) -> Self {
        if let (Value::Object(payload), Value::Object(fields)) = (&mut self.payload, fields) {
            payload.extend(fields);
        }
        self
    }

    /// The same payload with a time. Each step of each call has another.
    pub(super) fn at(self, call: u32, step: u32) -> Self {
        self.with(json!({"timestamp": format!("2026-01-01T00:{call:02}:{step:02}.000Z")}))
    }
}

#[cfg(test)]
mod tests {
    use midcourse::{Timestamp, TrajectoryPayload};

    use super::{Host, SESSION};

    #[test]
    fn each_host_decodes_its_samples() {
        for host in Host::ALL {
            let samples =
                host.samples("/project", 0).into_iter().chain(host.samples("/project", 1));
            let (mut starts, mut ends, mut replies) = (0, 0, 0);
            for sample in samples {
                let bytes = sample.payload.to_string().into_bytes();
                let decoded = host.decode(&bytes, Timestamp::from_unix_ms(1));
                assert_eq!(decoded.unread_run(), None, "{host:?} {sample:?}");
                replies += usize::from(decoded.reply.is_some());
                for event in &decoded.events {
                    assert_eq!(event.run.run_id.as_str(), SESSION);
                    match &event.payload {
                        TrajectoryPayload::ToolStarted { .. } => starts += 1,
                        TrajectoryPayload::ToolEnded { .. } => ends += 1,
                        _ => {}
                    }
                }
            }
            assert!(
                starts >= 2 && ends >= 2 && replies >= 2,
                "{host:?}: {starts} {ends} {replies}"
            );
        }
    }
}
