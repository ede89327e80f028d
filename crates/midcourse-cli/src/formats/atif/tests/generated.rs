//! Runs with records of all kinds, in any order.

use midcourse::{
    Assignment, Channel, DecisionPoint, Feedback, Findings, GuidanceDelivered, GuidanceInjection,
    RunKey, RunSummary, Source, StoredRecord, SummaryState, Timestamp, TrajectoryPayload, Usage,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// A run as it is in a store.
#[derive(Debug, Clone)]
pub(super) struct StoredRun {
    pub(super) key: RunKey,
    pub(super) records: Vec<StoredRecord>,
    pub(super) children: Vec<StoredRun>,
}

impl StoredRun {
    pub(super) fn of(payloads: Vec<Value>) -> Self {
        let key = RunKey { run_id: "r".into(), parent_run_id: None, depth: 0 };
        let records = payloads.into_iter().enumerate();
        let records = records.map(|(seq, value)| stored(&key, seq, value)).collect();
        Self { key, records, children: Vec::new() }
    }

    pub(super) fn all_records(&self) -> impl Iterator<Item = &StoredRecord> {
        self.records.iter().chain(self.children.iter().flat_map(|child| &child.records))
    }

    pub(super) fn summary(&self) -> RunSummary {
        RunSummary {
            run_id: self.key.run_id.clone(),
            parent_run_id: self.key.parent_run_id.clone(),
            host: "test".to_owned(),
            started: Timestamp::default(),
            latest: Timestamp::default(),
            ended: None,
            outcome: None,
            reported_outcome: None,
            records: 0,
            calls: 0,
            errors: 0,
            deliveries: 0,
            task: None,
            folder: None,
            command: None,
            host_version: None,
            model: Some("model".to_owned()),
            exit_code: None,
            tokens: Some(Usage { input_tokens: 5, ..Usage::default() }),
            cost: Some(midcourse::MicroUsd::from_micro(1_234_567)),
            shadow_deliveries: 0,
            cleared: 0,
            ignored: 0,
            findings: Findings::default(),
            state: SummaryState::Current,
        }
    }
}

fn stored(key: &RunKey, seq: usize, value: Value) -> StoredRecord {
    StoredRecord {
        run: key.clone(),
        seq: u64::try_from(seq).unwrap(),
        at: Timestamp::from_unix_ms(1_790_000_000_000),
        schema_version: 1,
        source: Source::new("test", Channel::Hook),
        decision_point: None,
        fact: None,
        redactions: 0,
        failed: None,
        value,
        first_reported: None,
        conflicts: Vec::new(),
    }
}

const LONG_TEXT: &str = "a text that is long enough to be left out of the record";
const OTHER_TEXT: &str = "~0/~1 \u{0}\u{202e}\u{1f600} \"quoted\\\" and long enough to be left out";

fn long_args() -> Value {
    json!({"command": "make test", "b/c": {"~": LONG_TEXT}, "a": 1, "n": -0.0})
}

fn text() -> impl Strategy<Value = String> {
    // The second is equal to the JSON of some arguments.
    let known = [LONG_TEXT.to_owned(), long_args().to_string(), OTHER_TEXT.to_owned()];
    prop_oneof![select(known.to_vec()), Just(String::new()), "\\PC{0,60}", any::<String>()]
}

fn id() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c", "d", "", "call/~1"])
}

fn args() -> impl Strategy<Value = Value> {
    let reordered = json!({"a": 1, "command": "make test", "b/c": {"~": LONG_TEXT}, "n": -0.0});
    let list = json!([{"text": LONG_TEXT}, LONG_TEXT]);
    let known = vec![long_args(), reordered, list, Value::Null, json!({}), json!(7)];
    prop_oneof![select(known), text().prop_map(Value::from)]
}

fn blocks() -> impl Strategy<Value = Vec<Value>> {
    let block = prop_oneof![
        3 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image", "source": "https://a/b.png", "media_type": "image/png"})),
        1 => Just(json!({"type": "image", "source": "data:image/png;base64,AAAA", "media_type": "image/png"})),
        1 => Just(json!({"type": "image", "source": "file://x.bmp"})),
    ];
    vec(block, 0..3)
}

fn usage() -> impl Strategy<Value = Value> {
    (0_i64..9, any::<i64>(), any::<bool>()).prop_map(|(input, read, is_estimate)| {
        let usage = Usage {
            input_tokens: input,
            cache_read_input_tokens: read,
            is_estimate,
            ..Usage::default()
        };
        json!(usage)
    })
}

fn assistant() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        text().prop_map(|text| json!({"type": "thinking", "text": text})),
        (id(), args()).prop_map(
            |(id, arguments)| json!({"type": "tool_call", "id": id, "name": "t", "arguments": arguments})
        ),
    ];
    (vec(block, 0..4), option::of(usage()), option::of(text())).prop_map(
        |(blocks, usage, error)| {
            let mut message =
                json!({"role": "assistant", "content": blocks, "stop_reason": "end_turn"});
            let fields = message.as_object_mut().unwrap();
            fields.extend(usage.map(|usage| ("usage".to_owned(), usage)));
            fields.extend(error.map(|error| ("error_message".to_owned(), error.into())));
            message
        },
    )
}

fn message() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"role": "user", "content": text})),
        blocks().prop_map(|blocks| json!({"role": "user", "content": blocks})),
        assistant(),
        text().prop_map(|text| json!({"role": "system", "content": text})),
        text().prop_map(|text| json!({"role": "custom", "kind": "k", "payload": text})),
        (id(), blocks()).prop_map(|(id, blocks)| json!({"role": "tool_result",
            "tool_call_id": id, "tool_name": "t", "content": blocks, "is_error": false})),
    ]
}

