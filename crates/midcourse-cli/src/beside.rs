//! Hooks beside a proxy: both see the same run, and the proxy speaks, since what it says can be gone
//! again.
//!
//! What hooks report stays on record, once, under a way of its own: a replay does not ask there
//! either. Hooks step back only for a run that the proxy really sees; a client that goes another way
//! to its model hears its hooks. Before its first request nobody can know, so they trust the launch.

use crate::hosts::Host;
use midcourse::{AgentMessage, DataDir, DecisionPoint, Event, Source, Store, TrajectoryPayload};

/// The kind and the key of the fact by which hooks know that the proxy sees a run.
pub(crate) const FACT: (&str, &str) = ("proxy_attached", "run");

/// What the paths of all proxies begin with.
pub(crate) const PREFIX: &str = "midcourse-";

/// The way of what hooks report then.
const WAY: &str = "beside";

/// The variable by which a client finds a proxy.
const ADDRESS: &str = "ANTHROPIC_BASE_URL";

/// Whether the proxy speaks where these facts are reported.
pub(crate) fn is_beside(
    home: Option<&DataDir>,
    host: Host,
    is_expected: bool,
    facts: &[Event],
) -> bool {
    let points = facts.iter().filter_map(|event| {
        let is_child = event.run.parent_run_id.is_some();
        host.point_of(&event.source, is_child, &event.payload)
    });
    let points: Vec<_> = points.collect();
    // Before the first request nobody can know.
    let is_before = points.first() == Some(&DecisionPoint::PreRender) && points.len() == 1;
    if is_expected && is_before {
        return true;
    }
    // A variable that anybody can set only says that it is worth looking.
    let address = std::env::var(ADDRESS).unwrap_or_default();
    let (Some(home), Some(first), true) = (home, facts.first(), address.contains(PREFIX)) else {
        return false;
    };
    let (kind, fact) = FACT;
    let store = Store::open_read_only(home).ok().flatten();
    store
        .is_some_and(|store| store.has_fact(first.run.run_id.as_str(), kind, fact).unwrap_or(false))
}

/// Lets facts be reported that the proxy is to speak about. What the model said, and that it is
/// asked again, the proxy reports itself, when it speaks.
pub(crate) fn step_back(facts: &mut Vec<Event>) {
    facts.retain(|event| match &event.payload {
        TrajectoryPayload::MessageAppended { message } => {
            !matches!(message, AgentMessage::Assistant { .. })
        }
        TrajectoryPayload::TurnStarted => false,
        _ => true,
    });
    for event in facts {
        event.source = Source::new(event.source.host(), WAY);
    }
}
