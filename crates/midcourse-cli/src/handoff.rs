//! Hands delivery over from hooks to the proxy. If hooks and a proxy observe the same run, both
//! record it, but only the proxy delivers: its messages are in one request only, while hosts keep
//! hook messages for the rest of the session.
//!
//! Hooks hand over only runs whose requests the proxy actually sees; an agent that bypasses the
//! proxy still gets messages from its hooks. Before the first model request this is unknown, so
//! hooks rely on the settings of the launch.

use midcourse::{AgentMessage, DataDir, DecisionPoint, Event, Store, TrajectoryPayload};

/// The kind and key of the event by which the proxy records that a run's requests go through it.
pub(crate) const PROXY_ATTACHED: (&str, &str) = ("proxy_attached", "run");

/// Start of the access token, which is the first path segment of a proxy's URLs.
pub(crate) const PATH_PREFIX: &str = "midcourse-";

/// The environment variable in which a hook looks for the proxy's URL. It is Claude Code's, because
/// only Claude Code can have hooks and a proxy at once.
const ADDRESS_VARIABLE: &str = "ANTHROPIC_BASE_URL";

/// Whether the proxy, and not the hook, delivers messages about these events. `is_expected` is true
/// if the agent was started with a proxy that delivers.
pub(crate) fn is_handed_over(
    data_dir: Option<&DataDir>,
    is_expected: bool,
    events: &[Event],
) -> bool {
    let mut points = events.iter().filter_map(|event| event.decision_point);
    if is_expected && points.next() == Some(DecisionPoint::PreRender) {
        return true;
    }
    // A project can set this variable to anything, so it only saves opening the store; the proxy's
    // own event in the store decides.
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

/// Changes a hook's events so that no message is delivered after them. Removes assistant messages
/// and starts of turns, because the proxy reports these itself.
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
