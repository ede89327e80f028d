//! `midcourse hook HOST`: the command that a coding agent runs at each step. It reads a payload
//! that describes the step, stores it, and prints a reply that may contain a message for the agent.
//!
//! A hook must never break the agent. So this module turns every error, panic and delay into an
//! empty reply, exit code 0 and a line in `hook.log`. This includes an invalid command line, for
//! which other commands exit with code 2: a hook with this exit code would block the agent. A
//! second thread watches the time ([`guard`]), so that the agent gets its reply in time.

mod arguments;
mod call_ids;
mod guard;
mod input;

pub(super) use call_ids::NUMBERED_CALL;

use std::ffi::OsString;
use std::io::{Write as _, stdout};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use midcourse::{
    DataDir, Delivery, Event, Ingested, Intake, Mode, NoDataDir, StoreError, StoreSettings,
    SyncedEngine, TrajectoryPayload, now,
};
use uuid::Uuid;

use crate::handoff;
use crate::hosts::{Decoded, Host, WithProxy};
use crate::log::Log;
use crate::run_settings::RunSettings;

pub(super) use arguments::{
    Arguments, DEFAULT_TIMEOUT, hook_command, installed_hook_command, quoted,
};
use guard::{Pending, Timeout};

/// How much time the hook has after its timeout to save events that could not be stored. They are
/// written to the spill folder, from which a later process stores them.
pub(super) const SPILL_TIME: Duration = Duration::from_millis(250);

/// How long the hook waits until its log lines are written.
const LOG_TIME: Duration = Duration::from_millis(100);

/// The share of the remaining time that the hook may wait while another process has locked the
/// store. The rest is for writing the events to the spill folder if the store stays locked.
const STORE_SHARE: f32 = 0.75;

/// The reply for the host, and the lines for `hook.log`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    reply: Vec<u8>,
    warnings: Vec<String>,
}

impl Report {
    /// An empty reply, and one line for the log.
    fn of(warning: String) -> Self {
        Self { reply: Vec::new(), warnings: vec![warning] }
    }
}

/// Runs the hook. `words` are the arguments after `midcourse hook`. The exit code is always 0.
pub(super) fn run(words: Vec<OsString>) -> ExitCode {
    let parsed = match arguments::parse(words) {
        Ok(parsed) => parsed,
        Err(help) => {
            let _ = stdout().write_all(help.as_bytes());
            return ExitCode::SUCCESS;
        }
    };
    let arguments = parsed.arguments;
    let timeout = Timeout::start(arguments.timeout(), SPILL_TIME);
    let data_dir = arguments.data_dir();
    let log = Log::new(data_dir.as_ref(), &arguments.host);
    let panics = Arc::new(Mutex::new(Vec::new()));
    let for_hook = Arc::clone(&panics);
    // Hosts show a hook's standard error to the user, so panics are written to the log instead.
    std::panic::set_hook(Box::new(move |panic| {
        for_hook.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
    }));
    let for_step = data_dir.clone();
    let work = move |pending: &Pending| {
        let done = step(&arguments, parsed.problem, for_step, pending, timeout);
        done.unwrap_or_else(|error| Report::of(format!("{error:#}")))
    };
    guard::run(data_dir, timeout, work, move |mut report| {
        report.warnings.append(&mut panics.lock().unwrap_or_else(PoisonError::into_inner));
        let mut out = stdout().lock();
        if let Err(error) = out.write_all(&report.reply).and_then(|()| out.flush()) {
            report.warnings.push(format!("cannot write the reply: {error}"));
        }
        write_log(&log, report.warnings);
        std::process::exit(0);
    });
    ExitCode::SUCCESS
}

/// Writes lines to the log. On a slow disk, the hook does not wait until they are written.
fn write_log(log: &Log, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let log = log.clone();
    let (sender, written) = channel();
    let started = thread::Builder::new().spawn(move || {
        for line in lines {
            log.write(&line);
        }
        let _ = sender.send(());
    });
    if started.is_ok() {
        let _ = written.recv_timeout(LOG_TIME);
    }
}

