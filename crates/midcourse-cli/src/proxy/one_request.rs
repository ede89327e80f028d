//! A single HTTP request of the command itself, with the user's HTTP proxy and certificate
//! authorities. Used only for URLs that the user names on the command line.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, Uri};

use super::upstream::{Upstream, tls};

/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the response may be.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// Gets a URL or, with a body, posts to it. Returns the response as text.
pub(crate) fn request(url: &str, body: Option<String>) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let response = runtime.block_on(async { tokio::time::timeout(TIMEOUT, send(url, body)).await });
    response.with_context(|| format!("{url} did not reply within a minute"))?
}

async fn send(url: &str, body: Option<String>) -> Result<String> {
    let uri: Uri = url.parse().with_context(|| format!("invalid URL `{url}`"))?;
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let host = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default().to_owned();
    let upstream = Upstream::new("", &uri, &tls()?);
    let request = Request::builder().method(method).uri(uri).header("host", host);
    let body = Full::new(Bytes::from(body.unwrap_or_default())).map_err(|never| match never {});
    let request = request.header("content-type", "application/x-ndjson").body(body.boxed())?;
    let response = upstream.http1_client.request(request).await;
    let response = response.with_context(|| format!("cannot reach {url}"))?;
    let status = response.status();
    ensure!(status.is_success(), "{url} replied with {status}");
    let bytes = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
    let bytes = bytes.map_err(|error| anyhow::anyhow!("cannot read from {url}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes.to_bytes()).into_owned())
}
