//! Records become spans and the same records again; spans of other programs become runs; any bytes
//! are accepted.

use std::collections::HashSet;
use std::path::Path;

use midcourse::{Channel, ForeignRecord, Source, Timestamp, TrajectoryPayload};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{RunSpans, Span, reader, recognises, request_line, trace_id};
use crate::formats::records::{LineDefaults, parse_line};
use crate::session_file::{Found, Head, SessionFile};

fn read(bytes: &[u8]) -> Found {
    let modified = Timestamp::from_unix_ms(7);
    let mut found = Found::default();
    let mut reader = reader(&SessionFile { path: Path::new("spans.json"), modified });
    reader.read(bytes, &mut found);
    reader.end(&mut found);
    found
}

fn parse(record: &Value) -> ForeignRecord {
    let defaults = LineDefaults {
        run_id: None,
        source: Source::new("import", Channel::Import),
        at: Timestamp::from_unix_ms(7),
        schema_version: 0,
        decision_point: None,
    };
    parse_line(&record.to_string(), &defaults).unwrap()
}

/// The spans of the records. The run seems to be over after each number of records in `ends`, and is
/// over at the end.
fn spans(records: &[Value], ends: &[usize]) -> Vec<Span> {
    let mut run = RunSpans::new("r", trace_id("r"), None, Vec::new());
    let mut spans = Vec::new();
    for (at, record) in records.iter().enumerate() {
        if ends.contains(&at) {
            spans.extend(run.finish());
        }
        spans.extend(run.add(record.clone()));
    }
    spans.extend(run.finish());
    spans
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,12}", ".{0,6}", Just("null".to_owned()), Just("{\"a\":1}".to_owned())]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any_text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|it| json!(it)),
        ]
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        any_text().prop_map(|text| json!({"type": "text", "text": text})),
        any_text().prop_map(|text| json!({"type": "reasoning", "text": text})),
        any_text().prop_map(|text| json!({"type": "thinking", "text": text})),
        any_json().prop_map(
            |args| json!({"type": "tool_call", "id": "a", "name": "Bash", "arguments": args})
        ),
        any_json().prop_map(|it| json!({"type": "reasoning_details", "details": [it]})),
    ];
    prop_oneof![
        any_text().prop_map(|text| json!({"role": "user", "content": text})),
        any_text().prop_map(|text| json!({"role": "system", "content": text})),
        any_text().prop_map(|text| json!({"role": "user",
            "content": [{"type": "text", "text": text}, {"type": "image", "source": "data:,"}]})),
        any_text().prop_map(|text| json!({"role": "tool_result", "tool_call_id": "a",
            "tool_name": "Bash", "content": [{"type": "text", "text": text}]})),
        any_json().prop_map(|it| json!({"role": "custom", "kind": "x", "payload": it})),
        prop::collection::vec(block, 0..4).prop_map(|blocks| json!({"role": "assistant",
            "content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 3}})),
    ]
}

fn any_payload() -> impl Strategy<Value = Value> {
    let id = || prop_oneof![Just(""), Just("a"), Just("b"), Just("c")];
    prop_oneof![
        3 => (id(), any_json()).prop_map(|(id, args)| json!({"kind": "tool_started",
            "tool_call_id": id, "tool_name": "Bash", "args": args})),
        3 => (id(), prop::collection::vec(any_text(), 0..3), any::<bool>()).prop_map(
            |(id, texts, is_error)| {
                let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
                json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": "Bash",
                       "result": {"content": blocks.collect::<Value>()}, "is_error": is_error})
            }
        ),
        1 => (id(), any_text()).prop_map(|(id, reason)| json!({"kind": "denied",
            "tool_call_id": id, "tool_name": "Bash", "reason": reason})),
        3 => any_message().prop_map(|it| json!({"kind": "message_appended", "message": it})),
        1 => Just(json!({"kind": "turn_started"})),
        1 => Just(json!({"kind": "turn_ended", "assistant": {"role": "assistant",
            "content": [{"type": "text", "text": "t"}], "stop_reason": "end_turn"},
            "tool_results": []})),
        1 => Just(json!({"kind": "usage_reported", "usage": {"input_tokens": 1}})),
        1 => Just(json!({"kind": "cost_reported", "total_micro_usd": 5})),
        1 => Just(json!({"kind": "outcome", "delivery_seq": 1, "verdict": "cleared",
            "after_calls": 2})),
        1 => (id(), any_text()).prop_map(|(id, text)| json!({"kind": "feedback_delivered",
            "feedback": {"provider_name": "P", "summary": "s"}, "text": text,
            "tool_call_id": id})),
        1 => Just(json!({"kind": "run_ended", "outcome": "failed", "new_messages": []})),
        1 => any_json().prop_map(|it| json!({"kind": "of_a_later_release", "value": it})),
    ]
}

