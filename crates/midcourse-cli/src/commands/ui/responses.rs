//! What the server sends: JSON, errors with a sentence that says what to do, and the headers that
//! every response has.

use axum::body::Body;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::access::Refusal;
use crate::terminal::sanitized;

/// The page loads its own files and nothing else. Nothing inline runs, and no text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Adds the headers of every response.
pub(in crate::commands) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    // Streams of events have a weaker value by default.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Why a request has no result.
#[derive(Debug)]
pub(in crate::commands) struct Failure {
    status: StatusCode,
    text: String,
}

impl Failure {
    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, text: text.into() }
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }

    pub(super) fn stopping() -> Self {
        let text = "The viewer is stopping. Start it again, then load the page again.".to_owned();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, text }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        // The text may quote a file, like every error that the program prints.
        let text = sanitized(&format!("{:#}", error.into()));
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, text }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        with_status(self.status, &json!({ "error": self.text }))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "This page can only be opened on this machine, with the link that `midcourse ui` \
                 printed.",
            ),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "The viewer only reads; use GET or HEAD.")
            }
            Self::NoSession => (
                StatusCode::UNAUTHORIZED,
                "This page needs the link that `midcourse ui` printed. Each link works once; run \
                 `midcourse ui` again, or use the newest link in its terminal.",
            ),
        };
        with_status(status, &json!({ "error": text }))
    }
}

/// A page with one sentence, for a person who opened a link that does not work.
pub(super) fn sentence(refusal: Refusal) -> Response {
    let (mut parts, _) = refusal.into_response().into_parts();
    let text = match refusal {
        Refusal::NoSession => {
            "This page needs the link that <code>midcourse ui</code> printed. Each link works once: \
             run <code>midcourse ui</code> again, or use the newest link in its terminal."
        }
        Refusal::Foreign | Refusal::Method => {
            "Open the viewer on this machine, with the link that <code>midcourse ui</code> printed."
        }
    };
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    parts.headers.insert(header::CONTENT_TYPE, html);
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>midcourse</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><p>{text}"
    );
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(page))
}

fn with_status(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// A value as JSON.
pub(super) fn json_response(value: &impl Serialize) -> Result<Response, Failure> {
    Ok(json_text(serde_json::to_vec(value)?))
}

/// JSON that is already written.
pub(super) fn json_text(json: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json.into()).into_response()
}

/// A file to save. `name` is made of letters, digits, dots, dashes and underscores.
pub(super) fn download(kind: &'static str, name: &str, content: impl Into<Body>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers =
        [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    // Even if a browser shows the content, nothing in it runs.
    let sandbox = [(header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")];
    (headers, sandbox, content.into()).into_response()
}
