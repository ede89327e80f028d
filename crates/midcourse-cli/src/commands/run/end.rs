//! Records the end of runs that only the proxy observed. The proxy cannot record the end itself,
//! because it does not see when the command exits.

use midcourse::{
    DataDir, Event, RunIdentity, RunOutcome, Source, Store, StoreError, StoreSettings, Timestamp,
    TrajectoryPayload, now,
};

use super::child::Ended;
use crate::apis::Api;
use crate::run_settings::RunSettings;

/// Records how the command ended, in each run of this launch (this use of `midcourse run`) that has
/// no recorded end and that only the proxy observed.
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
        if run.ended.is_some() || !Api::has_name(&run.host) {
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
