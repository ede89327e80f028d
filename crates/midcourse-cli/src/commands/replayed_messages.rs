//! The messages of one run: those in its records, and those that a replay delivers.
//!
//! `midcourse replay` shows and compares them, `midcourse label` finds the labelled message among
//! the recorded ones, and `midcourse eval --labels` compares the replayed ones with the labels.

use anyhow::Result;
use midcourse::{
    Cause, Channel, DecisionPoint, DeliveryPolicy, Engine, Step, TrajectoryPayload,
    TrajectoryRecord, Why,
};
use serde_json::{Value, json};

use super::replayed_run::ReplayedRun;
use super::run_input::InputRecord;
use crate::config::Config;
use crate::hosts::{Host, permanent_policy};

/// The largest distance, in tool calls, between two messages about the same cause that count as one
/// message which moved. Most thresholds of the configuration count calls, and users change them by
/// one or two.
pub(super) const MAX_CALLS_APART: u64 = 3;

/// A message that was delivered, or that a replay delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// What the message is about, such as `doom_loop`; the provider's name if it names no cause.
    pub(super) cause: String,
    /// The cause with its id, which tells two loops or two errors apart.
    pub(super) full_cause: Option<Cause>,
    /// How many tool calls had ended before the message.
    pub(super) call: u64,
    /// A recorded message: the seq of its record. A replayed one: that of the record it follows.
    pub(super) seq: u64,
    pub(super) text: String,
}

impl Message {
    fn new(why: Option<&Why>, provider: &str, text: String, call: u64, seq: u64) -> Self {
        let full_cause = why.map(|why| why.cause.clone());
        let cause = full_cause.as_ref().map_or(provider, Cause::kind).to_owned();
        Self { cause, full_cause, call, seq, text }
    }

    /// Whether the message is about a deadline or a budget.
    pub(super) fn is_about_limit(&self) -> bool {
        self.full_cause.as_ref().is_some_and(Cause::is_limit)
    }

    /// The message in JSON, as part of a line.
    pub(super) fn to_json(&self) -> Value {
        json!({"seq": self.seq, "call": self.call, "cause": self.cause, "text": self.text})
    }
}

/// The messages of a run, and its number of calls.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) recorded: Vec<Message>,
    pub(super) replayed: Vec<Message>,
    /// Whether midcourse analysed the run while it happened.
    pub(super) was_monitored: bool,
    pub(super) calls: u64,
    pub(super) errors: u64,
}

/// Replays a run with its recorded configuration or, if there is one, with `config`. Calls `each`
/// after every replayed record. Records that the engine itself added, such as delivered messages,
/// are not replayed, because the replay produces them again.
pub(super) fn replay(
    records: &[InputRecord],
    config: Option<&Config>,
    mut each: impl FnMut(&Engine, &TrajectoryRecord, &Step) -> Result<()>,
) -> Result<Messages> {
    let is_child = records.iter().any(|input| input.record.parent_run_id.is_some());
    let policy = delivery_policy(records);
    let mut replay = match config {
        Some(config) => ReplayedRun::with_config(policy, is_child, config.clone()),
        None => ReplayedRun::new(policy, is_child),
    };
    // If midcourse analysed the run while it happened, the records contain the decision points at
    // which messages could be delivered.
    let has_points = records.iter().any(|input| input.decision_point.is_some());
    // An imported session has decision points too, but no message was delivered there.
    let is_import = |input: &InputRecord| {
        input.source.as_ref().is_some_and(|source| source.channel() == Channel::Import)
    };
    let was_monitored = has_points && !records.iter().all(is_import);
    let mut messages = Messages { was_monitored, ..Messages::default() };
    for input in records {
        let record = &input.record;
        if record.payload.is_conclusion() {
            let call = replay.engine().trajectory().tool_call_count();
            messages.recorded.extend(recorded_message(record, call));
            continue;
        }
        let decision_point = match has_points {
            true => input.decision_point,
            false => Some(DecisionPoint::PreToolSelection),
        };
        let step = replay.step(record, input.source.as_ref(), decision_point)?;
        let call = replay.engine().trajectory().tool_call_count();
        let made = step.deliveries.iter().chain(&step.withheld);
        messages.replayed.extend(made.map(|delivery| {
            let text = delivery.text();
            Message::new(delivery.why(), delivery.provider(), text, call, record.seq)
        }));
        each(replay.engine(), record, &step)?;
    }
    let trajectory = replay.engine().trajectory();
    messages.calls = trajectory.tool_call_count();
    messages.errors = trajectory.error_count();
    Ok(messages)
}

