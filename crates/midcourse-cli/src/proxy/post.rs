//! Sends POST requests of a command to one URL that the user named, through the user's HTTP proxy and
//! with the user's certificate authorities. All requests use the same connection.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use hyper::{Method, Request, StatusCode, Uri};
use tokio::runtime::Runtime;

use super::base_url::BaseUrl;
use super::upstream::{Upstream, tls};

/// How long the response may be.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

pub(crate) struct Poster {
    runtime: Runtime,
    upstream: Upstream,
    uri: Uri,
    headers: HeaderMap,
    timeout: Duration,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The value of `Retry-After`, if it is a number of seconds.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) location: Option<String>,
    pub(crate) body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no response within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the connection failed: {0}")]
    Broken(String),
}

impl Poster {
    /// The values of the headers are never shown. The error names the header that is invalid.
    pub(crate) fn new(
        url: &str,
        content_type: &'static str,
        headers: &[(String, String)],
        timeout: Duration,
    ) -> Result<Self> {
        let (base, uri) = BaseUrl::parse_with_query(url)?;
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(authorization) = base.authorization() {
            map.insert(AUTHORIZATION, authorization);
        }
        for (name, value) in headers {
            let invalid = |part| format!("the {part} of the header `{name}` is invalid");
            let key = HeaderName::try_from(name).with_context(|| invalid("name"))?;
            let mut value = HeaderValue::try_from(value).with_context(|| invalid("value"))?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let upstream = {
            let _guard = runtime.enter();
            Upstream::new("", &base, &tls()?)
        };
        Ok(Self { runtime, upstream, uri, headers: map, timeout })
    }

    pub(crate) fn post(&self, body: Vec<u8>) -> Result<Reply, PostError> {
        let reply = async { tokio::time::timeout(self.timeout, self.send(body)).await };
        self.runtime.block_on(reply).map_err(|_| PostError::Timeout(self.timeout))?
    }

    async fn send(&self, body: Vec<u8>) -> Result<Reply, PostError> {
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
        let mut request = Request::new(body.boxed());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let response = self.upstream.http1_client.request(request).await.map_err(|error| {
            let cause = innermost(&error);
            if error.is_connect() { PostError::Connect(cause) } else { PostError::Broken(cause) }
        })?;
        let (head, body) = response.into_parts();
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
        let location = text(LOCATION).map(ToOwned::to_owned);
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| PostError::Broken(error.to_string()))?.to_bytes();
        let retry_after = retry_after.map(Duration::from_secs);
        Ok(Reply { status: head.status, retry_after, location, body })
    }
}

/// The last of an error's causes, which says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
