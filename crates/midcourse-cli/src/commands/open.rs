//! Opens the user's store and finds runs in it.
//!
//! While the store is locked, hooks write events to the spill folder instead. The functions that
//! open the store move these events into the store first, so that commands see all events.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use midcourse::{
    DataDir, Finding, Redaction, RunCursor, RunFilter, RunId, RunSummary, Store, StoreError,
    StoreSettings, has_spilled, now,
};

use crate::display::rfc3339;
use crate::terminal::warn;

/// Maximum number of runs that are named if several ids begin with the same text.
const MAX_FOUND: usize = 6;

/// The fewest characters of the end of an id that name a run. With fewer, a mistyped id could name
/// another run. `midcourse list` prints eight, on a narrow terminal.
const MIN_END: usize = 6;

/// The user's data directory. Warns if it is on a network filesystem.
pub(super) fn data_dir() -> Result<DataDir> {
    let data_dir = DataDir::of_user()?;
    if let Some(filesystem) = data_dir.network_filesystem() {
        warn(&format!(
            "{} is on a network filesystem ({filesystem}), where locks may fail and records may be \
             lost; set MIDCOURSE_HOME to a directory on a local disk",
            data_dir.path().display()
        ));
    }
    Ok(data_dir)
}

/// Opens the store for reading. Fails if there is no store yet.
pub(super) fn to_read() -> Result<Store> {
    if let Some(store) = existing()? {
        return Ok(store);
    }
    bail!(
        "no runs recorded in {}; record one with `midcourse run`, or set MIDCOURSE_HOME to another \
         data directory",
        DataDir::of_user()?.path().display()
    )
}

/// Opens the store for reading; `None` if there is no store yet.
pub(super) fn existing() -> Result<Option<Store>> {
    let data_dir = data_dir()?;
    if has_spilled(&data_dir)
        && let Err(error) = to_write_in(&data_dir, StoreSettings::default())
    {
        warn(&format!("cannot import spilled events, so they are not shown: {error:#}"));
    }
    Store::open_read_only(&data_dir).with_context(|| data_dir.path().display().to_string())
}

/// Adds the calls without a result to `run.calls`, which otherwise counts only calls that have
/// ended. The agent may have stopped during such a call.
pub(super) fn add_open_calls(store: &Store, run: &mut RunSummary) -> Result<(), StoreError> {
    run.calls = run.calls.saturating_add(store.open_call_count(run.run_id.as_str())?);
    Ok(())
}

/// Opens the store for writing. Creates the store if there is none yet.
pub(super) fn to_write() -> Result<Store> {
    to_write_in(&data_dir()?, StoreSettings::default())
}

/// Opens the store for writing, with these redaction rules.
pub(super) fn to_redact(data_dir: &DataDir, redaction: Redaction) -> Result<Store> {
    to_write_in(data_dir, StoreSettings { redaction, ..StoreSettings::default() })
}

/// Opens the store of this data directory for writing. Creates the store if there is none yet.
pub(super) fn to_write_in(data_dir: &DataDir, settings: StoreSettings) -> Result<Store> {
    let path = || data_dir.path().display().to_string();
    let mut store = Store::open(data_dir, settings).with_context(path)?;
    while store.ingest_spilled().with_context(path)? > 0 {}
    Ok(store)
}

/// Chooses a folder of the data directory for the files that a command replaces. The folder does
/// not exist yet.
pub(super) fn folder_for_kept_files(data_dir: &DataDir, command: &str) -> PathBuf {
    let time = rfc3339(now()).replace(':', "-");
    let name = |number: u32| match number {
        1 => format!("before-{command}-{time}"),
        _ => format!("before-{command}-{time}-{number}"),
    };
    let mut folders = (1..).map(|number| data_dir.path().join(name(number)));
    folders.find(|folder| !folder.exists()).unwrap_or_default()
}

/// Finds a run. `name` is the id of the run, the start or the end of the id if only one run has it,
/// or `latest` for the newest run that is not the run of a subagent. If the start of an id fits a run
/// and its subagents, whose ids often begin with that of their parent, it means the parent.
pub(super) fn find_run(store: &Store, name: &str) -> Result<RunSummary> {
    if name == "latest" {
        let (listed, _) = store.list_runs(&RunFilter::default(), RunCursor::START, 1)?;
        let latest = listed.into_iter().next().map(|listed| listed.run);
        return latest.context("no runs recorded yet; record one with `midcourse run`");
    }
    if let Some(run) = store.run(name)? {
        return Ok(run);
    }
    let mut found: Vec<RunId> = store.runs_like(name, MAX_FOUND)?;
    if found.is_empty() && name.len() >= MIN_END {
        found = store.runs_ending_in(name, MAX_FOUND)?;
    }
    let shortest = found.iter().min_by_key(|id| id.as_str().len());
    let parent = shortest
        .filter(|shortest| found.iter().all(|id| id.as_str().starts_with(shortest.as_str())));
    match (parent, found.len()) {
        (_, 0) => bail!("no run `{name}`; `midcourse list --all` shows all runs"),
        (Some(one), count) if count < MAX_FOUND => {
            store.run(one.as_str())?.context("the run has just been removed")
        }
        _ => {
            let names: Vec<&str> = found.iter().map(RunId::as_str).collect();
            bail!(
                "several runs start or end with `{name}`: {}; use more of the id",
                names.join(", ")
            )
        }
    }
}

/// Finds a run, or a run and the seq in it: `RUN:SEQ`, as `midcourse search` prints it.
pub(super) fn find_run_or_record(store: &Store, name: &str) -> Result<(RunSummary, Option<u64>)> {
    let record = name.rsplit_once(':').and_then(|(run, seq)| Some((run, seq.parse().ok()?)));
    // The id of a run may contain a colon, too.
    match record {
        Some((run, seq)) if store.run(name)?.is_none() => Ok((find_run(store, run)?, Some(seq))),
        _ => Ok((find_run(store, name)?, None)),
    }
}

/// A progress bar on standard error; hidden if standard error is not a terminal.
pub(super) fn progress(total: u64, label: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}");
    let bar = ProgressBar::new(total).with_message(label);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Prints the damage in the records that a command has shown. Fails if there is any.
pub(super) fn report_damage(findings: &[Finding]) -> Result<()> {
    for finding in findings {
        warn(&finding.to_string());
    }
    ensure!(findings.is_empty(), "the run is damaged; run `midcourse verify` for details");
    Ok(())
}

/// Whether the error is that the database file itself is damaged, and not just one run in it.
pub(super) const fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged(_))
}
