//! The way in for a process that lives for one event: into the store in time, else aside.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::draft::Draft;
use super::error::StoreError;
use super::lost::Lost;
use super::turn::Turn;
use super::{Step, Store, StoreSettings, spill};
use crate::event::Event;
use crate::home::Home;
use crate::watch::Watch;

/// What became of an event.
#[derive(Debug)]
pub enum Taken {
    /// It is in the store, with what is said about it.
    Stored(Box<Step>),
    /// It waits in the spill folder, durably; nothing is said about it now.
    Spilled {
        /// Why the store did not take it.
        why: StoreError,
        /// Where it waits.
        file: PathBuf,
    },
}

/// Takes in one event: opens the store, takes in what was spilled before, makes the step. What
/// the store does not take within the settings' patience goes to the spill folder; only if that
/// fails too, or the event is no event, is there an error.
pub fn take_in(
    home: &Home,
    settings: &StoreSettings,
    event: Event,
    watch: &mut Watch,
) -> Result<Taken, StoreError> {
    let taken = take_in_all(home, settings, vec![event], watch).pop();
    // One event has one answer.
    taken.unwrap_or_else(|| Err(StoreError::Rejected("there is no event".to_owned())))
}

/// The same for several events, in order, within one patience: once one does not get in, those
/// behind it wait with it. Each has its answer.
pub fn take_in_all(
    home: &Home,
    settings: &StoreSettings,
    events: Vec<Event>,
    watch: &mut Watch,
) -> Vec<Result<Taken, StoreError>> {
    let begun = Instant::now();
    let left = || settings.patience.saturating_sub(begun.elapsed());
    let (mut way, mut barred) = (None, None);
    let take = |event: Event| {
        let run_id = event.run.run_id.clone();
        let taken = Draft::new(event, settings).and_then(|mut draft| {
            // A commit that failed may turn out to have been made. The event goes to the spill
            // folder under the same key then, and is known when it comes back.
            if draft.fact.is_none() {
                draft.fact = Some(format!("once:{}", Uuid::now_v7()).into());
            }
            let stored = match &barred {
                Some(why) => Err(StoreError::clone(why)),
                None => into_store(home, settings, &mut way, &draft, watch, left),
            };
            stored.map(|step| Taken::Stored(Box::new(step))).or_else(|why| {
                barred = Some(why.clone());
                let file = spill::write(home, draft)?;
                Ok(Taken::Spilled { why, file })
            })
        });
        if taken.is_err() {
            // The error says that it is lost; this only lets the next process say so too.
            let _ = Lost::note(home, &run_id);
        }
        taken
    };
    events.into_iter().map(take).collect()
}

/// The store, and the turn to write to it.
struct Way {
    store: Store,
    _turn: Turn,
}

fn into_store(
    home: &Home,
    settings: &StoreSettings,
    way: &mut Option<Way>,
    draft: &Draft,
    watch: &mut Watch,
    left: impl Fn() -> Duration,
) -> Result<Step, StoreError> {
    let store = match way {
        Some(way) => &mut way.store,
        None => &mut way.insert(clear_way(home, settings, &left)?).store,
    };
    store.set_patience(left())?;
    if let Some(lost) = Lost::of(home, &draft.run.run_id) {
        store.append(lost.marker(&draft.run, draft.at))?;
        // If it is not forgotten, the same marker comes again and is known.
        let _ = lost.forget(home);
        store.set_patience(left())?;
    }
    store.step_draft(draft, watch)
}

/// Everything that was spilled comes first, or this event waits too: else it would overtake.
fn clear_way(
    home: &Home,
    settings: &StoreSettings,
    left: impl Fn() -> Duration,
) -> Result<Way, StoreError> {
    let mut store = Store::open(home, settings.clone())?;
    let turn = Turn::wait(home, left() / 2);
    loop {
        store.set_patience(left())?;
        match store.take_in_spilled() {
            Ok(0) => break,
            Ok(_) if left().is_zero() => return Err(StoreError::Locked),
            Ok(_) => {}
            Err(StoreError::Locked) => return Err(StoreError::Locked),
            // What is wrong with the spill folder must not keep this event out.
            Err(_) => break,
        }
    }
    Ok(Way { store, _turn: turn })
}
