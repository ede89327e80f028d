//! `midcourse replay`: replays one recorded run and shows which messages the engine delivers.
//!
//! If midcourse analysed the run while it happened, the records contain the configuration and the
//! decision points (the moments at which the agent could get messages). The replay uses both, so it
//! produces the recorded messages again, unless midcourse itself has changed since.

mod input;

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::Result;
use midcourse::{
    Channel, DecisionPoint, DeliveryPolicy, Engine, Step, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

use super::open;
use super::replayed_run::ReplayedRun;
use super::step_json::{Position, step_lines};
use crate::display::{describe_outcome, json_line, one_line, plain_name};
use crate::hosts::{Host, permanent_policy};
use input::InputRecord;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Read the run from this file; by default standard input.
    #[arg(conflicts_with = "run")]
    file: Option<PathBuf>,
    /// Replay a stored run (id, start or end of id, or `latest`).
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let (records, findings) = match &arguments.run {
        Some(run) => input::read_stored(run)?,
        None => (input::read_file(arguments.file.as_deref())?, Vec::new()),
    };
    let is_child = records.iter().any(|input| input.record.parent_run_id.is_some());
    let mut replay = ReplayedRun::new(delivery_policy(&records), is_child);
    // If midcourse analysed the run while it happened, the records contain the decision points at
    // which messages could be delivered.
    let was_monitored = records.iter().any(|input| input.decision_point.is_some());
    let mut out = stdout().lock();
    let (mut replayed, mut recorded) = (Vec::new(), Vec::new());
    for input in &records {
        // A record that the engine added, such as a delivered message, is not replayed, because the
        // replay produces such records again. Keep its message to compare it with the new ones.
        if input.record.payload.is_conclusion() {
            recorded.extend(message_of(&input.record.payload));
            continue;
        }
        let decision_point = match was_monitored {
            true => input.decision_point,
            false => Some(DecisionPoint::PreToolSelection),
        };
        let step = replay.step(&input.record, input.source.as_ref(), decision_point)?;
        replayed.extend(step.records.iter().filter_map(|record| message_of(&record.payload)));
        if arguments.json {
            print_json(&mut out, replay.engine(), &input.record, &step)?;
        } else {
            print_text(&mut out, replay.engine(), &step)?;
        }
    }
    let trajectory = replay.engine().trajectory();
    let (calls, errors) = (trajectory.tool_call_count(), trajectory.error_count());
    if arguments.json {
        let line = json!({"type": "run", "records": records.len(), "calls": calls,
                          "errors": errors, "deliveries": replayed.len(),
                          "matches_recorded": replayed == recorded});
        writeln!(out, "{}", json_line(&line))?;
    } else {
        let messages = match replayed.len() {
            0 => "no messages".to_owned(),
            1 => "1 message".to_owned(),
            count => format!("{count} messages"),
        };
        let comparison = match recorded.len() {
            0 if replayed.is_empty() || !was_monitored => String::new(),
            _ if replayed == recorded => ", the same as in the recorded run".to_owned(),
            count => format!("; the recorded run had {count}"),
        };
        writeln!(out, "{calls} calls, {errors} failed or refused; {messages}{comparison}.")?;
    }
    out.flush()?;
    open::report_damage(&findings)
}

/// The text of the message, if the record says that a message was delivered; otherwise `None`.
fn message_of(payload: &TrajectoryPayload) -> Option<String> {
    match payload {
        TrajectoryPayload::FeedbackDelivered { text, .. } => Some(text.clone()),
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            Some(guidance.injection.content().to_owned())
        }
        _ => None,
    }
}

/// The limits on messages that applied to the run.
fn delivery_policy(records: &[InputRecord]) -> DeliveryPolicy {
    let mut sources = records.iter().filter_map(|input| input.source.as_ref());
    let is_proxied = sources.clone().any(|source| source.channel() == Channel::Proxy);
    // A host repeats each message from a hook in every later model request, so it has its own
    // limits. In a run with a proxy, the proxy delivered the messages, with default limits unless
    // the model's server keeps the requests.
    let host = sources.find_map(|source| Host::named(source.host())).filter(|_| !is_proxied);
    let is_kept = |input: &InputRecord| {
        let payload = &input.record.payload;
        matches!(payload, TrajectoryPayload::ProviderRequestPrepared { kept_by_server: true, .. })
    };
    match host {
        Some(host) => host.delivery_policy(),
        None if records.iter().any(is_kept) => permanent_policy(),
        None => DeliveryPolicy::default(),
    }
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