fn any_records() -> impl Strategy<Value = Vec<Value>> {
    let payloads = prop::collection::vec((any_payload(), 0_u64..3), 1..30);
    payloads.prop_map(|payloads| {
        let mut at = 1_700_000_000_000;
        let record = |(seq, (payload, step)): (usize, (Value, u64))| {
            at += step;
            json!({"schema_version": 1, "seq": seq, "run_id": "r", "depth": 0,
                   "recorded_at_unix_ms": at, "payload": payload, "host": "h", "channel": "hook"})
        };
        payloads.into_iter().enumerate().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Also if the run seemed to be over in between, and if every span is in the file twice.
    #[test]
    fn spans_give_the_same_records(records in any_records(), ends in prop::collection::vec(0..30_usize, 0..2)) {
        let spans = spans(&records, &ends);
        let line = request_line(&spans);
        let found = read(format!("{line}\n{line}\n").as_bytes());
        let expected: Vec<ForeignRecord> = records.iter().map(parse).collect();
        prop_assert_eq!(found.records, expected);
        prop_assert_eq!(found.counts.total().invalid, 0);
        let head = Head::new(Path::new("x"), line.as_bytes());
        prop_assert!(recognises(&head));
    }

    /// The cursor relies on this: which spans are complete after a record does not depend on later
    /// records.
    #[test]
    fn later_records_do_not_change_complete_spans(records in any_records(), cut in 0..30_usize) {
        let add_all = |records: &[Value]| {
            let mut run = RunSpans::new("r", trace_id("r"), None, Vec::new());
            records.iter().flat_map(|record| run.add(record.clone())).collect::<Vec<_>>()
        };
        let (before, all) = (add_all(&records[..cut.min(records.len())]), add_all(&records));
        prop_assert_eq!(&all[..before.len()], &before[..]);
    }

    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes).records.len() <= bytes.len());
    }

    /// Parts of spans in any order and combination.
    #[test]
    fn any_json_of_spans_is_accepted(parts in prop::collection::vec(0..PARTS.len(), 0..40)) {
        let text: String = parts.iter().map(|part| PARTS[*part]).collect();
        let found = read(text.as_bytes());
        prop_assert!(found.records.len() <= text.len());
    }

    /// A file that is cut off gives what is before the cut.
    #[test]
    fn a_document_that_is_cut_off_is_read_up_to_the_cut(end in 0..NESTED.len()) {
        let end = NESTED.floor_char_boundary(end);
        let (whole, part) = (read(NESTED.as_bytes()), read(&NESTED.as_bytes()[..end]));
        prop_assert!(part.records.len() <= whole.records.len());
    }
}

