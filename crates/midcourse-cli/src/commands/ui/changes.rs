//! Follows the store in the background: tells the requests that are open when something was stored,
//! takes in events that hooks put aside, keeps the search index up to date, and computes summaries
//! that are missing or out of date.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use midcourse::{SearchIndex, Store, StoreSettings, has_spilled};
use tokio::sync::watch;

use super::stores::{FileId, Stores};
use crate::commands::refresh::{Outdated, refresh};
use crate::commands::{open, tail};

/// A number that grows with every change of the store.
pub(super) type Changes = watch::Receiver<u64>;

/// Starts to follow the store.
pub(super) fn follow(stores: &Arc<Stores>) -> Result<Changes> {
    let (sender, changes) = watch::channel(0);
    let watched = Arc::clone(stores);
    thread::Builder::new().name("changes".to_owned()).spawn(move || watch(&watched, &sender))?;
    let (updated, mut seen) = (Arc::clone(stores), changes.clone());
    thread::Builder::new().name("index".to_owned()).spawn(move || {
        loop {
            seen.mark_unchanged();
            // If the store is locked or damaged, the requests that read it say so.
            let _ = update(&updated);
            while matches!(seen.has_changed(), Ok(false)) {
                thread::sleep(tail::POLL_INTERVAL);
            }
        }
    })?;
    Ok(changes)
}

/// Reports each change. Ends with the program.
fn watch(stores: &Stores, changes: &watch::Sender<u64>) {
    let mut open: Option<(Store, Option<FileId>, i64)> = None;
    loop {
        let file = FileId::of(&stores.data_dir().store_file());
        // Another file is in the place of the store, or the last attempt to read it failed.
        if open.as_ref().is_none_or(|(_, opened, _)| *opened != file) {
            open = stores.open().ok().map(|store| (store, file, i64::MIN));
        }
        let version = open.as_ref().map(|(store, ..)| store.data_version());
        match (version, &mut open) {
            (Some(Ok(version)), Some((_, _, seen))) if version != *seen => {
                *seen = version;
                changes.send_modify(|number| *number += 1);
            }
            (Some(Err(_)), _) => open = None,
            _ => {}
        }
        if has_spilled(&stores.data_dir()) {
            // If it fails, for example because the store is locked, the next round tries it again.
            let _ = open::to_write_in(&stores.data_dir(), StoreSettings::default());
        }
        thread::sleep(tail::POLL_INTERVAL);
    }
}

/// Adds new records to the search index and computes outdated summaries.
fn update(stores: &Stores) -> Result<()> {
    let store = stores.open()?;
    SearchIndex::open(&store)?.catch_up(&store, |_| ())?;
    let mut first = None;
    loop {
        let outdated = store.outdated_runs(true, 1)?.into_iter().next().map(|run| run.run_id);
        // A summary that could not be saved is still outdated.
        if outdated.is_none() || outdated == first {
            return Ok(());
        }
        refresh(&store, Outdated::WrongOrNotAnalysed);
        first = outdated;
        thread::sleep(Duration::from_millis(10));
    }
}
