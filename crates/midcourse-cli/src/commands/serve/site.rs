//! The server around the viewers of the projects: who may ask for what.
//!
//! Every request but those for health and for the files of the page needs a session, and a session
//! reaches only the projects of its person. A project that a person may not see gives the same
//! response as one that does not exist.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Form, FromRequest as _, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, RETRY_AFTER, SET_COOKIE};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tower_service::Service as _;

use super::failures::Failures;
use super::metrics::{Metrics, Route};
use super::pages::{self, Problem};
use super::people::{Person, WatchedPeople};
use super::projects::{self, Projects};
use super::readiness::Readiness;
use super::rules::{RequestRules, is_from_other_site};
use super::sessions::{SESSION_TIME, SessionKey, Sessions};
use super::streams;
use crate::commands::ui::{add_headers, file, segment};
use crate::terminal::{eprint_line, sanitized};

/// The longest form that is read, in bytes.
const MAX_FORM: usize = 8 * 1024;

const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of the other end of the connection; an extension of every request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

pub(super) struct Site {
    pub(super) projects: Arc<Projects>,
    pub(super) people: WatchedPeople,
    pub(super) sessions: Sessions,
    pub(super) failures: Failures,
    pub(super) rules: RequestRules,
    pub(super) readiness: Readiness,
    pub(super) metrics: Metrics,
    /// The port that the server listens on.
    pub(super) port: u16,
}

pub(super) fn router(site: &Arc<Site>) -> Router {
    Router::new()
        .route("/", get(choose))
        .route("/sign-in", get(show_form).post(sign_in))
        .route("/sign-out", post(sign_out))
        .route("/assets/{name}", get(file))
        .fallback(project)
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .layer(middleware::from_fn_with_state(Arc::clone(site), check_rules))
        // Programs that watch the server ask by its address, and without TLS behind a proxy.
        .merge(health())
        .layer(middleware::from_fn_with_state(Arc::clone(site), count))
        .with_state(Arc::clone(site))
}

/// The routes of `--metrics-listen`.
pub(super) fn metrics_router(site: &Arc<Site>) -> Router {
    let metrics = Router::new().route("/metrics", get(metrics));
    metrics.merge(health()).with_state(Arc::clone(site))
}

fn health() -> Router<Arc<Site>> {
    Router::new().route("/healthz", get(|| async { "up\n" })).route("/readyz", get(ready))
}

async fn ready(State(site): State<Arc<Site>>) -> Response {
    match site.readiness.is_ready().await {
        true => "ready\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let text = site.metrics.text(site.readiness.is_ready().await);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn count(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let (route, begun) = (Route::of(request.uri().path()), Instant::now());
    let mut response = next.run(request).await;
    add_headers(response.headers_mut());
    site.metrics.add_request(route, response.status(), begun.elapsed());
    response
}

async fn check_rules(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    match site.rules.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => pages::refused(refusal),
    }
}

/// Who makes a request.
pub(super) enum Who {
    Person(Person, SessionKey),
    Nobody,
    /// The people file cannot be used.
    Unknown,
}

impl Site {
    /// The name of the cookie. Cookies do not differ by port, so the name does.
    fn cookie_name(&self) -> String {
        // Browsers take a cookie of this name over HTTPS only, and from no other host.
        let prefix = if self.rules.is_https() { "__Host-" } else { "" };
        format!("{prefix}midcourse-serve-{}", self.port)
    }

    fn cookie(&self, value: &str, lifetime: Duration) -> String {
        let secure = if self.rules.is_https() { "; Secure" } else { "" };
        let (name, seconds) = (self.cookie_name(), lifetime.as_secs());
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }

    fn session_keys(&self, headers: &HeaderMap) -> Vec<SessionKey> {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|all| all.split(';')).filter_map(|it| it.trim().split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| SessionKey::of(value)).collect()
    }

    fn who(&self, headers: &HeaderMap) -> Who {
        let Some(people) = self.people.current() else { return Who::Unknown };
        let person = |key| Some(Who::Person(self.sessions.person(key, &people)?, key));
        self.session_keys(headers).into_iter().find_map(person).unwrap_or(Who::Nobody)
    }

    /// Whether a session still reaches a project.
    pub(super) fn may_see(&self, key: SessionKey, project: &str) -> bool {
        let people = self.people.current();
        let person = people.and_then(|people| self.sessions.person(key, &people));
        person.is_some_and(|person| person.may_see(project))
    }
}

/// Sends somebody without a session to the form, and tells programs that they have none.
fn without_session(request: &Request) -> Response {
    let is_page = request.method() == Method::GET && !request.uri().path().contains("/api/");
    if !is_page {
        let text = "You are signed out. Load the page again to sign in.";
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": text }))).into_response();
    }
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    if is_from_other_site(request.headers()) {
        return pages::again(local(path));
    }
    match path {
        "/" => Redirect::to("/sign-in").into_response(),
        _ => Redirect::to(&format!("/sign-in?next={}", segment(path))).into_response(),
    }
}

