//! The files of the page, as they are in `page/`.

use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use super::responses::Failure;

const HTML: &str = "text/html; charset=utf-8";
const INDEX: &str = include_str!("page/index.html");

/// Name, type and content of each file that the page loads.
const FILES: &[(&str, &str, &str)] = &[];

/// The page. Its script looks at the address and shows what belongs there.
pub(super) async fn index() -> Response {
    ([(CONTENT_TYPE, HTML)], INDEX).into_response()
}

/// A file that the page loads.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Failure> {
    let file = FILES.iter().find(|(known, ..)| *known == name);
    let (_, kind, content) = file.ok_or_else(|| Failure::not_found("There is no such file."))?;
    Ok(([(CONTENT_TYPE, *kind)], *content).into_response())
}
