//! The web server: which path leads to which data, and the checks of `midcourse ui` before that.
//!
//! `routes` has the page and its data without any check, so `midcourse serve` can put its own checks
//! in front of them.

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::extract::{Path, Request, State};
use axum::http::header::SET_COOKIE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use axum::{Router, serve as serve_http};
use midcourse::DataDir;
#[cfg(feature = "fleet")]
use midcourse_fleet::FleetTarget;

use super::access::{Access, Refusal};
use super::changes::{self, Changes};
#[cfg(feature = "fleet")]
use super::fleet::FleetView;
use super::reports::{self, Reports};
use super::responses::{Failure, add_headers, sentence};
use super::stores::Stores;
use super::{assets, events, print_next_link, records, runs, search, steps};

/// What every request for data may use.
#[derive(Clone)]
pub(in crate::commands) struct Viewer {
    pub(super) stores: Arc<Stores>,
    pub(super) changes: Changes,
    pub(super) reports: Arc<Reports>,
    /// The fleet whose runs the stores have copies of; `None` for the store of this machine.
    #[cfg(feature = "fleet")]
    pub(super) fleet: Option<Arc<FleetView>>,
}

impl Viewer {
    /// Shows the store of a data directory, and starts threads that follow it until the program ends.
    pub(in crate::commands) fn open(data_dir: &DataDir) -> Result<Self> {
        let stores = Stores::new(data_dir.clone());
        let changes = changes::follow(&stores)?;
        Ok(Self {
            stores,
            changes,
            reports: Arc::default(),
            #[cfg(feature = "fleet")]
            fleet: None,
        })
    }

    /// Shows a project of a fleet, and starts a thread that follows it until the program ends.
    #[cfg(feature = "fleet")]
    pub(in crate::commands) fn open_fleet(
        target: &FleetTarget,
        project: Option<&str>,
    ) -> Result<Self> {
        let fleet = Arc::new(FleetView::open(target, project)?);
        let (sender, changes) = tokio::sync::watch::channel(0);
        Arc::clone(&fleet).follow(sender)?;
        let stores = Stores::new(fleet.data_dir());
        Ok(Self { stores, changes, reports: Arc::default(), fleet: Some(fleet) })
    }

    /// Fails if the runs cannot be read.
    #[cfg(feature = "fleet")]
    pub(in crate::commands) fn check(&self) -> Result<()> {
        self.fleet.as_ref().map_or(Ok(()), |fleet| fleet.check())
    }
}

/// Serves the viewer until Ctrl-C.
pub(super) async fn serve(
    listener: TcpListener,
    viewer: Viewer,
    access: Arc<Access>,
) -> Result<()> {
    let router = guarded(routes(viewer), access);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // The streams of live events never end by themselves, so the server does not wait for them.
    tokio::select! {
        served = serve_http(listener, router) => served.context("the server stopped"),
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    }
}

/// The page and its data. Whoever uses these routes decides who may ask, and calls `add_headers` for
/// every response.
pub(in crate::commands) fn routes(viewer: Viewer) -> Router {
    let router = Router::new()
        .route("/", get(assets::index))
        .route("/run/{id}", get(assets::index))
        .route("/run/{id}/{seq}", get(assets::index))
        .route("/compare/{a}/{b}", get(assets::index))
        .route("/assets/{name}", get(assets::file))
        .route("/api/runs", get(runs::table))
        .route("/api/runs/{id}", get(runs::one))
        .route("/api/runs/{id}/outline", get(steps::outline))
        .route("/api/runs/{id}/entries", get(steps::entries))
        .route("/api/runs/{id}/entries/{seq}", get(steps::entry))
        .route("/api/runs/{id}/records/{seq}", get(records::record))
        .route("/api/runs/{id}/text/{seq}", get(records::text))
        .route("/api/runs/{id}/report", get(reports::json))
        .route("/api/runs/{id}/report.html", get(reports::page))
        .route("/api/runs/{id}/why/{seq}", get(steps::why))
        .route("/api/runs/{id}/why/{seq}/rungs", get(steps::rungs))
        .route("/api/compare", get(steps::compare))
        .route("/api/search", get(search::search))
        .route("/api/events", get(events::stream))
        .fallback(unknown);
    #[cfg(feature = "fleet")]
    let router =
        router.layer(middleware::from_fn_with_state(viewer.clone(), super::fleet::bring_runs));
    router.with_state(viewer)
}

/// Adds the checks of `midcourse ui` to the routes.
fn guarded(routes: Router, access: Arc<Access>) -> Router {
    routes
        // Requests to all these routes need a session; opening the link gives one.
        .layer(middleware::from_fn_with_state(Arc::clone(&access), check_session))
        .merge(Router::new().route("/open/{code}", get(open)).with_state(Arc::clone(&access)))
        .layer(middleware::from_fn_with_state(access, check_origin))
}

async fn unknown() -> Failure {
    Failure::not_found("There is no such page.")
}

async fn check_origin(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.check_origin(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(&request, refusal),
    };
    add_headers(response.headers_mut());
    response
}

async fn check_session(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    match access.has_session(request.headers()) {
        true => next.run(request).await,
        false => refused(&request, Refusal::NoSession),
    }
}

/// A person who opens an address gets a sentence to read; a program gets JSON.
fn refused(request: &Request, refusal: Refusal) -> Response {
    let path = request.uri().path();
    match path.starts_with("/api/") || path.starts_with("/assets/") {
        true => refusal.into_response(),
        false => sentence(refusal),
    }
}

/// Exchanges the code of a link for a session.
async fn open(
    State(access): State<Arc<Access>>,
    Path(code): Path<String>,
    request: Request,
) -> Response {
    // Somebody may open the link again in the browser that has used it.
    if access.has_session(request.headers()) {
        return Redirect::to(access.start()).into_response();
    }
    if !access.redeem(&code) {
        return sentence(Refusal::NoSession);
    }
    print_next_link(&access);
    ([(SET_COOKIE, access.cookie())], Redirect::to(access.start())).into_response()
}
