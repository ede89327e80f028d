//! The runs of a fleet for the viewer: requests about a run are answered from a copy of the run, which is
//! made or brought up to date before the request reads it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use midcourse::{DataDir, RunId, RunOrder, RunTableQuery, SearchFilter, SearchHit, TableRun};
use midcourse_fleet::{Changed, FleetReader, FleetTarget, Follower, RunReader as _};
use tokio::sync::watch;

use super::responses::Failure;
use super::run_id::{RunIdSegment, from_segment};
use super::server::Viewer;
use crate::commands::source::Fleet;
use crate::percent_encoding::percent_decoded;
use crate::terminal::warn;

/// A copy that is not older than this is not compared with the fleet again: the page asks several
/// things about a run at once.
const FRESH: Duration = Duration::from_secs(2);

/// If more runs than this are copied, the copies are removed, so that a server that runs for weeks does
/// not keep everything that anybody has looked at.
const MAX_COPIED: usize = 2_000;

/// After a notification, others that follow shortly are taken together.
const COLLECT: Duration = Duration::from_millis(300);

/// How long one wait for notifications takes at most.
const WAIT: Duration = Duration::from_secs(30);

/// The pause before the viewer connects again.
const RETRY: Duration = Duration::from_secs(3);

/// How many rows of the table a live update contains.
const LIVE_ROWS: usize = 50;

/// A project of a fleet. Lists, copies and searches have a connection each, so that a large run that is
/// copied, or a long search, does not delay the rest of the page.
pub(super) struct FleetView {
    target: FleetTarget,
    project: String,
    lists: Mutex<FleetReader>,
    state: Mutex<Copies>,
    /// `None` until somebody searches.
    search: Mutex<Option<Fleet>>,
}

struct Copies {
    fleet: Fleet,
    /// When a run was compared with the fleet.
    fresh: HashMap<RunId, Instant>,
}

impl FleetView {
    pub(super) fn open(target: &FleetTarget, project: Option<&str>) -> Result<Self> {
        let fleet = Fleet::open(target.clone(), project)?;
        let project = fleet.reader.project().to_owned();
        let lists = Mutex::new(FleetReader::open(target.clone(), Some(&project))?);
        let state = Mutex::new(Copies { fleet, fresh: HashMap::new() });
        Ok(Self { target: target.clone(), project, lists, state, search: Mutex::new(None) })
    }

    fn lists(&self) -> MutexGuard<'_, FleetReader> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, Copies> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data directory of the copies.
    pub(super) fn data_dir(&self) -> DataDir {
        self.state().fleet.copy.data_dir().clone()
    }

    /// Fails if the fleet cannot be reached.
    pub(super) fn check(&self) -> Result<()> {
        Ok(self.lists().ping()?)
    }