const PARTS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\"spans\":",
    "\"child_spans\":",
    "\"span_id\":\"a\"",
    "\"parent_span_id\":\"a\"",
    "\"span_id\":\"b\"",
    "\"parent_span_id\":\"b\"",
    "\"trace_id\":\"t\"",
    "\"attributes\":{\"openinference.span.kind\":\"AGENT\"}",
    "\"attributes\":{\"openinference.span.kind\":\"TOOL\",\"tool.name\":\"x\"}",
    "\"attributes\":{\"openinference.span.kind\":\"LLM\",\"llm.output_messages.0.message.role\":\"u\"}",
    "\"attributes\":[{\"key\":\"midcourse.records\",\"value\":{\"stringValue\":\"[{},{}]\"}}]",
    "\"attributes\":[{\"key\":\"midcourse.elided\",\"value\":{\"stringValue\":\"{\\\"/9/a\\\":\\\"input 9\\\"}\"}}]",
    "\"timestamp\":\"2025-03-19T16:37:59Z\"",
    "\"start_time\":1e300",
    "\"duration\":\"PT1M\"",
];

/// A trace as TRAIL has it: an agent whose actions are code, with another agent inside.
const NESTED: &str = r####"{
  "trace_id": "t1",
  "spans": [
    {"timestamp": "2025-03-19T16:00:00Z", "trace_id": "t1", "span_id": "main", "parent_span_id": null,
     "span_name": "main", "service_name": "gaia", "span_attributes": {}, "duration": "PT60S",
     "status_code": "Unset", "status_message": "", "events": [], "child_spans": [
      {"timestamp": "2025-03-19T16:00:01Z", "trace_id": "t1", "span_id": "agent", "parent_span_id": "main",
       "span_name": "CodeAgent.run", "duration": "PT50S", "status_code": "Ok", "events": [],
       "span_attributes": {"openinference.span.kind": "AGENT",
         "input.value": "{\"task\": \"Count the fish\", \"stream\": false}"}, "child_spans": [
        {"timestamp": "2025-03-19T16:00:02Z", "trace_id": "t1", "span_id": "step1", "parent_span_id": "agent",
         "span_name": "Step 1", "duration": "PT20S", "status_code": "Error", "status_message": "",
         "events": [{"Name": "exception", "Attributes": {"exception.message": "NameError: fish"}}],
         "span_attributes": {"openinference.span.kind": "CHAIN"}, "child_spans": [
          {"timestamp": "2025-03-19T16:00:03Z", "trace_id": "t1", "span_id": "llm1", "parent_span_id": "step1",
           "span_name": "LiteLLMModel.__call__", "duration": "PT5S", "status_code": "Ok", "events": [],
           "span_attributes": {"openinference.span.kind": "LLM", "llm.model_name": "o3-mini",
             "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "Use code.",
             "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.content": "New task",
             "llm.output_messages.0.message.role": "assistant",
             "llm.output_messages.0.message.content": "Code:\n```py\ncount(fish)\n```<end_code>",
             "llm.token_count.prompt": "100", "llm.token_count.completion": "7"}, "child_spans": []},
          {"timestamp": "2025-03-19T16:00:09Z", "trace_id": "t1", "span_id": "inner", "parent_span_id": "step1",
           "span_name": "ToolCallingAgent.run", "duration": "PT10S", "status_code": "Ok", "events": [],
           "span_attributes": {"openinference.span.kind": "AGENT", "input.value": "Search the fish"},
           "child_spans": [
            {"timestamp": "2025-03-19T16:00:10Z", "trace_id": "t1", "span_id": "llm2", "parent_span_id": "inner",
             "span_name": "LiteLLMModel.__call__", "duration": "PT2S", "status_code": "Ok", "events": [],
             "span_attributes": {"openinference.span.kind": "LLM",
               "llm.output_messages.0.message.role": "assistant",
               "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
               "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "web_search",
               "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{\"query\": \"fish\"}"},
             "child_spans": []},
            {"timestamp": "2025-03-19T16:00:13Z", "trace_id": "t1", "span_id": "tool1", "parent_span_id": "inner",
             "span_name": "SearchInformationTool", "duration": "PT1S", "status_code": "Ok", "events": [],
             "span_attributes": {"openinference.span.kind": "TOOL", "tool.name": "web_search",
               "input.value": "{\"query\": \"fish\"}", "output.value": "12 fish"}, "child_spans": []}]}]}]}]}]}
