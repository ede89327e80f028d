//! `midcourse record`: records events of any program, one JSON object per line.
//!
//! The reply to a line is printed once its event is on disk, with the messages for the agent. If
//! the store is locked for too long, the event is spilled.

use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use midcourse::{
    Budget, DecisionPoint, Engine, Event, Ingested, RunId, RunIdentity, Source, StoreError,
    StoreSettings, SyncedEngine, TRAJECTORY_SCHEMA_VERSION, ingest, now,
};
use serde_json::{Value, json};

use super::open;
use crate::formats::records::{LineDefaults, parse_line};
use crate::terminal::sanitized;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Use this run for events without a `run_id`.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Record this name as the host.
    #[arg(long, value_name = "NAME", default_value = "custom")]
    host: String,
    /// Spill an event if the store is locked this long.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500)]
    busy_timeout: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let data_dir = open::data_dir()?;
    let busy_timeout = Duration::from_millis(arguments.busy_timeout);
    let settings = StoreSettings { busy_timeout, ..StoreSettings::default() };
    let mut engine = SyncedEngine::new(Engine::shipped(Budget::default()))?;
    let mut out = stdout().lock();
    let mut input = stdin().lock();
    let mut line = Vec::new();
    let (mut failed, mut has_reader) = (0_u64, true);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read standard input")? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let replies = match parse_events(&line, arguments) {
            Err(error) => {
                vec![json!({"status": "unreadable", "error": sanitized(&error), "deliveries": []})]
            }
            Ok(events) => events
                .into_iter()
                .map(|event| reply(ingest(&data_dir, &settings, event, &mut engine)))
                .collect(),
        };
        for reply in replies {
            failed += u64::from(reply.get("error").is_some());
            if has_reader && writeln!(out, "{reply}").and_then(|()| out.flush()).is_err() {
                // Events are recorded even if nobody reads the replies.
                has_reader = false;
            }
        }
    }
    ensure!(failed == 0, "{failed} events could not be recorded; the replies contain the errors");
    Ok(())
}

/// Parses a line into events. An invalid line becomes an unread event if `--run` names its run.
fn parse_events(line: &[u8], arguments: &Arguments) -> Result<Vec<Event>, String> {
    let source = Source::new(&arguments.host, midcourse::Channel::Library);
    let run_id = arguments.run.as_ref().map(RunId::from);
    let defaults = LineDefaults {
        run_id: run_id.clone(),
        source: source.clone(),
        at: now(),
        schema_version: TRAJECTORY_SCHEMA_VERSION,
        decision_point: Some(DecisionPoint::PreToolSelection),
    };
    let parsed = std::str::from_utf8(line)
        .map_err(|error| error.to_string())
        .and_then(|line| parse_line(line.trim(), &defaults).map_err(|error| error.to_string()));
    match (parsed, run_id) {
        (Ok(record), _) => Ok(record.events),
        (Err(_), Some(run_id)) => {
            let run = RunIdentity::root(run_id.as_str());
            Ok(vec![Event::unread(run, source, now(), line.trim_ascii_end())])
        }
        (Err(error), None) => Err(error),
    }
}

fn reply(ingested: Result<Ingested, StoreError>) -> Value {
    match ingested {
        Ok(Ingested::Stored { recorded, step }) => {
            let deliveries: Vec<Value> = step
                .deliveries
                .iter()
                .map(|delivery| {
                    json!({"decision_point": delivery.decision_point(),
                           "provider": delivery.provider(), "text": delivery.text()})
                })
                .collect();
            json!({"run_id": recorded.record.run_id, "seq": recorded.record.seq,
                   "status": recorded.status.as_str(), "deliveries": deliveries})
        }
        Ok(Ingested::Spilled { reason, .. }) => {
            json!({"status": "spilled", "reason": reason.to_string(), "deliveries": []})
        }
        Err(error) => json!({"status": "lost", "error": error.to_string(),
                             "hint": error.hint(), "deliveries": []}),
    }
}
