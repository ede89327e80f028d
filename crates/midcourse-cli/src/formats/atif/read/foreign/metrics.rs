//! Tokens and costs in ATIF, whose prompt tokens include cached tokens.

use midcourse::Usage;
use serde_json::Value;

/// Tokens of one step; `None` if the step has none.
pub(super) fn usage_of(metrics: &Value) -> Option<Usage> {
    usage(metrics, ["prompt_tokens", "completion_tokens", "cached_tokens"])
}

/// Tokens of the whole trajectory.
pub(super) fn total_usage(metrics: &Value) -> Option<Usage> {
    usage(metrics, ["total_prompt_tokens", "total_completion_tokens", "total_cached_tokens"])
}

/// What a step cost, in dollars.
pub(super) fn cost_of(metrics: &Value) -> Option<f64> {
    metrics.get("cost_usd")?.as_f64().filter(|dollars| *dollars > 0.0)
}

fn usage(metrics: &Value, names: [&str; 3]) -> Option<Usage> {
    let count = |value: &Value| value.as_i64().filter(|count| *count >= 0);
    let [prompt, completion, cached] = names.map(|name| metrics.get(name).and_then(count));
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let extra = |name: &str| metrics.get("extra")?.get(name);
    let read = cached.unwrap_or_default();
    let uncached = prompt.unwrap_or_default().saturating_sub(read).max(0);
    let written = extra("cache_creation_input_tokens").and_then(count).unwrap_or_default();
    // A count that cannot be part of the prompt counts something else.
    let written = if written <= uncached { written } else { 0 };
    Some(Usage {
        input_tokens: uncached.saturating_sub(written),
        output_tokens: completion.unwrap_or_default(),
        cache_creation_input_tokens: written,
        cache_read_input_tokens: read,
        is_estimate: extra("is_estimate").and_then(Value::as_bool).unwrap_or(false),
    })
}