/// The address to go to after signing in: one of this server, or the start.
fn local(address: &str) -> &str {
    let is_local = address.starts_with('/')
        && !address.starts_with("//")
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { address } else { "/" }
}

/// The list of projects, or the project if there is one only.
async fn choose(State(site): State<Arc<Site>>, request: Request) -> Response {
    let person = match site.who(request.headers()) {
        Who::Person(person, _) => person,
        Who::Nobody => return without_session(&request),
        Who::Unknown => return pages::unavailable(),
    };
    match site.projects.seen_by(&person).as_slice() {
        [only] => Redirect::to(&projects::address(only)).into_response(),
        projects => pages::choose(&person.name, projects),
    }
}

#[derive(Deserialize)]
struct Destination {
    #[serde(default)]
    next: String,
}

async fn show_form(
    State(site): State<Arc<Site>>,
    query: Result<Query<Destination>, QueryRejection>,
    request: Request,
) -> Response {
    let next = query.map_or_else(|_| String::new(), |Query(query)| query.next);
    match site.who(request.headers()) {
        Who::Person(..) => Redirect::to(local(&next)).into_response(),
        Who::Nobody if is_from_other_site(request.headers()) => {
            let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
            pages::again(local(path))
        }
        Who::Nobody => pages::sign_in(local(&next), None),
        Who::Unknown => pages::unavailable(),
    }
}

#[derive(Deserialize)]
struct SignIn {
    token: String,
    #[serde(default)]
    next: String,
}

/// Exchanges a token for a session.
async fn sign_in(State(site): State<Arc<Site>>, request: Request) -> Response {
    let headers = request.headers().clone();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let client = peer.map(|peer| site.rules.client(peer, &headers));
    let form = tokio::time::timeout(FORM_TIMEOUT, Form::<SignIn>::from_request(request, &()));
    let (Ok(Ok(Form(form))), Some(client)) = (form.await, client) else {
        return pages::sign_in("/", Some(Problem::Incomplete));
    };
    let next = local(&form.next);
    let Some(people) = site.people.current() else { return pages::unavailable() };
    let Some(person) = people.with_token(&form.token) else {
        site.metrics.sign_in_failures.fetch_add(1, Ordering::Relaxed);
        let Err(wait) = site.failures.add(client, Instant::now()) else {
            note(&format!("a sign-in from {client} failed: the token is not valid"));
            return pages::sign_in(next, Some(Problem::WrongToken));
        };
        let mut response = pages::sign_in(next, Some(Problem::TooManyAttempts));
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        return response;
    };
    site.session_keys(&headers).into_iter().for_each(|key| site.sessions.end(key));
    let Ok(value) = site.sessions.begin(person) else { return pages::unavailable() };
    site.metrics.sign_ins.fetch_add(1, Ordering::Relaxed);
    note(&format!("{} signed in from {client}", person.name));
    ([(SET_COOKIE, site.cookie(&value, SESSION_TIME))], Redirect::to(next)).into_response()
}

async fn sign_out(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    site.session_keys(&headers).into_iter().for_each(|key| site.sessions.end(key));
    ([(SET_COOKIE, site.cookie("", Duration::ZERO))], Redirect::to("/sign-in")).into_response()
}

/// Passes a request on to the viewer of its project.
async fn project(State(site): State<Arc<Site>>, mut request: Request) -> Response {
    let (person, key) = match site.who(request.headers()) {
        Who::Person(person, key) => (person, key),
        Who::Nobody => return without_session(&request),
        Who::Unknown => return pages::unavailable(),
    };
    let Some((name, rest)) = projects::split(request.uri().path()) else {
        return pages::not_found();
    };
    let Some(mut viewer) = site.projects.viewer(&name, &person) else { return pages::not_found() };
    match rest {
        "" => return Redirect::to(&projects::address(&name)).into_response(),
        "/api/session" => {
            let has_others = site.projects.seen_by(&person).len() > 1;
            let session =
                json!({ "project": name, "person": person.name, "has_other_projects": has_others });
            return Json(session).into_response();
        }
        _ => {}
    }
    let inner = match request.uri().query() {
        Some(query) => format!("{rest}?{query}").parse::<Uri>(),
        None => rest.parse(),
    };
    let Ok(inner) = inner else { return pages::not_found() };
    *request.uri_mut() = inner;
    let Ok(response) = viewer.call(request).await;
    streams::watched(response, &site, key, name)
}

/// Writes a line to the log, which is standard error.
pub(super) fn note(text: &str) {
    eprint_line(&sanitized(text));
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn nobody_is_sent_to_another_site() {
        for address in ["/", "/p/web/run/a%2Fb?x=1"] {
            assert_eq!(local(address), address);
        }
        for address in
            ["", "//x.example", "/\\x.example", "https://x.example", "/a b", "/a\r\nb", "/ä"]
        {
            assert_eq!(local(address), "/", "{address}");
        }
    }
}
