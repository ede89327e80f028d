//! Conversations with a model API. The input is a list of bodies with NUL bytes between them:
//! request, response, request, and so on. A response that begins with `!` is an error response.

use std::collections::HashSet;

use midcourse::TrajectoryPayload;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{check_engine, check_stored};
use crate::apis::{
    Api, Conversation, Insertion, Item, ObservedEvent, Request, RequestDigests, insert,
};

/// A message with everything that JSON has to escape.
const TEXT: &str = "[midcourse run monitor]\n\"quoted\" \\ \u{1}→ text";

const MAX_BODIES: usize = 8;

pub(crate) fn check(api: Api, data: &[u8]) {
    let mut conversation = Conversation::default();
    let (mut payloads, mut started) = (Vec::new(), HashSet::new());
    let mut is_complete = true;
    for (number, body) in data.split(|byte| *byte == 0).take(MAX_BODIES).enumerate() {
        let events = if number % 2 == 0 {
            let body = std::str::from_utf8(body).ok();
            let read = body.filter(|body| api.parse_request(body).is_some());
            is_complete &= read.is_some();
            let Some(body) = read else { continue };
            check_request(api, body, &mut conversation, is_complete)
        } else {
            check_response(api, body, &mut conversation)
        };
        for event in events {
            check_stored(&event.payload);
            if let TrajectoryPayload::ToolStarted { tool_call_id, .. } = &event.payload {
                assert!(started.insert(tool_call_id.clone()), "{tool_call_id} starts twice");
            }
            payloads.push(event.payload);
        }
    }
    check_engine(&payloads);
}

/// Applies a request that can be parsed. `is_complete` says that all requests before it could be
/// parsed, too.
fn check_request(
    api: Api,
    body: &str,
    conversation: &mut Conversation,
    is_complete: bool,
) -> Vec<ObservedEvent> {
    let mut request = api.parse_request(body).expect("parsing is deterministic");
    assert!(request.tail_start <= request.items.len());
    check_insertions(api, body, &request);

    // A copy of the conversation reads the same request in the same way.
    let digests = RequestDigests::of(&request);
    let mut copy = conversation.clone();
    assert_eq!(conversation.fit(&digests), copy.fit(&digests));
    assert_eq!(conversation.count_matches(&request), copy.count_matches(&request));
    let delta = conversation.apply_request(&mut request, true);
    let mut same = api.parse_request(body).unwrap();
    let again = copy.apply_request(&mut same, true);
    assert_eq!(facts(&delta.events), facts(&again.events), "the request is read in two ways");

    // Text is inserted after the request was compared with the conversation, so the positions have
    // to be valid then, too.
    check_insertions(api, body, &request);

    // A client that sends its request again adds nothing, unless its server keeps the rest. If an
    // earlier request is missing, calls of its response that have no ids can be mixed up.
    if is_complete && !request.is_partial() {
        let resent = copy.apply_request(&mut api.parse_request(body).unwrap(), true);
        assert!(resent.events.is_empty(), "resent: {:?}", resent.events);
    }
    delta.events
}

fn facts(events: &[ObservedEvent]) -> Vec<(&TrajectoryPayload, Option<&String>, bool)> {
    let facts = events.iter().map(|ObservedEvent { payload, fact_key, is_new_to_model }| {
        (payload, fact_key.as_ref(), *is_new_to_model)
    });
    facts.collect()
}

/// Inserts text wherever the request accepts it. The result contains the text, and without the
/// inserted bytes it is what the client sent.
fn check_insertions(api: Api, body: &str, request: &Request<'_>) {
    let results = request.items.iter().filter_map(|item| match item {
        Item::ToolResult { insertion_point, .. } => *insertion_point,
        _ => None,
    });
    let mut insertions: Vec<Insertion> =
        results.chain(request.insertion_point).map(|point| point.insertion(TEXT)).collect();
    let sent = insert(body.as_bytes(), &mut insertions);

    let mut cut = Vec::with_capacity(body.len());
    let mut rest = sent.as_slice();
    for Insertion { offset, json } in &insertions {
        let (before, after) = rest.split_at(offset - cut.len());
        cut.extend_from_slice(before);
        rest = after.strip_prefix(json.as_bytes()).expect("the insertion is at its offset");
    }
    cut.extend_from_slice(rest);
    assert_eq!(cut, body.as_bytes(), "the client's bytes changed");

    let sent = std::str::from_utf8(&sent).expect("text is inserted between characters");
    assert!(serde_json::from_str::<IgnoredAny>(sent).is_ok(), "the request is no JSON: {sent}");
    let read = api.parse_request(sent).unwrap_or_else(|| panic!("cannot be parsed: {sent}"));
    let before = api.parse_request(body).unwrap();
    assert_eq!(ids(&read), ids(&before), "calls or results changed: {sent}");
    assert_eq!((&read.model, &read.tools), (&before.model, &before.tools));
    // `Value` has a depth limit that the parsers do not have.
    if let (Ok(before), Ok(after)) = (serde_json::from_str(body), serde_json::from_str(sent)) {
        assert_eq!(count(&after), count(&before) + insertions.len(), "texts are missing: {sent}");
    }
}

/// The ids of all calls and results, in order.
fn ids(request: &Request<'_>) -> Vec<(bool, String)> {
    let id = |item: &Item<'_>| match item {
        Item::ToolCall { id, .. } => Some((true, id.to_string())),
        Item::ToolResult { id, .. } => Some((false, id.to_string())),
        Item::Message { .. } => None,
    };
    request.items.iter().filter_map(id).collect()
}

/// How often the inserted text is in the strings of this value.
fn count(value: &Value) -> usize {
    match value {
        Value::String(text) => text.matches(TEXT).count(),
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn check_response(api: Api, body: &[u8], conversation: &mut Conversation) -> Vec<ObservedEvent> {
    let (status, body) = body.strip_prefix(b"!").map_or((200, body), |body| (529, body));
    let reply = api.parse_response(status, body);
    assert_eq!(reply, api.parse_response(status, body), "the response is read in two ways");
    let Some(reply) = reply else { return Vec::new() };
    let mut copy = conversation.clone();
    let events = conversation.apply_reply(reply.clone());
    assert_eq!(facts(&events), facts(&copy.apply_reply(reply)));
    events
}
