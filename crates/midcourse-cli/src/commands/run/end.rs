//! Records the end of runs that nobody else can record: the proxy does not see when the command
//! exits, and some hosts have no hook at the end of a session.

use midcourse::{
    DataDir, Event, RunIdentity, RunOutcome, Source, Store, StoreError, StoreSettings, Timestamp,
    TrajectoryPayload, now,
};

use super::child::Ended;
use crate::apis::Api;
use crate::hosts::Host;
use crate::run_settings::RunSettings;

/// Records how the command ended, in each run of this launch (this use of `midcourse run`): its exit
/// code, and the end of the run where nobody else reports it.
pub(super) fn record(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
    ended: &Ended,
) -> Result<(), StoreError> {
    let Some(key) = settings.launch_key() else { return Ok(()) };
    let mut store = Store::open(data_dir, StoreSettings::default())?;
    let runs = store.runs_with_fact("config_applied", &key, started)?;
    let mut events = Vec::new();
    for (run, _) in runs {
        let identity = match &run.parent_run_id {
            None => RunIdentity::root(run.run_id.as_str()),
            Some(parent) => {
                RunIdentity::child_of(&RunIdentity::root(parent.as_str()), run.run_id.as_str())
            }
        };
        let source = Source::new(&run.host, midcourse::Channel::Settings);
        let event = |payload| Event::new(identity.clone(), source.clone(), now(), payload);
        // The exit code is that of the agent, not of its subagents.
        if run.parent_run_id.is_none() {
            events.extend(exit_code(ended).map(|payload| event(payload).with_fact(key.as_str())));
        }
        let host = Host::named(&run.host);
        let is_ours =
            Api::has_name(&run.host) || host.is_some_and(|host| !host.capabilities().reports_end);
        if run.ended.is_none() && is_ours {
            let (outcome, new_messages) = (outcome(ended), Vec::new());
            events.push(event(TrajectoryPayload::RunEnded { outcome, new_messages }));
        }
    }
    store.append_all(events)?.into_iter().try_for_each(|appended| appended.map(drop))
}

fn exit_code(ended: &Ended) -> Option<TrajectoryPayload> {
    Some(TrajectoryPayload::RunDescribed {
        folder: None,
        command: None,
        host_version: None,
        model: None,
        exit_code: Some(ended.exit_code()?),
    })
}

/// The outcome of a run whose agent ended like this. A user ends a program with the signals HUP (1),
/// INT (2) and TERM (15).
const fn outcome(ended: &Ended) -> RunOutcome {
    match ended {
        Ended::Code(0) => RunOutcome::Completed,
        Ended::Signal(1 | 2 | 15) => RunOutcome::Aborted,
        Ended::Code(_) | Ended::Signal(_) => RunOutcome::Failed,
        Ended::Unknown => RunOutcome::Unknown,
    }
}
