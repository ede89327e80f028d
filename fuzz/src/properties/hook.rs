//! Hook payloads. The input is a payload and, after a NUL byte, the end of the host's transcript.

use std::sync::LazyLock;

use midcourse::{Delivery, LABEL, TrajectoryPayload};
use serde_json::Value;

use super::{NOW, check_events, deliveries};
use crate::hosts::{Decoded, Host};

static DELIVERIES: LazyLock<Vec<Delivery>> = LazyLock::new(deliveries);

/// Fields of a reply with which a host would block a call, decide a permission or end the run.
const FORBIDDEN_FIELDS: [&str; 6] =
    ["decision", "continue", "permissionDecision", "stopReason", "suppressOutput", "updatedInput"];

pub(crate) fn check(host: Host, data: &[u8]) {
    let (payload, transcript) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[][..]),
    };
    let decoded = host.decode(payload, NOW);
    assert_eq!(decoded, host.decode(payload, NOW), "decoding depends on something else");
    check_decoded(host, &decoded);
    check_reply(&decoded);

    for counts_tokens in [false, true] {
        let extended = host.add_transcript(decoded.clone(), transcript, counts_tokens);
        let again = host.add_transcript(decoded.clone(), transcript, counts_tokens);
        assert_eq!(extended, again, "the transcript is not read deterministically");
        assert_eq!(extended.reply, decoded.reply, "a transcript never decides who is told");
        // The events of the payload stay last, with their decision points. The transcript may add
        // the exit code to the end of a call, and events before it.
        let added = extended.events.len().checked_sub(decoded.events.len()).unwrap();
        for (before, after) in decoded.events.iter().zip(&extended.events[added..]) {
            assert_eq!(before.decision_point, after.decision_point);
            assert_eq!(before.run, after.run);
            assert_eq!(before.payload.kind(), after.payload.kind());
        }
        let added = &extended.events[..added];
        assert!(added.iter().all(|event| event.decision_point.is_none()));
        check_events(&extended.events);
    }
}

fn check_decoded(host: Host, decoded: &Decoded) {
    for event in &decoded.events {
        assert_eq!(event.source.host(), host.name());
        assert!(!event.run.run_id.as_str().is_empty(), "an event without a run");
        assert_eq!(event.run.depth, usize::from(event.run.parent_run_id.is_some()));
    }
    let has_point = decoded.events.iter().any(|event| event.decision_point.is_some());
    assert!(!has_point || decoded.reply.is_some(), "a message would be lost");
    if decoded.unread_run().is_some() {
        assert_eq!(decoded.events.len(), 1);
        assert!(!has_point && decoded.reply.is_none() && decoded.transcript.is_none());
    }
    let ends_run =
        |event: &midcourse::Event| matches!(event.payload, TrajectoryPayload::RunEnded { .. });
    if decoded.events.iter().any(ends_run) {
        assert!(decoded.reply.is_none(), "a reply to an end could make the agent continue");
    }
}

fn check_reply(decoded: &Decoded) {
    let form = decoded.reply.as_ref();
    assert_eq!(Host::encode([], form), b"", "a reply without a message");
    let reply = Host::encode(DELIVERIES.iter(), form);
    assert_eq!(reply.is_empty(), form.is_none());
    if form.is_none() {
        return;
    }
    let text = std::str::from_utf8(&reply).unwrap();
    let label = serde_json::to_string(LABEL).unwrap();
    assert!(text.contains(label.trim_matches('"')), "the reply has no message");
    let reply: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let fields = reply.as_object().unwrap();
    let inner = fields.get("hookSpecificOutput").and_then(Value::as_object);
    for name in fields.keys().chain(inner.into_iter().flat_map(|inner| inner.keys())) {
        assert!(!FORBIDDEN_FIELDS.contains(&name.as_str()), "the reply has the field {name}");
    }
}
