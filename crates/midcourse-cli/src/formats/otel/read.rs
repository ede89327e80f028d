//! Reads spans from files: OTLP in JSON (a collector's file exporter, `midcourse export --to otlp`),
//! exports of Phoenix, MLflow and the OpenTelemetry SDKs, and nested traces.
//!
//! Spans of midcourse give the records from which they were made. Other spans are read by the GenAI
//! conventions, by OpenInference and by what other instrumentations write: agents become runs, tool
//! and model calls their records. The spans of a trace can be in any order, so the whole file is read
//! before records are made.

mod attributes;
mod collect;
mod messages;
mod run;
mod tool_calls;
mod trace;

use std::collections::HashSet;

use midcourse::{Channel, Source, Timestamp};
use serde_json::{Map, Value};

use super::names::{RECORD, RECORDS, RUN_ID};
use super::packed::unpack;
use crate::formats::records::{LineDefaults, parse_line};
use crate::session_file::{Fate, Found, Head, SessionFile, SessionReader};
use attributes::Attributes;
use collect::{RawSpan, collect};

/// Spans after this many are left out and counted.
const MAX_SPANS: usize = 1_000_000;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| head.has_keys(&[key]));
    let mentions = |text: &str| memchr::memmem::find(head.bytes, text.as_bytes()).is_some();
    let has_span_id = || mentions("\"span_id\"") || mentions("\"spanId\"");
    if has(&["resourceSpans", "resource_spans"]) {
        return true;
    }
    let is_span = |line: &Map<String, Value>| {
        let id = ["span_id", "spanId"];
        let has_id = |fields: &Map<String, Value>| id.iter().any(|key| fields.contains_key(*key));
        has_id(line) || line.get("context").and_then(Value::as_object).is_some_and(has_id)
    };
    // A document with all spans of a trace, or a list of spans.
    let is_document = (has(&["spans", "data"]) && has_span_id())
        || (has(&["span_id", "spanId", "context"]) && has_span_id());
    is_document || head.lines.iter().any(is_span)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { file_time: file.modified })
}

struct Reader {
    file_time: Timestamp,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let text = String::from_utf8_lossy(bytes);
        let raw = collect(&text, MAX_SPANS, found);
        let mut own = Vec::new();
        let mut foreign = Vec::new();
        for raw in raw {
            match self.own_records(&raw) {
                None => foreign.push(raw),
                Some(records) => {
                    let is_whole = records.iter().all(Option::is_some);
                    own.extend(records.into_iter().flatten());
                    let kind = format!("midcourse {}", raw.operation());
                    found.count(&kind, if is_whole { Fate::Used } else { Fate::Invalid });
                }
            }
        }
        self.push_own(own, found);
        trace::push_traces(&foreign, self.file_time, found);
    }
}

impl Reader {
    /// The records in a span of midcourse, each `None` if it is damaged; `None` for other spans.
    fn own_records(&self, raw: &RawSpan<'_>) -> Option<Vec<Option<Value>>> {
        // Parsing the attributes is expensive, and most files have no spans of midcourse.
        raw.mentions(RUN_ID).then_some(())?;
        let span = raw.parse(self.file_time)?;
        span.attributes.text(&[RUN_ID])?;
        let mut records = Vec::new();
        if span.attributes.text(&[RECORDS]).is_some() {
            match unpack(&span.attributes) {
                Some(unpacked) => records.extend(unpacked.into_iter().map(Some)),
                None => records.push(None),
            }
        }
        for event in &span.events {
            if let Some(record) = event.attributes.text(&[RECORD]) {
                records.push(serde_json::from_str(record).ok());
            }
        }
        Some(records)
    }

    /// Adds the records of midcourse: parents before children, and each run in its order.
    fn push_own(&self, mut records: Vec<Value>, found: &mut Found) {
        let number = |record: &Value, name: &str| record.get(name).and_then(Value::as_u64);
        let run = |record: &Value| {
            record.get("run_id").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        records.sort_by_cached_key(|record| {
            (number(record, "depth"), run(record), number(record, "seq"))
        });
        let mut seen = HashSet::new();
        let defaults = LineDefaults {
            run_id: None,
            source: Source::new("import", Channel::Import),
            at: self.file_time,
            schema_version: 0,
            decision_point: None,
        };
        for record in records {
            // A span that was sent twice is in the file twice.
            if number(&record, "seq").is_some_and(|seq| !seen.insert((run(&record), seq))) {
                continue;
            }
            match parse_line(&record.to_string(), &defaults) {
                Ok(record) => found.records.push(record),
                Err(error) => found.invalid("midcourse record", error),
            }
        }
    }
}

impl super::packed::TextAttributes for Attributes {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.value(&[name])?.as_str()
    }
}
