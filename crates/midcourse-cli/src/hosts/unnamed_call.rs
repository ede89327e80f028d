//! Tool calls of hosts whose hooks report no call ids.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use midcourse::TrajectoryPayload;
use serde_json::Value;

use super::Decoded;

/// What a payload says about a call that has no id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnnamedCall {
    /// Equal for two calls of the same tool with the same arguments.
    pub(crate) kind: u64,
    /// Whether the payload reports the start of the call; otherwise it reports the end.
    pub(crate) is_start: bool,
    /// The time in the payload, as the host writes it. If hooks are installed twice, both report an
    /// event with the same time.
    pub(crate) time: String,
}

impl UnnamedCall {
    pub(super) fn started(tool: &str, args: &Value, time: String) -> Self {
        Self { kind: kind(tool, args), is_start: true, time }
    }

    pub(super) fn ended(tool: &str, args: &Value, time: String) -> Self {
        Self { kind: kind(tool, args), is_start: false, time }
    }
}

fn kind(tool: &str, args: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, args.to_string()).hash(&mut hasher);
    hasher.finish()
}

impl Decoded {
    /// Gives the call in the payload its id.
    pub(crate) fn set_call_id(&mut self, id: &str) {
        for event in &mut self.events {
            if let TrajectoryPayload::ToolStarted { tool_call_id, .. }
            | TrajectoryPayload::ToolEnded { tool_call_id, .. } = &mut event.payload
            {
                *tool_call_id = id.into();
                event.fact = Some(id.into());
                event.dedupe_consecutive = false;
            }
        }
    }
}
