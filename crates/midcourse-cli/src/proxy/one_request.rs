//! Sends a single HTTP request for a command, through the user's HTTP proxy and with the user's
//! certificate authorities. Used only for URLs that the user names on the command line.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};

use super::base_url::BaseUrl;
use super::upstream::{Upstream, tls};

/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the response may be.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// Sends a GET request or, if there is a body, a POST request. Returns the response as text.
pub(crate) fn request(url: &str, body: Option<String>) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let response = runtime.block_on(async { tokio::time::timeout(TIMEOUT, send(url, body)).await });
    response.context("the server did not reply within a minute")?
}

async fn send(url: &str, body: Option<String>) -> Result<String> {
    let (base, uri) = BaseUrl::parse_with_query(url)?;
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let upstream = Upstream::new("", &base, &tls()?);
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(authorization) = base.authorization() {
        request = request.header(AUTHORIZATION, authorization);
    }
    let body = Full::new(Bytes::from(body.unwrap_or_default())).map_err(|never| match never {});
    let request = request.header(CONTENT_TYPE, "application/x-ndjson").body(body.boxed())?;
    let response = upstream.http1_client.request(request).await;
    let response = response.with_context(|| format!("cannot reach {base}"))?;
    let status = response.status();
    ensure!(status.is_success(), "{base} replied with {status}");
    let bytes = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
    let bytes = bytes.map_err(|error| anyhow::anyhow!("cannot read from {base}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes.to_bytes()).into_owned())
}
