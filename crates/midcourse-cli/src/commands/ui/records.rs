//! One record as the store has it, and one text of a record as a file.

use axum::extract::{Query, State};
use axum::response::Response;
use midcourse::Store;
use serde::Deserialize;

use super::responses::{Failure, download, json_response};
use super::run_id::OfRun;
use super::server::Viewer;
use crate::commands::json::record_json;
use crate::page_data;

/// The record, as `midcourse show --json` prints it.
pub(super) async fn record(
    State(viewer): State<Viewer>,
    OfRun(run_id, seq): OfRun<u64>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let entry = store.entry(&run_id, seq)?;
        let entry = entry.ok_or_else(|| Failure::not_found("There is no such record."))?;
        Ok(record_json(&entry.record))
    };
    json_response(&viewer.stores.read(read).await?)
}

#[derive(Deserialize)]
pub(super) struct Parameters {
    /// Where the text is in the payload (RFC 6901).
    pointer: String,
}

/// The whole text of a block of a step. A value that is not a text is written as JSON.
pub(super) async fn text(
    State(viewer): State<Viewer>,
    OfRun(run_id, seq): OfRun<u64>,
    Query(Parameters { pointer }): Query<Parameters>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let text = page_data::whole_text(store, &run_id, seq, &pointer)?;
        text.ok_or_else(|| Failure::not_found("The step has no text at this place."))
    };
    let text = viewer.stores.read(read).await?;
    Ok(download("text/plain; charset=utf-8", &format!("record-{seq}.txt"), text))
}
