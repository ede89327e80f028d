//! The fields of a trajectory before and after its steps.
//!
//! The steps are written one by one between `opening` and `closing`, and the trajectories of
//! subagents after them, so that a document need not fit into memory.

use midcourse::RunSummary;
use serde_json::{Map, Value, json};

use super::step::{prompt_tokens, usage_extra};
use super::{OWN, OWN_FORMAT, Version};

/// The run that a trajectory is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header<'a> {
    pub(crate) version: Version,
    pub(crate) run: &'a RunSummary,
    /// Id of the run that the document is about; this run may be one of its subagents.
    pub(crate) session_id: &'a str,
    pub(crate) depth: usize,
    /// Whether records of the run may have been changed or lost.
    pub(crate) is_damaged: bool,
}

/// The fields before the steps.
pub(crate) fn opening(header: Header<'_>) -> Map<String, Value> {
    let run = header.run;
    let mut agent = json!({
        "name": run.host,
        "version": run.host_version.as_deref().unwrap_or("unknown"),
    });
    let model = run.model.as_deref().map(Value::from);
    if let (Some(agent), Some(model)) = (agent.as_object_mut(), model) {
        agent.insert("model_name".to_owned(), model);
    }
    let mut own = json!({"format": OWN_FORMAT, "run_id": run.run_id, "depth": header.depth});
    if let Some(own) = own.as_object_mut() {
        if let Some(parent) = &run.parent_run_id {
            own.insert("parent_run_id".to_owned(), parent.as_str().into());
        }
        if header.is_damaged {
            own.insert("damaged".to_owned(), true.into());
        }
    }
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("schema_version", header.version.schema_version().into());
    set("session_id", header.session_id.into());
    set("trajectory_id", run.run_id.as_str().into());
    set("agent", agent);
    set("extra", json!({ OWN: own }));
    fields
}

/// The fields after the steps.
pub(crate) fn closing(run: &RunSummary, total_steps: u64) -> Map<String, Value> {
    let mut metrics = Map::new();
    let mut extra = Map::new();
    let mut set = |name: &str, value: Value| metrics.insert(name.to_owned(), value);
    if let Some(usage) = &run.tokens {
        set("total_prompt_tokens", prompt_tokens(usage).into());
        set("total_completion_tokens", usage.output_tokens.into());
        set("total_cached_tokens", usage.cache_read_input_tokens.into());
        extra = usage_extra(usage);
    }
    if let Some(cost) = run.cost {
        // Millionths of a dollar have an exact decimal form, which this parses.
        let (whole, part) = (cost.get() / 1_000_000, cost.get() % 1_000_000);
        let dollars: f64 = format!("{whole}.{part:06}").parse().unwrap_or_default();
        set("total_cost_usd", dollars.into());
    }
    set("total_steps", total_steps.into());
    if !extra.is_empty() {
        set("extra", extra.into());
    }
    Map::from_iter([("final_metrics".to_owned(), metrics.into())])
}
