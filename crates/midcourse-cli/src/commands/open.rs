//! Opening the user's store, and finding the run that was meant.

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use midcourse::{DataDir, RunId, RunSummary, Store, StoreError, StoreSettings, has_spilled};

use crate::terminal::warn;

/// The user's folder for data; one on a network filesystem is said.
pub(super) fn home() -> Result<DataDir> {
    let home = DataDir::of_user()?;
    if let Some(filesystem) = home.network_filesystem() {
        warn(&format!(
            "{} is on {filesystem}: locks may not hold there, and records may be lost; set \
             MIDCOURSE_HOME to a folder on a local disk",
            home.path().display()
        ));
    }
    Ok(home)
}

/// The user's store, for reading. Events that wait in the spill folder are taken in first.
pub(super) fn to_read() -> Result<Store> {
    if let Some(store) = if_any()? {
        return Ok(store);
    }
    bail!(
        "there are no records in {}; they begin with the first run (or set MIDCOURSE_HOME to where \
         they are)",
        DataDir::of_user()?.path().display()
    )
}

/// The same; nothing, if there is no store yet.
pub(super) fn if_any() -> Result<Option<Store>> {
    let home = home()?;
    if has_spilled(&home)
        && let Err(error) = to_write_in(&home)
    {
        warn(&format!("spilled events are not shown yet: {error:#}"));
    }
    Store::open_read_only(&home).with_context(|| home.path().display().to_string())
}

/// The user's store, for writing.
pub(super) fn to_write() -> Result<Store> {
    to_write_in(&home()?)
}

fn to_write_in(home: &DataDir) -> Result<Store> {
    let folder = || home.path().display().to_string();
    let mut store = Store::open(home, StoreSettings::default()).with_context(folder)?;
    while store.ingest_spilled().with_context(folder)? > 0 {}
    Ok(store)
}

/// The run that was meant: by its id, by the beginning of it, or the latest.
pub(super) fn find_run(store: &Store, meant: &str) -> Result<RunSummary> {
    if meant == "latest" {
        let latest = store.runs(1)?.pop();
        return latest.context("there are no runs yet");
    }
    if let Some(run) = store.run(meant)? {
        return Ok(run);
    }
    let found: Vec<RunId> = store.runs_like(meant, 6)?;
    match found.as_slice() {
        [] => bail!("there is no run {meant}; `midcourse list` shows those there are"),
        [one] => store.run(one.as_str())?.context("the run was just removed"),
        several => {
            let names: Vec<&str> = several.iter().map(RunId::as_str).collect();
            bail!("{meant} could be any of {}: say more of it", names.join(", "))
        }
    }
}

/// A progress bar on standard error, if a person watches it.
pub(super) fn progress(length: u64, what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}");
    let bar = ProgressBar::new(length).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Whether the store could not be read at all, as opposed to one run of it.
pub(super) const fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged(_))
}
