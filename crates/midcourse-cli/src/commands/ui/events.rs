//! Live changes, as server-sent events. The id of an event is a position in the store, so a browser
//! that connects again, also after a restart of the server, misses nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream;
use midcourse::{Cursor, RunId, Store};
use serde::Deserialize;

use super::responses::Failure;
use super::runs::{prices, row};
use super::server::Viewer;
use crate::commands::report::collect;
use crate::page_data;

/// How many runs one event is sent for at a time. Of more, the page shows the newest.
const MAX_RUNS: usize = 500;

/// How many new records of the run one reading looks at.
const MAX_RECORDS: usize = 5_000;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
pub(super) struct Parameters {
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

struct Live {
    viewer: Viewer,
    run: Option<RunId>,
    cursor: Cursor,
    ready: VecDeque<Event>,
}

pub(super) async fn stream(
    State(viewer): State<Viewer>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    let cursor = match last.or(parameters.cursor) {
        Some(text) => text.parse().map_err(|_| Failure::invalid("the cursor is not valid"))?,
        None => viewer.stores.read(|store| Ok(store.cursor(None, 0)?)).await?,
    };
    let mut live = Live {
        viewer,
        run: parameters.run.filter(|run| !run.is_empty()).map(RunId::from),
        cursor,
        // A browser that has seen no other event yet goes on from here when it connects again.
        ready: VecDeque::from([Event::default().event("ready").id(cursor.to_string()).data("{}")]),
    };
    // What was stored between the page's last request and now.
    live.viewer.changes.mark_changed();
    let events = stream::unfold(live, |mut live| async move {
        let event = live.next().await?;
        Some((Ok(event), live))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Live {
    /// Waits for the next event; `None` if the server stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.viewer.changes.changed().await.ok()?;
            let (run, cursor) = (self.run.clone(), self.cursor);
            #[cfg(feature = "fleet")]
            if let (None, Some(fleet)) = (&run, self.viewer.fleet.clone()) {
                let read = move |store: &Store| {
                    let prices = prices(store);
                    let rows = fleet.latest_rows()?.into_iter();
                    let event =
                        |listed| Event::default().event("run").json_data(row(listed, &prices));
                    Ok(rows.map(event).collect::<Result<Vec<Event>, _>>()?)
                };
                if let Ok(events) = self.viewer.stores.read(read).await {
                    let id = self.cursor.to_string();
                    self.ready.extend(events.into_iter().map(|event| event.id(id.clone())));
                }
                continue;
            }
            // If the store cannot be read now, the next change shows what is new.
            let read = self.viewer.stores.read(move |store| events(store, run.as_ref(), cursor));
            if let Ok((events, cursor)) = read.await {
                // There may be more than one reading returns.
                if cursor != self.cursor {
                    self.viewer.changes.mark_changed();
                }
                self.cursor = cursor;
                self.ready.extend(events);
            }
        }
    }
}

/// What has changed since a position, and the position after that.
fn events(
    store: &Store,
    run: Option<&RunId>,
    since: Cursor,
) -> Result<(Vec<Event>, Cursor), Failure> {
    let (changed, mut cursor) = store.runs_after(since, MAX_RUNS)?;
    let mut events = Vec::new();
    if cursor == since {
        return Ok((events, cursor));
    }
    let shown = match run {
        Some(run_id) => {
            let (columns, after) =
                page_data::changes(store, since, std::slice::from_ref(run_id), MAX_RECORDS)?;
            cursor = after;
            for columns in columns {
                events.push(Event::default().event("outline").json_data(columns)?);
            }
            family(store, run_id, &changed)?
        }
        None => changed,
    };
    let prices = prices(store);
    for run_id in shown {
        if let Some(listed) = store.table_run(run_id.as_str())?
            && (run.is_some() || listed.run.parent_run_id.is_none())
        {
            events.push(Event::default().event("run").json_data(row(listed, &prices))?);
        }
    }
    // The browser remembers the id of the last event.
    let events = events.into_iter().map(|event| event.id(cursor.to_string())).collect();
    Ok((events, cursor))
}

/// Those of the changed runs that are this run or its subagents.
fn family(store: &Store, run_id: &RunId, changed: &[RunId]) -> Result<Vec<RunId>, Failure> {
    let Some(run) = store.run(run_id.as_str())? else { return Ok(Vec::new()) };
    let family = collect::family(store, run)?.into_iter().map(|part| part.run.run_id);
    Ok(family.filter(|member| changed.contains(member)).collect())
}