    /// Makes or refreshes the copy of a run. A run that does not exist has no copy.
    fn bring(&self, run_id: &RunId) -> Result<()> {
        let mut state = self.state();
        let state = &mut *state;
        if state.fresh.get(run_id).is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(());
        }
        state.fresh.retain(|_, at| at.elapsed() < FRESH);
        let Fleet { reader, copy } = &mut state.fleet;
        copy.bring(reader, run_id)?;
        state.fresh.insert(run_id.clone(), Instant::now());
        Ok(())
    }

    /// Whether so many runs are copied that the copies should be made anew.
    pub(super) fn is_full(&self) -> bool {
        self.state().fleet.copy.run_count() > MAX_COPIED
    }

    /// Removes all copies, and returns the data directory of the new ones.
    pub(super) fn empty(&self) -> Result<DataDir> {
        let mut state = self.state();
        state.fleet.forget_copies()?;
        state.fresh.clear();
        Ok(state.fleet.copy.data_dir().clone())
    }

    /// Rows of the table, how many there are, and the names of all hosts.
    pub(super) fn table(&self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64, Vec<String>)> {
        let mut reader = self.lists();
        let (runs, total) = reader.run_table(query)?;
        Ok((runs, total, reader.hosts()?))
    }

    /// The rows that changed last.
    pub(super) fn latest_rows(&self) -> Result<Vec<TableRun>> {
        let query =
            RunTableQuery { order: RunOrder::Latest, count: LIVE_ROWS, ..RunTableQuery::default() };
        Ok(self.lists().run_table(&query)?.0)
    }

    pub(super) fn search(
        &self,
        words: &str,
        filter: &SearchFilter,
        count: usize,
    ) -> Result<Vec<SearchHit>> {
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        let Fleet { reader, copy } = match &mut *search {
            Some(fleet) if fleet.copy.run_count() <= MAX_COPIED => fleet,
            other => other.insert(Fleet::open(self.target.clone(), Some(&self.project))?),
        };
        // Damaged records are not found; `midcourse fleet verify` names them.
        Ok(copy.search(reader, words, filter, count)?.0)
    }

    /// Follows the fleet until the program ends: refreshes the copies of runs that were shipped on, and
    /// then reports a change.
    pub(super) fn follow(self: Arc<Self>, changes: watch::Sender<u64>) -> Result<()> {
        thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            loop {
                if let Err(error) = self.follow_connection(&changes) {
                    warn(&format!("live updates stopped: {error}; trying again"));
                }
                thread::sleep(RETRY);
            }
        })?;
        Ok(())
    }

    fn follow_connection(&self, changes: &watch::Sender<u64>) -> Result<()> {
        let mut reader = FleetReader::open(self.target.clone(), Some(&self.project))?;
        let mut follower = Follower::open(&reader)?;
        // What was shipped before this connection.
        changes.send_modify(|number| *number += 1);
        loop {
            let mut changed = follower.wait(WAIT)?;
            if changed == Changed::Nothing {
                continue;
            }
            thread::sleep(COLLECT);
            let numbers = match (changed, follower.wait(Duration::ZERO)?) {
                (Changed::Runs(mut runs), Changed::Runs(more)) => {
                    runs.extend(more);
                    Some(runs)
                }
                (Changed::Runs(runs), Changed::Nothing) => Some(runs),
                _ => None,
            };
            changed = numbers.map_or(Changed::All, Changed::Runs);
            if let Changed::Runs(numbers) = &changed {
                let runs = reader.runs_numbered(numbers)?;
                let Fleet { reader, copy } = &mut self.state().fleet;
                copy.refresh(reader, &runs)?;
            }
            changes.send_modify(|number| *number += 1);
        }
    }
}

/// Makes or refreshes the copies of the runs that a request is about.
pub(super) async fn bring_runs(
    State(viewer): State<Viewer>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let Some(fleet) = viewer.fleet.clone() else { return Ok(next.run(request).await) };
    let runs = runs_of(request.uri());
    if runs.is_empty() {
        return Ok(next.run(request).await);
    }
    let stores = Arc::clone(&viewer.stores);
    let brought = tokio::task::spawn_blocking(move || -> Result<()> {
        if fleet.is_full() {
            stores.move_to(fleet.empty()?);
        }
        runs.iter().try_for_each(|run_id| fleet.bring(run_id))
    });
    brought.await.map_err(|_| Failure::stopping())??;
    Ok(next.run(request).await)
}

/// The runs that the address of a request names.
fn runs_of(uri: &axum::http::Uri) -> Vec<RunId> {
    let decoded = |text: &str| String::from_utf8_lossy(&percent_decoded(text)).into_owned();
    if let Some(rest) = uri.path().strip_prefix("/api/runs/") {
        let segment = rest.split('/').next().unwrap_or_default();
        let RunIdSegment(run_id) = from_segment(&decoded(segment));
        return vec![RunId::from(run_id)];
    }
    if !matches!(uri.path(), "/api/compare" | "/api/events") {
        return Vec::new();
    }
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let runs = pairs.filter(|(key, value)| matches!(*key, "a" | "b" | "run") && !value.is_empty());
    runs.map(|(_, value)| RunId::from(decoded(&value.replace('+', " ")))).collect()
}
