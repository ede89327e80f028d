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

/// Records how the command ended, in each run of this launch (this use of `midcourse run`) that has
/// no recorded end and is from the proxy or from such a host.
pub(super) fn record(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
    ended: &Ended,
) -> Result<(), StoreError> {
    let Some(key) = settings.launch_key() else { return Ok(()) };
    let mut store = Store::open(data_dir, StoreSettings::default())?;
    let runs = store.runs_with_fact("config_applied", &key, started)?;
    let outcome = match ended {
        Ended::Code(0) => RunOutcome::Completed,
        other => RunOutcome::Other(other.to_string()),
    };
    for (run, _) in runs {
        let host = Host::named(&run.host);
        let is_ours =
            Api::has_name(&run.host) || host.is_some_and(|host| !host.capabilities().reports_end);
        if run.ended.is_some() || !is_ours {
            continue;
        }
        let identity = match &run.parent_run_id {
            None => RunIdentity::root(run.run_id.as_str()),
            Some(parent) => {
                RunIdentity::child_of(&RunIdentity::root(parent.as_str()), run.run_id.as_str())
            }
        };
        let outcome = outcome.clone();
        let run_ended = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
        let source = Source::new(&run.host, midcourse::Channel::Settings);
        store.append(Event::new(identity, source, now(), run_ended))?;
    }
    Ok(())
}
