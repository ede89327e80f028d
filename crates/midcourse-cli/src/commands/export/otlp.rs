//! Runs as OpenTelemetry spans: written to a file, or sent to an endpoint.
//!
//! A cursor remembers what an endpoint has accepted, so that the next export sends only new spans.
//! It is written after the endpoint has acknowledged them: after a crash, spans may be sent twice,
//! with the same ids, and none is lost.

mod cursor;
mod endpoint;
#[cfg(feature = "otlp")]
mod protobuf;
#[cfg(feature = "otlp")]
mod send;
mod tree;

use std::io::Write;

use anyhow::Result;
use midcourse::RunSummary;

use super::{RunSource, record_json};
use crate::formats::otel::request_line;
pub(in crate::commands) use cursor::forget;
pub(super) use endpoint::Endpoint;
#[cfg(feature = "otlp")]
pub(super) use send::send;
use tree::Tree;

/// Spans per line of a file, or per request.
const MAX_BATCH_SPANS: usize = 200;

#[derive(clap::Args)]
#[command(next_help_heading = "Options of --to otlp")]
pub(super) struct Options {
    /// Send the spans to this OTLP/HTTP endpoint.
    ///
    /// `/v1/traces` is added unless the address ends with it. Without this option, the variables
    /// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT name the endpoint.
    #[arg(long, value_name = "URL", conflicts_with = "output")]
    endpoint: Option<String>,
    /// Send this header too, such as `authorization=Bearer TOKEN`; may be repeated.
    ///
    /// OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_TRACES_HEADERS are sent too. Values are
    /// never printed.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Send all spans again, also those that the endpoint has accepted before.
    #[arg(long)]
    again: bool,
    /// Send spans that are still open too, as if the run were over.
    #[arg(long)]
    unfinished: bool,
}

/// Writes the first of `runs` and its child runs: request objects in JSON, one per line.
pub(super) fn write(
    source: &mut RunSource<'_>,
    runs: &[RunSummary],
    out: &mut impl Write,
) -> Result<()> {
    let mut tree = Tree::new(source, runs)?;
    for run in runs {
        let mut spans = tree.run_spans(run);
        let mut batch = Vec::new();
        let is_damaged = source.is_damaged(run);
        source.for_each_record(run, |record, labels| {
            batch.extend(spans.add(record_json(&record, &labels, is_damaged)));
            if batch.len() >= MAX_BATCH_SPANS {
                writeln!(out, "{}", request_line(&std::mem::take(&mut batch)))?;
            }
            Ok(())
        })?;
        batch.extend(spans.finish());
        if !batch.is_empty() {
            writeln!(out, "{}", request_line(&batch))?;
        }
        tree.finish_run(&spans, run);
    }
    Ok(())
}

/// A build without the HTTP client cannot send spans.
#[cfg(not(feature = "otlp"))]
pub(super) fn send(
    _: &mut RunSource<'_>,
    _: &[RunSummary],
    _: &Endpoint,
    _: &Options,
) -> Result<()> {
    anyhow::bail!("this build cannot send spans; write them to a file with `-o FILE`")
}
