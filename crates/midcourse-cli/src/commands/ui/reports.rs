//! Reports of runs, as `midcourse report` makes them. A report replays the whole run, so the latest
//! ones are kept until their run grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use midcourse::{RunId, Store};
use tokio::sync::Mutex;

use super::responses::{Failure, download, json_text};
use super::run_id::OfRun;
use super::runs::found;
use super::server::Viewer;
use super::stores::Stores;
use crate::commands::report::prices::Prices;
use crate::commands::report::{collect, html};
use crate::config;

/// How many reports are kept.
const MAX_KEPT: usize = 8;

/// A report of a run that grows is at least this many times as old as it took to compute before it is
/// computed again. So a long run that is being watched costs a fraction of a core.
const REST: u32 = 5;

/// Reports that were computed lately, the latest first. Whoever holds the lock computes: two reports at
/// once would only delay each other.
#[derive(Default)]
pub(super) struct Reports(Mutex<Vec<Arc<Kept>>>);

struct Kept {
    run_id: RunId,
    /// How many records the run and its subagents had.
    records: u64,
    json: Bytes,
    computed: Instant,
    took: Duration,
}

impl Reports {
    async fn json(&self, stores: &Arc<Stores>, run_id: String) -> Result<Bytes, Failure> {
        let mut kept = self.0.lock().await;
        let place = kept.iter().position(|kept| kept.run_id.as_str() == run_id);
        let known = place.map(|place| kept.remove(place));
        let report = stores.read(move |store| report(store, &run_id, known)).await?;
        let json = report.json.clone();
        kept.insert(0, report);
        kept.truncate(MAX_KEPT);
        Ok(json)
    }
}

/// The report that is kept if it is new enough, or another one.
fn report(store: &Store, run_id: &str, kept: Option<Arc<Kept>>) -> Result<Arc<Kept>, Failure> {
    let begun = Instant::now();
    let run = found(store, run_id)?.run;
    let parts = collect::family(store, run)?;
    let records = parts.iter().map(|part| part.run.records).sum();
    if let Some(kept) = kept {
        let is_young = kept.computed.elapsed() < kept.took.saturating_mul(REST);
        if kept.records == records || is_young {
            return Ok(kept);
        }
    }
    let prices = Prices::new(config::users_prices(store.data_dir()));
    let report = collect::collect(store, parts, &prices)?.context("the run has no records")?;
    Ok(Arc::new(Kept {
        run_id: report.run_id.clone(),
        records,
        json: serde_json::to_vec(&report)?.into(),
        computed: Instant::now(),
        took: begun.elapsed(),
    }))
}

/// The report of a run as JSON.
pub(super) async fn json(
    State(viewer): State<Viewer>,
    OfRun(run_id, ()): OfRun<()>,
) -> Result<Response, Failure> {
    Ok(json_text(viewer.reports.json(&viewer.stores, run_id).await?))
}

/// The report of a run as a page to save.
pub(super) async fn page(
    State(viewer): State<Viewer>,
    OfRun(run_id, ()): OfRun<()>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let parts = collect::family(store, found(store, &run_id)?.run)?;
        let prices = Prices::new(config::users_prices(store.data_dir()));
        let report = collect::collect(store, parts, &prices)?.context("the run has no records")?;
        let name = html::file_name(&report.run_id).display().to_string();
        Ok((name, html::page(store, &report)?))
    };
    let (name, page) = viewer.stores.read(read).await?;
    Ok(download("text/html; charset=utf-8", &name, page))
}
