//! Full-text search over all runs, or in one.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use midcourse::{RunId, SearchFilter, SearchHit, SearchIndex, SearchWords, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use super::responses::{Failure, json_response};
use super::server::Viewer;
use crate::display::{describe_entry, one_line};

const DEFAULT_COUNT: usize = 50;
const MAX_COUNT: usize = 200;

/// How much of the line that was found is returned, in characters.
const MAX_LINE_CHARS: usize = 300;

#[derive(Deserialize)]
pub(super) struct Parameters {
    words: String,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    count: Option<usize>,
}

pub(super) async fn search(
    State(viewer): State<Viewer>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Failure> {
    let stores = Arc::clone(&viewer.stores);
    let read = move |store: &Store| {
        let run_id = parameters.run.filter(|run| !run.is_empty()).map(RunId::from);
        let filter = SearchFilter { run_id, ..SearchFilter::default() };
        let count = parameters.count.unwrap_or(DEFAULT_COUNT).min(MAX_COUNT);
        let (found, unindexed) = viewer.search(store, &parameters.words, &filter, count)?;
        let words = SearchWords::of(&parameters.words);
        let hits: Vec<Value> = found
            .iter()
            .map(|hit| {
                let record = &hit.entry.record;
                let run = store.run(hit.run_id.as_str()).ok().flatten();
                let tool = record.value.get("tool_name").and_then(Value::as_str);
                let described = describe_entry(&hit.entry, |seq| seq);
                json!({
                    "run_id": hit.run_id, "seq": hit.seq, "at": record.at.unix_ms(),
                    "tool": tool.map(|tool| one_line(tool, 80)),
                    "title": one_line(&described.text, 160),
                    "line": words.excerpt(&hit.line, MAX_LINE_CHARS),
                    "state": u8::from(hit.entry.failed() == Some(true)),
                    "task": run.and_then(|run| run.task), "host": record.source.host(),
                })
            })
            .collect();
        Ok(json!({ "hits": hits, "unindexed": unindexed }))
    };
    json_response(&stores.read(read).await?)
}

impl Viewer {
    /// What was found, and how many records are not in the index yet.
    fn search(
        &self,
        store: &Store,
        words: &str,
        filter: &SearchFilter,
        count: usize,
    ) -> Result<(Vec<SearchHit>, u64), Failure> {
        #[cfg(feature = "fleet")]
        if let Some(fleet) = &self.fleet {
            return Ok((fleet.search(words, filter, count)?, 0));
        }
        let index = SearchIndex::open(store)?;
        // Damaged records are not found; `midcourse verify` names them.
        let (found, _) = index.search(store, words, filter, count)?;
        Ok((found, index.unindexed(store)?))
    }
}
