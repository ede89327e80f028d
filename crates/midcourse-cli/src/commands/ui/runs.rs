//! The table of runs, and one run with the runs around it.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use midcourse::{RunFilter, RunOrder, RunTableQuery, Store, StoreError, TableRun, Timestamp, now};
use serde::Deserialize;
use serde_json::{Value, json};

use super::responses::{Failure, json_response};
use super::run_id::OfRun;
use super::server::Viewer;
use crate::commands::json::run_json;
use crate::commands::report::collect;
use crate::commands::report::prices::{Prices, Tokens};
use crate::config;

/// A run without an end counts as running if its latest record is not older.
const RUNNING: Duration = Duration::from_secs(10 * 60);

const DEFAULT_COUNT: usize = 100;
const MAX_COUNT: usize = 500;

/// How many runs above a run are named.
const MAX_PARENTS: usize = 64;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Parameters {
    text: Option<String>,
    host: Option<String>,
    since: Option<u64>,
    state: Option<String>,
    sort: Option<String>,
    order: Option<String>,
    offset: u64,
    count: Option<usize>,
}

impl Parameters {
    fn query(self) -> Result<RunTableQuery, Failure> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (mut failed, mut said, mut running) = (false, false, false);
        match given(self.state).as_deref() {
            None => {}
            Some("failed") => failed = true,
            Some("said") => said = true,
            Some("running") => running = true,
            Some(_) => return Err(Failure::invalid("state is failed, said or running")),
        }
        let order = match given(self.sort).as_deref() {
            None | Some("started") => RunOrder::Started,
            Some("latest") => RunOrder::Latest,
            Some("duration") => RunOrder::Duration,
            Some("calls") => RunOrder::Calls,
            Some("errors") => RunOrder::Errors,
            Some("messages") => RunOrder::Messages,
            Some("tokens") => RunOrder::Tokens,
            Some("cost") => RunOrder::Cost,
            Some(_) => return Err(Failure::invalid("there is no such column to sort by")),
        };
        let since = self.since.map(Timestamp::from_unix_ms);
        let host = given(self.host);
        Ok(RunTableQuery {
            filter: RunFilter { host, since, failed, said, ..RunFilter::default() },
            text: given(self.text),
            running_since: running.then(running_since),
            order,
            is_ascending: self.order.as_deref() == Some("asc"),
            offset: self.offset,
            count: self.count.unwrap_or(DEFAULT_COUNT).min(MAX_COUNT),
        })
    }
}

fn running_since() -> Timestamp {
    let age = u64::try_from(RUNNING.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age))
}

/// The rows of the table.
pub(super) async fn table(
    State(viewer): State<Viewer>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Failure> {
    let query = parameters.query()?;
    #[cfg(feature = "fleet")]
    if let Some(fleet) = viewer.fleet.clone() {
        let read = move |store: &Store| {
            let (runs, total, hosts) = fleet.table(&query)?;
            let prices = prices(store);
            let runs: Vec<Value> = runs.into_iter().map(|run| row(run, &prices)).collect();
            Ok(json!({ "total": total, "hosts": hosts, "runs": runs }))
        };
        return json_response(&viewer.stores.read(read).await?);
    }
    let read = move |store: &Store| {
        let (runs, total) = store.run_table(&query)?;
        let prices = prices(store);
        let runs: Vec<Value> = runs.into_iter().map(|run| row(run, &prices)).collect();
        Ok(json!({ "total": total, "hosts": store.hosts()?, "runs": runs }))
    };
    json_response(&viewer.stores.read(read).await?)
}

/// The prices for the estimates of rows.
pub(super) fn prices(store: &Store) -> Prices {
    Prices::new(config::users_prices(store.data_dir()))
}

/// A run as a row: the object of `list --json`, whether the run is going on, and what it may have cost
/// if the host does not say.
pub(super) fn row(listed: TableRun, prices: &Prices) -> Value {
    let TableRun { mut run, open_calls, subagents } = listed;
    let is_running = run.ended.is_none() && run.latest >= running_since();
    // Like `list`, the table counts every call, also one during which the agent stopped.
    run.calls = run.calls.saturating_add(open_calls);
    let mut row = run_json(&run);
    if let Value::Object(fields) = &mut row {
        fields.insert("subagents".to_owned(), subagents.into());
        fields.insert("running".to_owned(), is_running.into());
        let tokens = run.tokens.as_ref().filter(|_| run.cost.is_none()).map(Tokens::of);
        let model = run.model.as_deref();
        let estimate = tokens.and_then(|tokens| prices.estimate([(model, tokens)]).usd);
        fields.insert("estimated_cost_usd".to_owned(), estimate.into());
    }
    row
}

/// One run, the runs above it, and its subagents.
pub(super) async fn one(
    State(viewer): State<Viewer>,
    OfRun(run_id, ()): OfRun<()>,
) -> Result<Response, Failure> {
    let read = move |store: &Store| {
        let (found, prices) = (found(store, &run_id)?, prices(store));
        let mut parents = Vec::new();
        let mut parent = found.run.parent_run_id.clone();
        while let Some(run_id) = parent.take()
            && parents.len() < MAX_PARENTS
            && let Some(run) = store.table_run(run_id.as_str())?
        {
            parent = run.run.parent_run_id.clone();
            parents.push(row(run, &prices));
        }
        parents.reverse();
        let subagents = subagents(store, &found, &prices)?;
        Ok(json!({ "run": row(found, &prices), "parents": parents, "subagents": subagents }))
    };
    json_response(&viewer.stores.read(read).await?)
}

fn subagents(store: &Store, run: &TableRun, prices: &Prices) -> Result<Vec<Value>, StoreError> {
    let mut rows = Vec::new();
    // Each run comes after its parent, so the level of the parent is known.
    let mut levels = std::collections::HashMap::from([(run.run.run_id.clone(), 0_usize)]);
    for part in collect::family(store, run.run.clone())?.into_iter().skip(1) {
        let parent = part.run.parent_run_id.as_ref().and_then(|parent| levels.get(parent));
        let level = parent.copied().unwrap_or(0).saturating_add(1);
        levels.insert(part.run.run_id.clone(), level);
        let listed = TableRun { run: part.run, open_calls: 0, subagents: 0 };
        let mut row = row(listed, prices);
        if let Value::Object(fields) = &mut row {
            fields.insert("level".to_owned(), level.into());
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The run with this id.
pub(super) fn found(store: &Store, run_id: &str) -> Result<TableRun, Failure> {
    let run = store.table_run(run_id)?;
    run.ok_or_else(|| Failure::not_found("There is no such run; it may have been deleted."))
}
