//! Small functions on HTTP requests and responses: reading bodies, and headers that need care.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::model_traffic::ModelRequest;
use super::recorder::Exchange;
use super::response_copy::{CopiedBody, PartlyRead};
use super::upstream::{Body, Failure};
use crate::apis::Api;

/// Maximum length of a model request that is recorded, in bytes. A longer request is forwarded and
/// not recorded.
const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The header in which Claude Code sends its session id.
const SESSION_HEADER: &str = "x-claude-code-session-id";
/// The header in which Claude Code sends the id of the subagent that makes the request.
const AGENT_HEADER: &str = "x-claude-code-agent-id";

/// The header by which a request of Codex is recognised, and how its value begins.
const CODEX: (&str, &str) = ("originator", "codex");
/// The header in which Codex sends its session id.
const CODEX_SESSION_HEADER: &str = "session-id";
/// The header in which Codex sends the id of the session or of the subagent that makes the request.
const CODEX_THREAD_HEADER: &str = "thread-id";

const HOP_BY_HOP_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
];

/// The body of a model request.
pub(super) enum RequestBody {
    Whole(Bytes),
    /// A body longer than [`MAX_REQUEST_BYTES`], which is streamed.
    TooLong(Body),
}

/// The model server's response for the client. If the request was recorded, its body is also copied
/// for the recorder.
pub(super) fn client_response(
    response: Response<Incoming>,
    exchange: Option<Exchange>,
) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    // If a response has both headers, its body is chunked, and HTTP says to ignore the length.
    if parts.headers.contains_key(header::TRANSFER_ENCODING) {
        remove_in_order(&mut parts.headers, |name| name == header::CONTENT_LENGTH);
    }
    let body = match exchange {
        None => body.map_err(Into::into).boxed(),
        Some(exchange) => {
            let status = parts.status.as_u16();
            let encoding = text(&parts.headers, header::CONTENT_ENCODING.as_str());
            CopiedBody::new(body, move |copy| exchange.received(status, encoding, copy))
                .map_err(Into::into)
                .boxed()
        }
    };
    Response::from_parts(parts, body)
}

/// Reads the body of a model request, unless it is too long to be recorded.
pub(super) async fn read(headers: &HeaderMap, mut body: Incoming) -> Result<RequestBody, Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > MAX_REQUEST_BYTES) {
        return Ok(RequestBody::TooLong(body.map_err(Into::into).boxed()));
    }
    let mut bytes = BytesMut::with_capacity(length.unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if bytes.len() > MAX_REQUEST_BYTES {
            let body = PartlyRead { start: Some(bytes.freeze()), rest: body };
            return Ok(RequestBody::TooLong(body.map_err(Into::into).boxed()));
        }
    }
    Ok(RequestBody::Whole(bytes.freeze()))
}

pub(super) fn model_request(
    api: Api,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> ModelRequest {
    let (originator, start) = CODEX;
    let (session, agent) = if text(headers, originator).is_some_and(|it| it.starts_with(start)) {
        let session = text(headers, CODEX_SESSION_HEADER);
        let thread = text(headers, CODEX_THREAD_HEADER).filter(|it| Some(it) != session.as_ref());
        (session, thread)
    } else {
        (text(headers, SESSION_HEADER), text(headers, AGENT_HEADER))
    };
    ModelRequest {
        api,
        session,
        agent,
        model: api.model_in(path),
        encoding: text(headers, header::CONTENT_ENCODING.as_str()),
        is_signed: is_signed(headers),
        body,
    }
}

/// Whether a header contains a signature or a digest of the body. Such a header would be wrong if
/// text were inserted into the body.
fn is_signed(headers: &HeaderMap) -> bool {
    let is_aws_signed = text(headers, header::AUTHORIZATION.as_str())
        .is_some_and(|credentials| credentials.starts_with("AWS4-"));
    let names = ["content-md5", "digest", "content-digest", "x-amz-content-sha256", "signature"];
    is_aws_signed || names.iter().any(|name| headers.contains_key(*name))
}

pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// Whether a request asks for a websocket. The header `Upgrade` can also ask for another protocol,
/// such as HTTP/2; that concerns only the client's connection to the proxy and is ignored.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    let has_token = |name: HeaderName, token: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(token))
    };
    has_token(header::CONNECTION, "upgrade") && has_token(header::UPGRADE, "websocket")
}

/// Removes headers that concern a single connection and must not be forwarded, including the
/// headers whose names are listed in the header `Connection`.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).into_iter();
    let named: Vec<String> =
        named.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let named: Vec<&str> = named.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
    remove_in_order(headers, |name| {
        HOP_BY_HOP_HEADERS.contains(name)
            || named.iter().any(|it| it.eq_ignore_ascii_case(name.as_str()))
    });
}

/// Removes headers. The others keep their order; `HeaderMap::remove` would move the last header to
/// the place of the removed one.
pub(super) fn remove_in_order(headers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    if !headers.keys().any(&is_removed) {
        return;
    }
    let mut current = None;
    for (name, value) in std::mem::take(headers) {
        // The iterator returns the name only with the first value of a header.
        current = name.or(current);
        if let Some(name) = current.as_ref().filter(|name| !is_removed(name)) {
            headers.append(name, value);
        }
    }
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(super) fn forbidden() -> Response<Body> {
    const BODY: &str = r#"{"error":{"type":"midcourse_proxy","message":"unknown address; use the base URL that midcourse printed, including its token"}}"#;
    let mut response = Response::new(full(Bytes::from_static(BODY.as_bytes())));
    *response.status_mut() = StatusCode::FORBIDDEN;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The messages of an error and of all its sources.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
