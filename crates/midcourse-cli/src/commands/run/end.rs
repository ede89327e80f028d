//! The end of the runs of a command, which nobody but us sees where there are no hooks.

use crate::apis::Api;
use crate::launch::Launch;
use midcourse::{
    DataDir, Event, RunIdentity, RunOutcome, Source, Store, StoreError, StoreSettings, Timestamp,
    TrajectoryPayload, now,
};

use super::child::Ended;

/// Notes that the runs of a launch which only the proxy saw are over.
pub(super) fn note(
    home: &DataDir,
    launch: &Launch,
    begun: Timestamp,
    ended: &Ended,
) -> Result<(), StoreError> {
    let mut store = Store::open(home, StoreSettings::default())?;
    let runs = store.runs_with_fact("config_applied", &launch.fact(), begun)?;
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
        let over = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
        let source = Source::new(&run.host, Launch::WAY);
        store.append(Event::new(identity, source, now(), over))?;
    }
    Ok(())
}
