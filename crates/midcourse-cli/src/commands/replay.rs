//! `midcourse replay`: replays one recorded run and shows which messages the engine delivers.
//!
//! If midcourse analysed the run while it happened, the records contain the configuration and the
//! decision points (the moments at which the agent could get messages). The replay uses both, so it
//! produces the recorded messages again, unless midcourse itself has changed since. With `--config`,
//! another configuration takes the place of the recorded one, and [`difference`] says what changes.

mod difference;

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::Result;
use midcourse::{Engine, Step, TrajectoryRecord};
use serde_json::{Value, json};

use super::replayed_messages::{self, Message, Messages};
use super::step_json::{Position, step_lines};
use super::{open, run_input};
use crate::config::Config;
use crate::display::{describe_outcome, escape_control_chars, json_line, one_line, plain_name};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Read the run from this file, such as a session file; by default standard input.
    file: Option<PathBuf>,
    /// Replay a stored run (id, start or end of id, or `latest`); with FILE, this run of the file.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Use this configuration file instead of the recorded configuration, and show what changes.
    ///
    /// The deadline and the budget stay those of the recorded run.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.config.as_deref().map(Config::read).transpose()?;
    let (records, findings) = match (&arguments.file, &arguments.run) {
        (None, Some(run)) => {
            let store = open::to_read()?;
            let run_id = open::find_run(&store, run)?.run_id;
            (run_input::read_stored(&store, &run_id)?, store.verify_run(&run_id)?)
        }
        (file, run) => (run_input::read_file(file.as_deref(), run.as_deref())?, Vec::new()),
    };
    let mut out = stdout().lock();
    let messages = replayed_messages::replay(&records, config.as_ref(), |engine, record, step| {
        if arguments.json {
            print_json(&mut out, engine, record, step)
        } else {
            print_text(&mut out, engine, step)
        }
    })?;
    // A run that midcourse did not analyse has no recorded messages to compare with.
    let config = arguments.config.as_ref().filter(|_| messages.was_monitored);
    let config = config.map(|path| path.display().to_string());
    if arguments.json {
        let differences = config.map(|_| difference::lines(&messages)).unwrap_or_default();
        for line in differences {
            writeln!(out, "{}", json_line(&line))?;
        }
        writeln!(out, "{}", json_line(&run_line(records.len(), &messages)))?;
    } else {
        print_summary(&mut out, &messages)?;
        if let Some(config) = config {
            difference::print(&mut out, &messages, &escape_control_chars(&config))?;
        }
    }
    out.flush()?;
    open::report_damage(&findings)
}

/// Whether the replayed messages are the recorded ones, word for word.
fn is_as_recorded(messages: &Messages) -> bool {
    let texts = |list: &[Message]| list.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
    texts(&messages.replayed) == texts(&messages.recorded)
}

fn run_line(records: usize, messages: &Messages) -> Value {
    json!({"type": "run", "records": records, "calls": messages.calls, "errors": messages.errors,
           "deliveries": messages.replayed.len(), "matches_recorded": is_as_recorded(messages)})
}

fn print_summary(out: &mut impl Write, messages: &Messages) -> Result<()> {
    let Messages { recorded, replayed, was_monitored, calls, errors } = messages;
    let count = match replayed.len() {
        0 => "no messages".to_owned(),
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    let comparison = match recorded.len() {
        0 if replayed.is_empty() || !was_monitored => String::new(),
        _ if is_as_recorded(messages) => ", the same as in the recorded run".to_owned(),
        count => format!("; the recorded run had {count}"),
    };
    Ok(writeln!(out, "{calls} calls, {errors} failed or refused; {count}{comparison}.")?)
}

fn print_text(out: &mut impl Write, engine: &Engine, step: &Step) -> Result<()> {
    let call = engine.trajectory().tool_call_count();
    for fault in &step.faults {
        writeln!(out, "call {call:>4}  fault    {fault}")?;
    }
    for outcome in &step.outcomes {
        let what = describe_outcome(outcome.verdict, outcome.after_calls);
        writeln!(out, "call {call:>4}  outcome  {what}")?;
    }
    for pattern in &step.patterns {
        let evidence: Vec<String> = pattern.evidence().iter().map(u64::to_string).collect();
        let name = one_line(pattern.pattern_type().as_str(), 80);
        let evidence = evidence.join(", ");
        writeln!(
            out,
            "call {call:>4}  pattern  {} ({name}, {:.0} % sure: records {evidence})",
            plain_name(&name),
            pattern.confidence().value() * 100.0,
        )?;
    }
    let withheld = step.withheld.iter().map(|delivery| ("withheld", delivery));
    let shown = step.deliveries.iter().map(|delivery| ("message", delivery));
    for (label, delivery) in shown.chain(withheld) {
        let about = delivery.why().map_or_else(String::new, |why| {
            let number = match why.rung.0 {
                0 | 1 => String::new(),
                number => format!(", message {number} about it"),
            };
            format!("  ({}{number})", plain_name(&one_line(why.cause.kind(), 80)))
        });
        writeln!(out, "call {call:>4}  {label}{about}:")?;
        for line in delivery.text().lines() {
            writeln!(out, "{:20} {line}", "")?;
        }
    }
    Ok(())
}

fn print_json(
    out: &mut impl Write,
    engine: &Engine,
    record: &TrajectoryRecord,
    step: &Step,
) -> Result<()> {
    let run_id = engine.session().identity().map(|identity| identity.run_id.as_str());
    let run_id = record.run_id.as_ref().map(|id| id.as_str()).or(run_id);
    let call = engine.trajectory().tool_call_count();
    let at = Some(record.at());
    let position = Position { run_id, event: None, seq: record.seq, at, call };
    for line in step_lines(position, step) {
        writeln!(out, "{}", json_line(&line))?;
    }
    Ok(())
}
