//! Events and settings for tests of the store.

use std::time::Duration;

use midcourse::{
    AgentMessage, Channel, Durability, Event, RunIdentity, Source, Store, StoreError,
    StoreSettings, Timestamp, ToolResult, TrajectoryPayload,
};

fn event(run: &str, payload: TrajectoryPayload) -> Event {
    let at = Timestamp::from_unix_ms(1_790_000_000_000);
    Event::new(RunIdentity::root(run), Source::new("test", Channel::Hook), at, payload)
}

pub(crate) fn tool_ended(run: &str, call: &str, text: &str) -> Event {
    let payload = TrajectoryPayload::ToolEnded {
        tool_call_id: call.into(),
        tool_name: "bash".into(),
        result: ToolResult::text(text),
        is_error: false,
    };
    event(run, payload)
}

pub(crate) fn user_message(run: &str, text: &str) -> Event {
    event(run, TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) })
}

/// Settings for tests in which the store need not survive a power cut: fewer syncs make them fast. A
/// write waits up to two minutes for a locked store, so that a busy machine fails no test.
pub(crate) fn test_settings() -> StoreSettings {
    StoreSettings {
        durability: Durability::Normal,
        busy_timeout: Duration::from_secs(120),
        ..StoreSettings::default()
    }
}

/// The problems that `verify` finds in the whole store, or the error if the store cannot be read.
pub(crate) fn findings(store: &Store) -> Vec<String> {
    let found = || -> Result<Vec<String>, StoreError> {
        let mut findings = store.verify_file()?;
        for run in store.runs(usize::MAX)? {
            findings.extend(store.verify_run(&run.run_id)?);
        }
        Ok(findings.iter().map(ToString::to_string).collect())
    };
    found().unwrap_or_else(|error| vec![error.to_string()])
}
