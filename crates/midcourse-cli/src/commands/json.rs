//! The JSON objects that several commands print: a run and a record. docs/json.md describes them.

use midcourse::{MicroUsd, RunSummary, StoredRecord, Usage};
use serde_json::{Value, json};

use crate::display::rfc3339;

/// A run, as `list` and `show` print it.
pub(super) fn run_json(run: &RunSummary) -> Value {
    let trouble = run.findings.trouble.as_ref();
    json!({
        "type": "run", "run_id": run.run_id, "parent_run_id": run.parent_run_id, "host": run.host,
        "host_version": run.host_version, "model": run.model, "task": run.task,
        "folder": run.folder, "command": run.command, "started": rfc3339(run.started),
        "latest": rfc3339(run.latest), "ended": run.ended.map(rfc3339), "outcome": run.outcome,
        "exit_code": run.exit_code, "records": run.records, "calls": run.calls,
        "errors": run.errors, "deliveries": run.deliveries,
        "shadow_deliveries": run.shadow_deliveries, "cleared": run.cleared,
        "ignored": run.ignored,
        "trouble": trouble.map(|it| {
            json!({"seq": it.seq, "at": rfc3339(it.at), "calls": it.calls})
        }),
        "patterns": run.findings.patterns, "tokens": run.tokens.as_ref().map(tokens_json),
        "cost_usd": run.cost.map(dollars),
    })
}

fn tokens_json(tokens: &Usage) -> Value {
    json!({
        "input": tokens.input_tokens, "output": tokens.output_tokens,
        "cache_read": tokens.cache_read_input_tokens,
        "cache_write": tokens.cache_creation_input_tokens, "is_estimate": tokens.is_estimate,
    })
}

#[expect(clippy::cast_precision_loss, reason = "no run costs 2^52 millionths of a dollar")]
fn dollars(cost: MicroUsd) -> f64 {
    cost.get() as f64 / 1e6
}

/// A record, as `show` and `tail` print it. Fields without a value are left out.
pub(super) fn record_json(record: &StoredRecord) -> Value {
    let mut line = json!({
        "type": "record", "run_id": record.run.run_id, "parent_run_id": record.run.parent_run_id,
        "seq": record.seq, "at": rfc3339(record.at), "host": record.source.host(),
        "channel": record.source.channel(), "kind": record.kind(), "failed": record.failed,
        "decision_point": record.decision_point, "fact": record.fact,
        "schema_version": record.schema_version, "depth": record.run.depth,
    });
    if let Value::Object(fields) = &mut line {
        fields.retain(|_, value| !value.is_null());
        if record.redactions > 0 {
            fields.insert("redactions".to_owned(), record.redactions.into());
        }
        if !record.conflicts.is_empty() {
            fields.insert("conflicts".to_owned(), record.conflicts.clone().into());
        }
        fields.insert("payload".to_owned(), record.value.clone());
    }
    line
}
