//! `midcourse record`: records events of any program, one JSON object per line.
//!
//! For each event, a reply is printed once the event is on disk. The reply contains the messages
//! for the agent. The same configuration files apply as for hooks. If the store is locked for too
//! long, the event is spilled: written to a separate folder, from which a later process stores it.

use std::collections::HashSet;
use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use midcourse::{
    Channel, DataDir, DecisionPoint, DeliveryPolicy, Event, Ingested, Mode, RunId, RunIdentity,
    Source, Store, StoreError, StoreSettings, SyncedEngine, TRAJECTORY_SCHEMA_VERSION,
    TrajectoryPayload, ingest, now,
};
use serde_json::{Value, json};

use super::open;
use crate::formats::records::{LineDefaults, parse_line, unknown_kind};
use crate::run_settings::{LaunchId, RunSettings};
use crate::terminal::{sanitized, warn};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Use this run for events without a `run_id`.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Record this name as the host.
    #[arg(long, value_name = "NAME", default_value = "custom")]
    host: String,
    /// Put an event into the spill folder if the store is locked this long.
    ///
    /// A later `midcourse` process moves the event into the store.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500)]
    busy_timeout: u64,
    /// Print the JSON Schema of an event, and record nothing.
    #[arg(long)]
    schema: bool,
}

/// The JSON Schema of a line. A test compares it with what `parse_line` accepts.
const SCHEMA: &str = include_str!("../formats/event.schema.json");

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut out = stdout().lock();
    if arguments.schema {
        return Ok(out.write_all(SCHEMA.as_bytes())?);
    }
    let mut recorder = Recorder::new(arguments)?;
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
            // Store the line if possible, and tell the program that sent it what is wrong.
            Err(Unreadable { error, events }) => {
                let replies = recorder.record(events);
                let is_kept = replies.iter().any(|reply| reply.get("error").is_none());
                vec![json!({"status": "unreadable", "error": sanitized(&error), "kept": is_kept,
                            "deliveries": []})]
            }
            Ok(events) => recorder.record(events),
        };
        for reply in replies {
            failed += u64::from(reply.get("error").is_some());
            if has_reader && writeln!(out, "{reply}").and_then(|()| out.flush()).is_err() {
                // The program that reads the replies has closed the pipe. Record the remaining
                // events without printing replies.
                has_reader = false;
            }
        }
    }
    ensure!(failed == 0, "{failed} events could not be recorded; the replies contain the errors");
    Ok(())
}

/// An input line that is not a complete event of a known kind.
struct Unreadable {
    /// What is wrong, for the program that sent the line.
    error: String,
    /// The line as an `Unread` event. Empty if the line's run is not known.
    events: Vec<Event>,
}

/// Parses a line into events.
fn parse_events(line: &[u8], arguments: &Arguments) -> Result<Vec<Event>, Unreadable> {
    let source = Source::new(&arguments.host, Channel::Library);
    let run_id = arguments.run.as_ref().map(RunId::from);
    let defaults = LineDefaults {
        run_id: run_id.clone(),
        source: source.clone(),
        at: now(),
        schema_version: TRAJECTORY_SCHEMA_VERSION,
        decision_point: Some(DecisionPoint::PreToolSelection),
    };
    let text = std::str::from_utf8(line).map(str::trim);
    let parsed = text.map_err(|error| error.to_string()).and_then(|line| {
        let record = parse_line(line, &defaults).map_err(|error| error.to_string())?;
        Ok((record.events, unknown_kind(line)))
    });
    match parsed {
        Ok((events, None)) => Ok(events),
        Ok((events, Some(kind))) => {
            let known = TrajectoryPayload::KINDS.join(", ");
            let error = format!("unknown `kind` in the payload: {kind}; known are {known}");
            Err(Unreadable { error, events })
        }
        Err(error) => {
            let unread = |run_id: RunId| {
                let run = RunIdentity::root(run_id.as_str());
                Event::unread(run, source, now(), line.trim_ascii_end())
            };
            Err(Unreadable { error, events: run_id.map(unread).into_iter().collect() })
        }
    }
}

struct Recorder {
    data_dir: DataDir,
    store: StoreSettings,
    settings: RunSettings,
    engine: SyncedEngine,
    /// The engine for runs of subagents. It has no budget, because budgets apply only to the agent
    /// that the user started.
    subagent_engine: SyncedEngine,
    /// Runs for which this process has already checked whether they are new. In a new run the
    /// settings are recorded even if no event reports its start.
    seen_runs: HashSet<RunId>,
}