fn delivered() -> impl Strategy<Value = Value> {
    let assignment = prop_oneof![
        Just(None),
        Just(Some(Assignment::Delivered)),
        Just(Some(Assignment::Withheld)),
    ];
    (any::<bool>(), any::<bool>(), assignment).prop_map(|(is_feedback, shadow, assignment)| {
        let payload = if is_feedback {
            let feedback = Feedback::new("Deadline", LONG_TEXT);
            let text = feedback.render();
            TrajectoryPayload::FeedbackDelivered {
                feedback,
                text,
                tool_call_id: Some("a".into()),
                shadow,
                assignment,
            }
        } else {
            let guidance = GuidanceDelivered {
                provider_name: "loop".into(),
                injection: GuidanceInjection::new("loop", LONG_TEXT).unwrap(),
                decision_point: DecisionPoint::PostToolResult,
                classification: midcourse::ClassificationResult::no(),
                timestamp: Timestamp::default(),
            };
            TrajectoryPayload::GuidanceDelivered { guidance, shadow, assignment }
        };
        json!(payload)
    })
}

fn bookkeeping() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"kind": "turn_started"}),
        json!({"kind": "resumed"}),
        json!({"kind": "context_compacted", "trigger": "auto"}),
        json!({"kind": "gap", "lost": 3, "reason": "io"}),
        json!({"kind": "proxy_attached"}),
        json!({"kind": "cost_reported", "total_micro_usd": 7}),
        json!({"kind": "outcome", "delivery_seq": 1, "verdict": "cleared", "after_calls": 2}),
        json!({"kind": "config_applied", "config": LONG_TEXT}),
        json!({"kind": "unread", "host": "h", "raw": LONG_TEXT}),
        json!({"kind": "run_described", "model": "m"}),
        json!({"kind": "provider_request_prepared", "iteration": 1, "model_id": null,
               "system_prompt_chars": 1, "message_count": 2, "tool_count": 0, "tools": []}),
        json!({"kind": "a_kind_of_a_newer_release", "text": LONG_TEXT}),
    ])
}

fn payload() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => message().prop_map(|message| json!({"kind": "message_appended", "message": message})),
        4 => (id(), args()).prop_map(|(id, args)| json!({"kind": "tool_started",
            "tool_call_id": id, "tool_name": "t", "args": args})),
        4 => (id(), blocks(), any::<bool>()).prop_map(|(id, content, is_error)| json!({
            "kind": "tool_ended", "tool_call_id": id, "tool_name": "t", "is_error": is_error,
            "result": {"content": content, "is_error_unknown": !is_error}})),
        1 => (id(), option::of(text())).prop_map(|(id, reason)| json!({"kind": "denied",
            "tool_call_id": id, "tool_name": "t", "reason": reason})),
        1 => (assistant(), text()).prop_map(|(assistant, text)| json!({"kind": "turn_ended",
            "assistant": assistant, "tool_results": [{"role": "user", "content": text}]})),
        1 => vec(message(), 0..3).prop_map(|messages| json!({"kind": "run_ended",
            "outcome": "completed", "new_messages": messages})),
        1 => usage().prop_map(|usage| json!({"kind": "usage_reported", "usage": usage})),
        2 => delivered(),
        4 => bookkeeping(),
    ]
}

type Envelope = (u64, u32, Option<String>, Option<DecisionPoint>, u32, Vec<Value>);

fn envelope() -> impl Strategy<Value = Envelope> {
    (
        prop_oneof![0_u64..2_000_000_000_000, any::<u64>()],
        0_u32..2,
        option::of("[a-c]:[0-9]"),
        option::of(Just(DecisionPoint::PreToolSelection)),
        0_u32..2,
        vec(bookkeeping(), 0..2),
    )
}

fn records(key: RunKey, count: usize) -> impl Strategy<Value = Vec<StoredRecord>> {
    vec((payload(), envelope()), 0..count).prop_map(move |records| {
        let records = records.into_iter().enumerate();
        let record = |(seq, (value, envelope)): (usize, (Value, Envelope))| {
            let (at, schema_version, fact, decision_point, redactions, conflicts) = envelope;
            let at = Timestamp::from_unix_ms(at);
            let record = stored(&key, seq, value);
            let failed = (redactions > 0).then_some(true);
            let more = (fact, decision_point, redactions, conflicts);
            let (fact, decision_point, redactions, conflicts) = more;
            StoredRecord {
                at,
                schema_version,
                fact,
                decision_point,
                redactions,
                failed,
                conflicts,
                ..record
            }
        };
        records.map(record).collect()
    })
}

/// A run with up to two child runs.
pub(super) fn stored_run() -> impl Strategy<Value = StoredRun> {
    let root = RunKey { run_id: "r".into(), parent_run_id: None, depth: 0 };
    let child =
        |name: &str| RunKey { run_id: name.into(), parent_run_id: Some("r".into()), depth: 1 };
    // One of them has an id that a result can name.
    let keys = [child("r.a text that is long"), child("r.b")];
    let [first, second] = keys.map(|key| {
        records(key.clone(), 6).prop_map(move |records| StoredRun {
            key: key.clone(),
            records,
            children: Vec::new(),
        })
    });
    (records(root.clone(), 40), option::of(first), option::of(second)).prop_map(
        move |(records, first, second)| StoredRun {
            key: root.clone(),
            records,
            children: first.into_iter().chain(second).collect(),
        },
    )
}
