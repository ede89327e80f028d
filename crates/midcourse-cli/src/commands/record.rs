//! `midcourse record`: any program's events, one a line, durably.
//!
//! Each line is acknowledged on standard output after it is on disk, with what is to be said to
//! the agent about it. What the store does not take in time waits in the spill folder.

use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::time::Duration;

use crate::formats::records::{LineDefaults, read_line};
use anyhow::{Context as _, Result};
use midcourse::{
    Budget, DecisionPoint, Engine, Event, Ingested, RunId, RunIdentity, Source, StoreError,
    StoreSettings, SyncedEngine, ingest, now,
};
use serde_json::{Value, json};

use super::open;
use crate::terminal::sanitized;

/// Where the events come from.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The run of events that name none.
    #[arg(long)]
    run: Option<String>,
    /// The host that reports them, for `list`.
    #[arg(long, default_value = "custom")]
    host: String,
    /// Milliseconds that a locked store is waited for before the event is spilled.
    #[arg(long, default_value_t = 500)]
    patience: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let home = open::home()?;
    let patience = Duration::from_millis(arguments.patience);
    let settings = StoreSettings { busy_timeout: patience, ..StoreSettings::default() };
    let mut watch = SyncedEngine::new(Engine::shipped(Budget::default()))?;
    let mut out = stdout().lock();
    let mut lines = stdin().lock();
    let mut bytes = Vec::new();
    let (mut failed, mut is_heard) = (0_u64, true);
    loop {
        bytes.clear();
        let read = lines.read_until(b'\n', &mut bytes).context("standard input cannot be read")?;
        if read == 0 {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let mut answers = Vec::new();
        match events(&bytes, arguments) {
            Err(why) => {
                answers.push(json!({"standing": "unread", "error": sanitized(&why)}));
            }
            Ok(events) => {
                for mut event in events {
                    event.decision_point.get_or_insert(DecisionPoint::PreToolSelection);
                    answers.push(answer(ingest(&home, &settings, event, &mut watch)));
                }
            }
        }
        for answer in answers {
            failed += u64::from(answer.get("error").is_some());
            if is_heard && writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
                // Nobody listens any more; what they send is recorded all the same.
                is_heard = false;
            }
        }
    }
    anyhow::ensure!(failed == 0, "{failed} events could not be recorded; see the answers");
    Ok(())
}

/// The events of a line. One that cannot be read is kept as it came, if its run is known.
fn events(bytes: &[u8], arguments: &Arguments) -> Result<Vec<Event>, String> {
    let source = Source::new(&arguments.host, "record");
    let run_id = arguments.run.as_ref().map(RunId::from);
    let defaults = LineDefaults { run_id: run_id.clone(), source: source.clone(), at: now() };
    let read = std::str::from_utf8(bytes)
        .map_err(|error| error.to_string())
        .and_then(|line| read_line(line.trim(), &defaults).map_err(|error| error.to_string()));
    match (read, run_id) {
        (Ok(line), _) => Ok(line.events),
        (Err(_), Some(run_id)) => {
            let run = RunIdentity::root(run_id.as_str());
            Ok(vec![Event::unread(run, source, now(), bytes.trim_ascii_end())])
        }
        (Err(why), None) => Err(why),
    }
}

fn answer(taken: Result<Ingested, StoreError>) -> Value {
    match taken {
        Ok(Ingested::Stored { recorded, step }) => {
            let said: Vec<Value> = step
                .deliveries
                .iter()
                .map(|delivery| {
                    json!({"point": delivery.decision_point(), "provider": delivery.provider(),
                           "text": delivery.text()})
                })
                .collect();
            json!({"run_id": recorded.record.run_id, "seq": recorded.record.seq,
                   "standing": recorded.status.as_str(), "said": said})
        }
        Ok(Ingested::Spilled { reason: why, .. }) => {
            json!({"standing": "spilled", "why": why.to_string(), "said": []})
        }
        Err(error) => json!({"standing": "lost", "error": error.to_string(),
                             "hint": error.hint(), "said": []}),
    }
}
