//! Handing delivery over to the proxy. Where hooks and a proxy see the same run, both record it and
//! only the proxy delivers: its messages are in one request only, while hosts keep what a hook gives
//! them for the rest of the session.
//!
//! Hooks hand over only a run that the proxy really sees; a client that reaches its model another
//! way still gets messages from its hooks. Before the first model request nobody can know, so the
//! hooks trust the settings of the launch.

use midcourse::{AgentMessage, DataDir, DecisionPoint, Event, Store, TrajectoryPayload};

/// The kind and key of the event that says that the proxy sees a run.
pub(crate) const PROXY_ATTACHED: (&str, &str) = ("proxy_attached", "run");

/// The first path segment of a proxy's address begins with this.
pub(crate) const PATH_PREFIX: &str = "midcourse-";

/// The environment variable with the address of the proxy. Only Claude Code has hooks and a proxy.
const ADDRESS_VARIABLE: &str = "ANTHROPIC_BASE_URL";

/// Whether the proxy delivers the messages for these events of a hook. `is_expected`: the launch
/// has a proxy that delivers.
pub(crate) fn is_handed_over(
    data_dir: Option<&DataDir>,
    is_expected: bool,
    events: &[Event],
) -> bool {
    let mut points = events.iter().filter_map(|event| event.decision_point);
    if is_expected && points.next() == Some(DecisionPoint::PreRender) {
        return true;
    }
    // A project can set the variable, so it only says that the store is worth a look.
    let address = std::env::var(ADDRESS_VARIABLE).unwrap_or_default();
    let (Some(data_dir), Some(first), true) =
        (data_dir, events.first(), address.contains(PATH_PREFIX))
    else {
        return false;
    };
    let (kind, key) = PROXY_ATTACHED;
    let store = Store::open_read_only(data_dir).ok().flatten();
    store.is_some_and(|store| store.has_fact(first.run.run_id.as_str(), kind, key).unwrap_or(false))
}

/// Turns events of a hook into events at which nothing is delivered. The proxy reports the model's
/// messages and the start of a turn itself, together with what it delivers there.
pub(crate) fn record_only(events: &mut Vec<Event>) {
    events.retain(|event| match &event.payload {
        TrajectoryPayload::MessageAppended { message } => {
            !matches!(message, AgentMessage::Assistant { .. })
        }
        TrajectoryPayload::TurnStarted => false,
        _ => true,
    });
    for event in events {
        event.decision_point = None;
    }
}
