//! Streams of live changes. They have no end of their own, so the server ends them when the session
//! no longer reaches the project, and counts those that are open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};

use super::sessions::SessionKey;
use super::site::Site;

/// How often the session of an open stream is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The response, watched if it is a stream of live changes.
pub(super) fn watched(
    response: Response,
    site: &Arc<Site>,
    key: SessionKey,
    project: String,
) -> Response {
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_none_or(|kind| !kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    let open = OpenStream::new(Arc::clone(site));
    response.map(|body| {
        let state = (body.into_data_stream(), open);
        Body::from_stream(stream::unfold(state, move |(mut body, open)| {
            let project = project.clone();
            async move {
                let chunk = next(&mut body, &open.0, key, &project).await?;
                Some((chunk, (body, open)))
            }
        }))
    })
}

/// The next part of the stream; `None` if it ends, or if the session has.
async fn next(
    body: &mut BodyDataStream,
    site: &Site,
    key: SessionKey,
    project: &str,
) -> Option<Result<bytes::Bytes, axum::Error>> {
    loop {
        let chunk = tokio::time::timeout(CHECK_INTERVAL, body.next()).await;
        if !site.may_see(key, project) {
            return None;
        }
        if let Ok(chunk) = chunk {
            return chunk;
        }
    }
}

/// Counts a stream as open as long as it exists.
struct OpenStream(Arc<Site>);

impl OpenStream {
    fn new(site: Arc<Site>) -> Self {
        site.metrics.open_event_streams.fetch_add(1, Ordering::Relaxed);
        Self(site)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.metrics.open_event_streams.fetch_sub(1, Ordering::Relaxed);
    }
}
