//! Decides whether a hook or the proxy delivers messages to the agent. If hooks and a proxy observe
//! the same run, both record it, but only the proxy delivers messages. The proxy can put a message
//! about what to do next into one model request only, while the host repeats every message from a
//! hook in all requests for the rest of the session.
//!
//! A hook leaves the messages to the proxy only if the run's model requests really go through the
//! proxy. An agent that bypasses the proxy still gets messages from its hooks. At the start of a
//! session and at a new prompt there may not have been a request yet, so the hook then relies on
//! the settings with which `midcourse run` started the agent.

use midcourse::{AgentMessage, DataDir, DecisionPoint, Event, Store, TrajectoryPayload};

/// The payload kind and the key of the event that the proxy stores in a run when it gets model
/// requests of this run.
pub(crate) const PROXY_ATTACHED: (&str, &str) = ("proxy_attached", "run");

/// Every access token of a proxy starts with this text. The token is the first path segment of the
/// proxy's URLs.
pub(crate) const PATH_PREFIX: &str = "midcourse-";

/// The environment variables in which a hook looks for the proxy's URL: those of agents that can have
/// hooks and a proxy at once.
const ADDRESS_VARIABLES: [&str; 5] = [
    "ANTHROPIC_BASE_URL",
    "HTTPS_PROXY",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "COPILOT_PROVIDER_BASE_URL",
];

/// Whether the proxy, and not the hook that reports `events`, delivers the messages. `is_expected`
/// is true if `midcourse run` started the agent with a proxy that is meant to deliver messages.
pub(crate) fn is_handed_over(
    data_dir: Option<&DataDir>,
    is_expected: bool,
    events: &[Event],
) -> bool {
    let mut points = events.iter().filter_map(|event| event.decision_point);
    // Events at the start of a session and at a prompt have this decision point. There may be no
    // model request yet, so the settings decide.
    if is_expected && points.next() == Some(DecisionPoint::PreRender) {
        return true;
    }
    // Without a proxy's URL in a variable, the store need not be opened. With one, the event that
    // the proxy stored in the run decides, because a project can set the variables to anything.
    let is_proxy = |name| std::env::var(name).is_ok_and(|url| url.contains(PATH_PREFIX));
    let has_proxy = ADDRESS_VARIABLES.into_iter().any(is_proxy);
    let (Some(data_dir), Some(first), true) = (data_dir, events.first(), has_proxy) else {
        return false;
    };
    let (kind, key) = PROXY_ATTACHED;
    let store = Store::open_read_only(data_dir).ok().flatten();
    store.is_some_and(|store| store.has_fact(first.run.run_id.as_str(), kind, key).unwrap_or(false))
}

/// Changes a hook's events so that the engine records them and delivers no message. Also removes
/// assistant messages and starts of turns, because the proxy records these itself.
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
