//! Runs as OpenTelemetry spans, by the GenAI semantic conventions, and back.
//!
//! `RunSpans` makes spans from the records of a run. Each record is in exactly one span, as part of
//! the span or as an event of it, so that reading the spans gives the same records. This module
//! does no I/O; `commands/export/otlp.rs` sends spans and remembers which were accepted.

mod content;
mod event;
mod ids;
mod json;
mod names;
mod nesting;
mod packed;
mod read;
mod record;
mod span;
mod step;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use ids::trace_id;
pub(crate) use json::request_line;
pub(crate) use nesting::Subagent;
pub(crate) use read::{reader, recognises};
pub(crate) use span::{Attribute, Attributes, Span};
pub(crate) use write::RunSpans;

/// The name of the resource and the scope of all spans.
pub(crate) const SERVICE_NAME: &str = "midcourse";