impl Recorder {
    fn new(arguments: &Arguments) -> Result<Self> {
        let data_dir = open::data_dir()?;
        let busy_timeout = Duration::from_millis(arguments.busy_timeout);
        let launch = LaunchId::in_environment();
        let cwd = std::env::current_dir().ok();
        let settings = RunSettings::for_event(Some(&data_dir), launch.as_ref(), cwd.as_deref());
        settings.warnings.iter().for_each(|warning| warn(warning));
        let engine = |is_subagent| {
            SyncedEngine::new(settings.engine(DeliveryPolicy::default(), is_subagent))
        };
        Ok(Self {
            engine: engine(false)?,
            subagent_engine: engine(true)?,
            data_dir,
            store: StoreSettings {
                busy_timeout,
                redaction: settings.config.redaction(),
                ..StoreSettings::default()
            },
            settings,
            seen_runs: HashSet::new(),
        })
    }

    /// Records the events of one line, and the settings if a run begins. Returns a reply for each
    /// event of the line, but none for the settings.
    fn record(&mut self, mut events: Vec<Event>) -> Vec<Value> {
        let added = self.add_settings(&mut events);
        let mut replies = Vec::new();
        for (index, event) in events.into_iter().enumerate() {
            let is_subagent = event.run.parent_run_id.is_some();
            let engine = if is_subagent { &mut self.subagent_engine } else { &mut self.engine };
            let ingested = ingest(&self.data_dir, &self.store, event, engine);
            if !added.contains(&index) {
                replies.push(reply(ingested, self.settings.mode()));
            }
        }
        replies
    }

    /// Adds events that contain the settings, so that a replay can use the same settings. They are
    /// added if the run is new, or if one of the events starts a run, resumes a run or is a prompt.
    /// Returns the indices of the added events.
    fn add_settings(&mut self, events: &mut Vec<Event>) -> Range<usize> {
        let reported = events.len();
        let Some(run_id) = events.first().map(|event| event.run.run_id.clone()) else {
            return 0..0;
        };
        let has_settings =
            self.settings.launch_id.is_some() || !self.settings.config_text.is_empty();
        let is_first = has_settings && self.seen_runs.insert(run_id.clone());
        if is_first && !is_stored(&self.data_dir, &run_id) {
            self.settings.clone().record_in_new_run(events);
        } else if events.iter().any(Event::begins_something) {
            self.settings.clone().record_in(events);
        }
        let is_settings = |event: &Event| event.source.channel() == Channel::Settings;
        let start = events.iter().position(is_settings).unwrap_or_default();
        start..start.saturating_add(events.len().saturating_sub(reported))
    }
}

/// Whether the store contains the run. If the store cannot be read now, returns true, so that a run
/// that may be old does not get the settings of a new run.
fn is_stored(data_dir: &DataDir, run_id: &RunId) -> bool {
    match Store::open_read_only(data_dir) {
        Ok(Some(store)) => store.run(run_id.as_str()).map_or(true, |run| run.is_some()),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn reply(ingested: Result<Ingested, StoreError>, mode: Mode) -> Value {
    match ingested {
        Ok(Ingested::Stored { recorded, step }) => {
            // In shadow mode, messages are recorded but not shown to the agent, so leave them out.
            let deliveries = step.deliveries.iter().filter(|_| mode == Mode::Live);
            let deliveries: Vec<Value> = deliveries
                .map(|delivery| {
                    json!({"decision_point": delivery.decision_point(),
                           "provider": delivery.provider(), "text": delivery.text()})
                })
                .collect();
            json!({"run_id": recorded.record.run_id, "seq": recorded.record.seq,
                   "status": recorded.status.as_str(), "deliveries": deliveries})
        }
        Ok(Ingested::Spilled { reason, spilled }) => match spilled.disk_error {
            None => json!({"status": "spilled", "reason": reason.to_string(), "deliveries": []}),
            Some(error) => {
                let error = StoreError::from(error);
                json!({"status": "in_memory", "error": error.to_string(), "hint": error.hint(),
                       "deliveries": []})
            }
        },
        Err(error) => json!({"status": "lost", "error": error.to_string(),
                             "hint": error.hint(), "deliveries": []}),
    }
}
