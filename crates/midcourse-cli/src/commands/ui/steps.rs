//! The steps of a run: the outline of all of them, and a few with their texts.

use axum::extract::{Query, State};
use axum::response::Response;
use midcourse::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::responses::{Failure, json_text};
use super::run_id::OfRun;
use super::runs::{found, prices, row};
use super::server::Viewer;
use crate::page_data;

const DEFAULT_OUTLINE: usize = 20_000;
const MAX_OUTLINE: usize = 50_000;
const DEFAULT_ENTRIES: usize = 50;
const MAX_ENTRIES: usize = 200;

#[derive(Deserialize)]
pub(super) struct Parameters {
    #[serde(default)]
    from: u64,
    #[serde(default)]
    count: Option<usize>,
}

/// The outline from a seq on.
pub(super) async fn outline(
    State(viewer): State<Viewer>,
    OfRun(run_id, ()): OfRun<()>,
    Query(Parameters { from, count }): Query<Parameters>,
) -> Result<Response, Failure> {
    let count = count.unwrap_or(DEFAULT_OUTLINE).clamp(1, MAX_OUTLINE);
    let read = move |store: &Store| {
        let outline = page_data::outline(store, &run_id, from, count)?;
        Ok(serde_json::to_vec(&outline.ok_or_else(no_run)?)?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

/// A few steps with their texts, which are cut if they are long.
pub(super) async fn entries(
    State(viewer): State<Viewer>,
    OfRun(run_id, ()): OfRun<()>,
    Query(Parameters { from, count }): Query<Parameters>,
) -> Result<Response, Failure> {
    let count = count.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES);
    let read = move |store: &Store| {
        let page = page_data::entries(store, &run_id, from, count)?;
        Ok(serde_json::to_vec(&page.ok_or_else(no_run)?)?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

/// One step with its texts.
pub(super) async fn entry(
    State(viewer): State<Viewer>,
    OfRun(run_id, seq): OfRun<u64>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let entry = page_data::entry(store, &run_id, seq)?;
        let missing = || Failure::not_found("The run has no such step.");
        Ok(serde_json::to_vec(&entry.ok_or_else(missing)?)?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

/// Why midcourse delivered the message at a seq.
pub(super) async fn why(
    State(viewer): State<Viewer>,
    OfRun(run_id, seq): OfRun<u64>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let why = page_data::why(store, &run_id, seq)?;
        let missing = || Failure::not_found("There is no message of midcourse at this place.");
        Ok(serde_json::to_vec(&why.ok_or_else(missing)?)?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

/// What each message of the series about the same problem says in the situation of the message at a
/// seq. This analyses the run up to the message, which takes seconds if it is long.
pub(super) async fn rungs(
    State(viewer): State<Viewer>,
    OfRun(run_id, seq): OfRun<u64>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let rungs = page_data::rungs(store, &run_id, seq)?;
        Ok(serde_json::to_vec(&serde_json::json!({ "rungs": rungs }))?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

#[derive(Deserialize)]
pub(super) struct Pair {
    a: String,
    b: String,
}

/// Two runs, aligned step by step.
pub(super) async fn compare(
    State(viewer): State<Viewer>,
    Query(Pair { a, b }): Query<Pair>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let prices = prices(store);
        let row_of = |run_id: &str| Ok::<_, Failure>(row(found(store, run_id)?, &prices));
        let (row_a, row_b) = (row_of(&a)?, row_of(&b)?);
        let compared = page_data::compare(store, &a, &b)?.ok_or_else(no_run)?;
        Ok(serde_json::to_vec(&Compared { a: row_a, b: row_b, compared })?)
    };
    Ok(json_text(viewer.stores.read(read).await?))
}

#[derive(Serialize)]
struct Compared<T> {
    a: Value,
    b: Value,
    #[serde(flatten)]
    compared: T,
}

fn no_run() -> Failure {
    Failure::not_found("There is no such run; it may have been deleted.")
}
