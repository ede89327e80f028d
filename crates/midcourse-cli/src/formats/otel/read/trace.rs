//! Finds the runs in the spans of each trace.
//!
//! A trace is a run. An agent inside another agent is a child run; so is each of several agents that
//! are next to each other.

use std::collections::HashMap;

use midcourse::{RunIdentity, Timestamp};

use super::collect::{RawSpan, ReadSpan};
use super::run::push_run;
use crate::session_file::{Fate, Found};

/// What a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Agent,
    Tool,
    Model,
    /// A step of a framework that contains other spans.
    Chain,
    /// Something that is not part of a run, such as an embedding.
    Other,
    /// Nothing says what the span is.
    None,
}

impl ReadSpan {
    /// What the span describes, and the instrumentation's word for it.
    pub(super) fn kind(&self) -> (SpanKind, String) {
        let names = [
            "openinference.span.kind",
            "gen_ai.operation.name",
            "traceloop.span.kind",
            "mlflow.spanType",
            "span_kind",
        ];
        let attributes = &self.attributes;
        let words = names.iter().filter_map(|name| attributes.text(&[*name]));
        for word in words {
            let word = word.trim_matches('"');
            let kind = match word.to_ascii_uppercase().as_str() {
                "AGENT" | "INVOKE_AGENT" => SpanKind::Agent,
                "TOOL" | "EXECUTE_TOOL" | "RETRIEVER" | "RETRIEVAL" => SpanKind::Tool,
                "LLM" | "CHAT" | "CHAT_MODEL" | "TEXT_COMPLETION" | "GENERATE_CONTENT"
                | "RESPONSE" => SpanKind::Model,
                "CHAIN" | "WORKFLOW" | "TASK" => SpanKind::Chain,
                "EMBEDDING" | "EMBEDDINGS" | "RERANKER" | "GUARDRAIL" | "EVALUATOR" | "PROMPT"
                | "PARSER" | "CREATE_AGENT" => SpanKind::Other,
                // The kind of OpenTelemetry itself, such as SPAN_KIND_CLIENT or SERVER.
                _ => continue,
            };
            return (kind, word.to_owned());
        }
        let has = |prefix: &str| attributes.has_name(|name| name.starts_with(prefix));
        if has("gen_ai.tool.name") || has("gen_ai.tool.call") {
            (SpanKind::Tool, "(tool)".to_owned())
        } else if has("llm.") || has("gen_ai.request.model") || has("gen_ai.prompt") {
            (SpanKind::Model, "(model)".to_owned())
        } else {
            (SpanKind::None, "(no kind)".to_owned())
        }
    }
}

/// A span of a trace, with its place among the others.
pub(super) struct Node {
    pub(super) span: ReadSpan,
    pub(super) kind: SpanKind,
    /// The span in which this one is nested, by its position.
    pub(super) parent: Option<usize>,
}

/// Adds the records of all traces, in the order of their first spans.
pub(super) fn push_traces(spans: &[RawSpan<'_>], default_time: Timestamp, found: &mut Found) {
    let mut order: Vec<String> = Vec::new();
    let mut traces: HashMap<String, Vec<Node>> = HashMap::new();
    for raw in spans {
        let Some(span) = raw.parse(default_time) else { continue };
        let (kind, word) = span.kind();
        let fate = match kind {
            SpanKind::Agent | SpanKind::Tool | SpanKind::Model => Fate::Used,
            SpanKind::Chain if super::tool_calls::is_code_step(&span) => Fate::Used,
            SpanKind::Chain | SpanKind::Other | SpanKind::None => Fate::Ignored,
        };
        found.count(&word, fate);
        let trace = traces.entry(span.trace_id.clone()).or_insert_with_key(|id| {
            order.push(id.clone());
            Vec::new()
        });
        trace.push(Node { span, kind, parent: None });
    }
    for id in order {
        if let Some(nodes) = traces.remove(&id) {
            push_trace(&id, nodes, found);
        }
    }
}

fn push_trace(trace_id: &str, mut nodes: Vec<Node>, found: &mut Found) {
    let is_used =
        |node: &Node| matches!(node.kind, SpanKind::Agent | SpanKind::Tool | SpanKind::Model);
    if !nodes.iter().any(is_used) {
        return;
    }
    // Parents before children where both begin at the same time.
    nodes.sort_by_key(|node| (node.span.start, std::cmp::Reverse(node.span.end)));
    let positions: HashMap<String, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.span.span_id.clone(), at)).collect();
    for node in &mut nodes {
        node.parent = node.span.parent_id.as_ref().and_then(|id| positions.get(id).copied());
    }
    let agents = enclosing_agents(&nodes);
    let is_top = |at: usize| {
        nodes.get(at).is_some_and(|node| node.kind == SpanKind::Agent)
            && agents.get(at).is_some_and(Option::is_none)
    };
    let mut tops = (0..nodes.len()).filter(|at| is_top(*at));
    let main = tops.next().filter(|_| tops.next().is_none());
    // The runs: the trace, and each agent but the main one. Each with its identity.
    let mut identities: HashMap<Option<usize>, RunIdentity> = HashMap::new();
    let root = RunIdentity::root(trace_id);
    identities.insert(None, root.clone());
    let mut runs: Vec<(Option<usize>, RunIdentity)> = vec![(main, root.clone())];
    let mut pending: Vec<usize> = (0..nodes.len()).collect();
    pending.retain(|at| nodes.get(*at).is_some_and(|node| node.kind == SpanKind::Agent));
    if let Some(main) = main {
        identities.insert(Some(main), root.clone());
        pending.retain(|at| *at != main);
    }
    // An agent begins after the one around it, so one pass is enough, except with strange clocks.
    for at in pending {
        let around = agents.get(at).copied().flatten();
        let parent = identities.get(&around).unwrap_or(&root).clone();
        let Some(node) = nodes.get(at) else { continue };
        let identity = RunIdentity::child_of(&parent, format!("{trace_id}-{}", node.span.span_id));
        identities.insert(Some(at), identity.clone());
        runs.push((Some(at), identity));
    }
    let mut spans_of: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let is_agent = node.kind == SpanKind::Agent;
        let agent = if is_agent { Some(at) } else { agents.get(at).copied().flatten() };
        // What is around the main agent belongs to the trace, and so to its run.
        let agent = agent.or(main);
        spans_of.entry(agent).or_default().push(at);
    }
    for (agent, identity) in runs {
        let spans = spans_of.remove(&agent).unwrap_or_default();
        push_run(&nodes, &spans, agent, identity, found);
    }
}

/// For each span, the nearest agent around it. Spans that are nested in a circle have none.
fn enclosing_agents(nodes: &[Node]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<Option<usize>>> = vec![None; nodes.len()];
    for start in 0..nodes.len() {
        let mut path = Vec::new();
        let mut at = start;
        // Walks up to a span that was visited before, or to an agent, or to the top.
        let agent = loop {
            let Some(place) = found.get_mut(at) else { break None };
            if let Some(known) = place {
                break *known;
            }
            *place = Some(None);
            path.push(at);
            let Some(parent) = nodes.get(at).and_then(|node| node.parent) else { break None };
            if nodes.get(parent).is_some_and(|node| node.kind == SpanKind::Agent) {
                break Some(parent);
            }
            at = parent;
        };
        for at in path {
            if let Some(place) = found.get_mut(at) {
                *place = Some(agent);
            }
        }
    }
    found.into_iter().map(Option::flatten).collect()
}