/// Does the hook's work: reads and decodes the payload, stores its events, runs the engine and
/// encodes the reply.
fn step(
    arguments: &Arguments,
    problem: Option<String>,
    data_dir: Option<DataDir>,
    pending: &Pending,
    timeout: Timeout,
) -> anyhow::Result<Report> {
    let mut warnings = Vec::new();
    // Read the payload even if the arguments are wrong: a host may fail if its hook does not read
    // standard input.
    let bytes = input::read_payload(&mut warnings)?;
    if let Some(problem) = problem {
        anyhow::bail!("wrong command line: {problem}");
    }
    let host = Host::named(&arguments.host).ok_or_else(|| {
        let names = Host::ALL.map(Host::name).join(", ");
        anyhow::anyhow!("unknown host; known hosts are {names}")
    })?;
    let mut decoded = host.decode(&bytes, now());
    if let Some(run) = decoded.unread_run() {
        let length = bytes.len();
        warnings.push(format!("cannot read a payload of {length} bytes; kept it in run {run}"));
    }
    drop(bytes);
    let mut settings = RunSettings::for_event(
        data_dir.as_ref(),
        arguments.launch().as_ref(),
        decoded.cwd.as_deref(),
    );
    if settings.proxy_delivers && host.capabilities().with_proxy == WithProxy::Proxy {
        // The proxy records the same calls, in a run of its own.
        return Ok(Report { warnings, ..Report::default() });
    }
    let is_handed_over =
        handoff::is_handed_over(data_dir.as_ref(), settings.proxy_delivers, &decoded.events);
    if is_handed_over {
        handoff::record_only(&mut decoded.events);
    }
    if let Some(tail) = decoded.transcript.as_deref().and_then(input::read_tail) {
        decoded = host.add_transcript(decoded, &tail, !is_handed_over);
    }
    if let (Some(call), Some(first)) = (decoded.unnamed_call.take(), decoded.events.first()) {
        let id = call_ids::assign(data_dir.as_ref(), first.run.run_id.as_str(), &call);
        decoded.set_call_id(&id);
    }
    let Decoded { mut events, reply: form, cwd, about, .. } = decoded;
    if events.is_empty() {
        return Ok(Report { warnings, ..Report::default() });
    }
    warnings.extend(settings.record_in(&mut events));
    settings.describe(&mut events, cwd.as_deref(), about);
    for event in &mut events {
        // Give every event a key before it is stored. After a timeout, an event may be both in the
        // store and in the spill folder. The copies have the same key, so the second is dropped.
        event.fact.get_or_insert_with(|| format!("once:{}", Uuid::now_v7()).into());
    }
    let redaction = settings.config.redaction();
    guard::set_pending(pending, events.clone(), redaction.clone());

    let data_dir = data_dir.ok_or(NoDataDir)?;
    let is_subagent = events.iter().any(|event| event.run.parent_run_id.is_some());
    let mut engine = SyncedEngine::new(settings.engine(host.delivery_policy(), is_subagent))?;
    let busy_timeout = timeout.left().mul_f32(STORE_SHARE);
    let store = StoreSettings { busy_timeout, redaction, ..StoreSettings::default() };
    let ends_run = |event: &&Event| matches!(event.payload, TrajectoryPayload::RunEnded { .. });
    let ended_run = events.iter().find(ends_run).map(|event| event.run.run_id.clone());
    #[cfg(feature = "fleet")]
    let starts_work = events.iter().any(Event::begins_something);
    let mut intake = Intake::new(&data_dir, &store);
    let mut deliveries = collect(intake.ingest_all(events, &mut engine), &mut warnings);
    // Closing the store takes time, for which the agent would have to wait. The end of the process
    // does it too.
    std::mem::forget(intake);
    if ended_run.is_some() && !is_subagent {
        super::retention::start(&data_dir);
    }
    #[cfg(feature = "fleet")]
    if starts_work || ended_run.is_some() {
        super::ship::start(&data_dir);
    }
    if let Some(run) = ended_run.filter(|_| !host.capabilities().has_call_ids) {
        call_ids::forget(&data_dir, run.as_str());
    }
    if settings.mode() == Mode::Shadow {
        deliveries.clear();
    }
    Ok(Report { reply: Host::encode(&deliveries, form.as_ref()), warnings })
}

/// Returns the messages that the engine delivers after these events. Adds a warning for each event
/// that could not be stored, and for each failure in the engine.
fn collect(
    ingested: Vec<Result<Ingested, StoreError>>,
    warnings: &mut Vec<String>,
) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for event in ingested {
        match event {
            Ok(Ingested::Stored { step, .. }) => {
                warnings.extend(step.faults.iter().map(ToString::to_string));
                deliveries.extend(step.deliveries);
            }
            Ok(Ingested::Spilled { reason, spilled }) => warnings.push(match spilled.disk_error {
                None => format!("an event is in the spill folder and stored later: {reason}"),
                Some(error) => {
                    let error = StoreError::from(error);
                    format!("an event is kept in memory and stored later: {error}")
                }
            }),
            Err(error) => warnings.push(format!("an event is lost: {error}")),
        }
    }
    deliveries
}