/// The message, if the record says that one was delivered (in shadow mode: only recorded).
fn recorded_message(record: &TrajectoryRecord, call: u64) -> Option<Message> {
    let (why, provider, text) = match &record.payload {
        TrajectoryPayload::FeedbackDelivered { feedback, text, .. } => {
            (feedback.why(), feedback.provider_name(), text.clone())
        }
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            let text = guidance.injection.content().to_owned();
            (guidance.injection.why(), guidance.provider_name.as_str(), text)
        }
        _ => return None,
    };
    Some(Message::new(why, provider, text, call, record.seq))
}

/// The limits on messages that applied to the run.
fn delivery_policy(records: &[InputRecord]) -> DeliveryPolicy {
    let mut sources = records.iter().filter_map(|input| input.source.as_ref());
    let is_proxied = sources.clone().any(|source| source.channel() == Channel::Proxy);
    // A host repeats each message from a hook in every later model request, so it has its own
    // limits. In a run with a proxy, the proxy delivered the messages, with default limits unless
    // the model's server keeps the requests.
    let host = sources.find_map(|source| Host::named(source.host())).filter(|_| !is_proxied);
    let is_kept = |input: &InputRecord| {
        let payload = &input.record.payload;
        matches!(payload, TrajectoryPayload::ProviderRequestPrepared { kept_by_server: true, .. })
    };
    match host {
        Some(host) => host.delivery_policy(),
        None if records.iter().any(is_kept) => permanent_policy(),
        None => DeliveryPolicy::default(),
    }
}

/// Pairs each message of `a` with at most one of `b` that is near it: those after the same call
/// first, then the nearest ones. Returns for each message of `a` the index of its partner.
pub(super) fn pair(a: &[Message], b: &[Message]) -> Vec<Option<usize>> {
    let mut partners = vec![None; a.len()];
    let mut is_taken = vec![false; b.len()];
    for distance in 0..=MAX_CALLS_APART {
        for (one, partner) in a.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            let fits = |other: &Message, is_taken: bool| {
                !is_taken && one.cause == other.cause && one.call.abs_diff(other.call) == distance
            };
            let found = b.iter().zip(&is_taken).position(|(other, taken)| fits(other, *taken));
            if let Some(taken) = found.and_then(|at| is_taken.get_mut(at)) {
                *taken = true;
                *partner = found;
            }
        }
    }
    partners
}

#[cfg(test)]
pub(super) fn message(cause: &str, call: u64) -> Message {
    let (full_cause, text) = (Some(Cause::only(cause)), format!("{cause} at {call}"));
    Message { cause: cause.to_owned(), full_cause, call, seq: call * 3, text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX_CALLS_APART, Message, message, pair};

    fn is_near(a: &Message, b: &Message) -> bool {
        a.cause == b.cause && a.call.abs_diff(b.call) <= MAX_CALLS_APART
    }

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let one = (prop_oneof![Just("a"), Just("b")], 0_u64..12);
        proptest::collection::vec(one.prop_map(|(cause, call)| message(cause, call)), 0..8)
    }

    #[test]
    fn a_message_is_paired_with_the_one_after_the_same_call_before_a_nearer_neighbour_takes_it() {
        let (a, b) = ([message("a", 3), message("a", 5)], [message("a", 5), message("a", 7)]);
        assert_eq!(pair(&a, &b), [None, Some(0)]);
        assert_eq!(pair(&[message("a", 3)], &[message("b", 3), message("a", 6)]), [Some(1)]);
        assert_eq!(pair(&[message("a", 3)], &[message("a", 4 + MAX_CALLS_APART)]), [None]);
    }

    proptest! {
        #[test]
        fn pairs_are_near_and_nothing_is_paired_twice(a in messages(), b in messages()) {
            let partners = pair(&a, &b);
            let mut taken: Vec<usize> = partners.iter().flatten().copied().collect();
            for (one, partner) in a.iter().zip(&partners) {
                if let Some(partner) = partner {
                    prop_assert!(is_near(one, &b[*partner]));
                }
            }
            let pairs = taken.len();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), pairs);
            // Nothing that could be paired is left over on both sides.
            for (one, _) in a.iter().zip(&partners).filter(|(_, partner)| partner.is_none()) {
                let left = (0..b.len()).filter(|at| !taken.contains(at));
                prop_assert!(left.map(|at| &b[at]).all(|other| !is_near(one, other)));
            }
        }

        #[test]
        fn equal_lists_are_paired_one_to_one(a in messages()) {
            let partners = pair(&a, &a);
            for (one, partner) in a.iter().zip(partners) {
                let other = partner.map(|at| (a[at].call, a[at].cause.as_str()));
                prop_assert_eq!(other, Some((one.call, one.cause.as_str())));
            }
        }
    }
}