"####;

/// One line per record: the run, and what is in it.
fn outline(found: &Found) -> Vec<String> {
    let event = |record: &ForeignRecord| {
        let event = &record.events[0];
        let text = match &event.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                format!("{tool_name} {tool_call_id} {args}")
            }
            TrajectoryPayload::ToolEnded { tool_call_id, result, is_error, .. } => {
                let unknown = if result.is_error_unknown { " (unknown)" } else { "" };
                format!("{tool_call_id} -> {}{unknown} error={is_error}", result.comparable_text())
            }
            TrajectoryPayload::Denied { tool_call_id, reason, .. } => {
                format!("{tool_call_id} denied: {}", reason.as_deref().unwrap_or("?"))
            }
            TrajectoryPayload::MessageAppended { message } => {
                let message = serde_json::to_value(message).unwrap();
                format!("{} {} {}", message["role"], message["content"], message["usage"])
            }
            TrajectoryPayload::RunEnded { outcome, .. } => outcome.as_str().to_owned(),
            _ => String::new(),
        };
        format!("{} {} {text}", event.run.run_id, event.payload.kind()).trim_end().to_owned()
    };
    found.records.iter().map(event).collect()
}

#[test]
fn a_nested_trace_becomes_a_run_and_a_child_run() {
    let found = read(NESTED.as_bytes());
    assert!(recognises(&Head::new(Path::new("trace.json"), NESTED.as_bytes())));
    insta::assert_snapshot!(outline(&found).join("\n"), @r##"
    t1 run_started
    t1 run_described
    t1 message_appended "user" "Count the fish" null
    t1 message_appended "system" "Use code." null
    t1 provider_request_prepared
    t1 message_appended "assistant" [{"type":"text","text":"Code:\n```py\ncount(fish)\n```<end_code>"}] {"input_tokens":100,"output_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}
    t1 tool_started python_interpreter step1 {"code":"count(fish)\n"}
    t1 tool_ended step1 -> NameError: fish error=true
    t1 run_ended completed
    t1-inner run_started
    t1-inner message_appended "user" "Search the fish" null
    t1-inner provider_request_prepared
    t1-inner message_appended "assistant" [{"type":"tool_call","id":"call_1","name":"web_search","arguments":{"query":"fish"}}] null
    t1-inner tool_started web_search call_1 {"query":"fish"}
    t1-inner tool_ended call_1 -> 12 fish error=false
    t1-inner run_ended completed
    "##);
    let kinds: Vec<String> = found
        .counts
        .iter()
        .map(|(kind, counts)| format!("{kind} {} {}", counts.used, counts.ignored))
        .collect();
    assert_eq!(kinds, ["(no kind) 0 1", "AGENT 2 0", "CHAIN 1 0", "LLM 2 0", "TOOL 1 0"]);
    let keys: HashSet<_> = found
        .records
        .iter()
        .map(|record| &record.events[0])
        .map(|it| {
            (it.run.run_id.clone(), it.payload.kind(), it.fact.clone().unwrap().as_str().to_owned())
        })
        .collect();
    assert_eq!(keys.len(), found.records.len(), "importing again adds nothing");
}

#[test]
fn flat_spans_of_the_genai_conventions_are_read_in_any_order() {
    let lines = [
        json!({"name": "execute_tool rm", "context": {"trace_id": "0xaa", "span_id": "0x02"},
               "parent_id": "0x01", "start_time": "2026-01-01T00:00:05Z", "end_time": "2026-01-01T00:00:06Z",
               "status": {"status_code": "ERROR", "description": "denied: not allowed"},
               "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "rm",
                   "gen_ai.tool.call.id": "k", "gen_ai.tool.call.arguments": "{\"path\":\"/\"}",
                   "error.type": "denied"}}),
        json!({"name": "chat m", "context": {"trace_id": "0xaa", "span_id": "0x03"}, "parent_id": "0x01",
               "start_time": "2026-01-01T00:00:01Z", "end_time": "2026-01-01T00:00:04Z",
               "status": {"status_code": "UNSET"},
               "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                   "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6,
                   "gen_ai.input.messages": "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"go\"}]}]",
                   "gen_ai.output.messages": "[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"k\",\"name\":\"rm\",\"arguments\":{\"path\":\"/\"}}],\"finish_reason\":\"tool_call\"}]"}}),
        json!({"name": "invoke_agent a", "context": {"trace_id": "0xaa", "span_id": "0x01"}, "parent_id": null,
               "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:09Z",
               "status": {"status_code": "UNSET"}, "attributes": {"gen_ai.operation.name": "invoke_agent"}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert!(recognises(&Head::new(Path::new("spans.jsonl"), text.as_bytes())));
    insta::assert_snapshot!(outline(&read(text.as_bytes())).join("\n"), @r##"
    aa run_started
    aa run_described
    aa message_appended "user" "go" null
    aa provider_request_prepared
    aa message_appended "assistant" [{"type":"tool_call","id":"k","name":"rm","arguments":{"path":"/"}}] {"input_tokens":5,"output_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}
    aa tool_started rm k {"path":"/"}
    aa denied k denied: not allowed
    aa run_ended unknown
    "##);
}

#[test]
fn a_broken_line_is_counted_and_the_others_are_read() {
    let good = r#"{"span_id":"a","trace_id":"t","name":"x","attributes":{"openinference.span.kind":"TOOL"}}"#;
    let found = read(format!("{good}\nbroken\n{good}\n{{\"span_id\": \"a").as_bytes());
    assert_eq!((found.counts.total().used, found.counts.total().invalid), (2, 2));
    assert!(found.problem.is_some());
}

#[test]
fn a_subagent_is_nested_in_the_call_that_has_its_task() {
    let record = |seq: u64, at: u64, payload: Value| json!({"seq": seq, "run_id": "r", "recorded_at_unix_ms": at, "payload": payload});
    let started = |seq, at, id: &str, prompt: &str| {
        record(
            seq,
            at,
            json!({"kind": "tool_started", "tool_call_id": id, "tool_name": "Task",
                               "args": {"prompt": prompt}}),
        )
    };
    let subagent = |run_id: &str, started_ms, task: &str| super::Subagent {
        run_id: run_id.to_owned(),
        started_ms,
        task: Some(task.to_owned()),
    };
    let subagents = vec![
        subagent("one", 1_010, "Find the first\u{2026}"),
        subagent("two", 1_010, "Find the second module"),
        subagent("other", 1_010, "short"),
        subagent("late", 99_000, "Never started by a call"),
    ];
    let mut run = RunSpans::new("r", trace_id("r"), None, subagents);
    let mut spans = Vec::new();
    spans.extend(run.add(started(0, 1_000, "a", "Find the second  module,\nplease")));
    spans.extend(run.add(started(1, 1_001, "b", "Find the first module")));
    spans.extend(run.add(started(2, 1_002, "c", "Something else")));
    let end = json!({"kind": "tool_ended", "tool_call_id": "c", "tool_name": "Task",
                     "result": {"content": []}, "is_error": false});
    spans.extend(run.add(record(3, 2_000, end)));
    spans.extend(run.finish());
    let span_of = |id: &str| {
        let is_call = |span: &&Span| span.attributes.text("gen_ai.tool.call.id") == Some(id);
        spans.iter().find(is_call).unwrap().span_id
    };
    assert_eq!(run.parent_of("one"), span_of("b"));
    assert_eq!(run.parent_of("two"), span_of("a"));
    assert_eq!(run.parent_of("other"), span_of("c"));
    assert_eq!(run.parent_of("late"), spans.last().unwrap().span_id, "the agent span");
}
