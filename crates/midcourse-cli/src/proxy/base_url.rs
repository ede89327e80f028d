//! The base URL of a model server, which may contain a user name and a password.
//!
//! As in other HTTP clients, the credentials are used for basic authentication. They are never
//! shown: `Display`, `Debug` and errors leave them out.

use std::fmt;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;

use crate::percent_encoding::percent_decoded;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct BaseUrl {
    /// The URL without credentials.
    uri: Uri,
    /// `USER:PASSWORD` as it was written; empty if the URL has no credentials.
    credentials: String,
}

impl BaseUrl {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (bare, credentials) = split_credentials(text);
        let shown = hide_credentials(text);
        // Parse the text with the credentials as well, because they have to be valid too.
        let whole = text.parse::<Uri>().and_then(|_| bare.parse::<Uri>());
        let uri = whole.with_context(|| format!("invalid URL `{shown}`"))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        // Refuse a port that is not a number: it may be part of a password that contains a slash.
        let has_server = uri.authority().is_some_and(|authority| {
            authority.as_str() == authority.host() || authority.port_u16().is_some()
        });
        if !is_http || !has_server || uri.query().is_some() {
            anyhow::bail!(
                "invalid URL `{shown}`; it must be http:// or https://, a host and no query"
            );
        }
        Ok(Self { uri, credentials: credentials.to_owned() })
    }

    /// Parses a URL that may have a query. Returns the base URL, which has none, and the whole URL
    /// without credentials.
    pub(super) fn parse_with_query(url: &str) -> Result<(Self, Uri)> {
        let Some((address, query)) = url.split_once('?') else {
            let base = Self::parse(url)?;
            let uri = base.uri.clone();
            return Ok((base, uri));
        };
        let base = Self::parse(address)?;
        let uri = format!("{}?{query}", base.uri).parse().context("invalid query")?;
        Ok((base, uri))
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The same server and credentials, without a path.
    pub(super) fn origin(&self) -> Result<Self> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some("/".parse()?);
        Ok(Self { uri: Uri::from_parts(parts)?, credentials: self.credentials.clone() })
    }

    /// `USER:PASSWORD@`, or an empty string if there are no credentials. The proxy's own URL
    /// repeats this part, so that clients authenticate to the proxy as they would to the server.
    pub(super) fn user_info(&self) -> String {
        if self.credentials.is_empty() { String::new() } else { format!("{}@", self.credentials) }
    }

    /// The credentials as the value of the header `Authorization`.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        if self.credentials.is_empty() {
            return None;
        }
        let (user, password) =
            self.credentials.split_once(':').unwrap_or((self.credentials.as_str(), ""));
        let mut pair = percent_decoded(user);
        pair.push(b':');
        pair.extend(percent_decoded(password));
        let mut value =
            HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseUrl({})", self.uri)
    }
}

/// Splits a URL into the URL without credentials and the credentials.
fn split_credentials(text: &str) -> (String, &str) {
    let Some((scheme, rest)) = text.split_once("://") else { return (text.to_owned(), "") };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((credentials, host)) => (format!("{scheme}://{host}{path}"), credentials),
        None => (text.to_owned(), ""),
    }
}

/// Hides the credentials of a URL for an error message. The URL may be invalid, so everything
/// before its last `@` counts as credentials.
fn hide_credentials(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let separator = if rest.len() < text.len() { "://" } else { "" };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{separator}…@{host}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::{BASE64_STANDARD, BaseUrl};

    #[test]
    fn credentials_are_decoded_and_not_shown() {
        for (url, bare, pair) in [
            ("http://gate/v1", "http://gate/v1", None),
            ("http://gate/a@b", "http://gate/a@b", None),
            ("https://u:p@gate:8/v1", "https://gate:8/v1", Some("u:p")),
            ("https://u%40x:p%3A%2f%@[::1]:8/", "https://[::1]:8/", Some("u@x:p:/%")),
            ("http://key@gate/", "http://gate/", Some("key:")),
            ("http://a@b:c@gate/", "http://gate/", Some("a@b:c")),
        ] {
            let parsed = BaseUrl::parse(url).unwrap();
            assert_eq!(parsed.to_string(), bare);
            assert_eq!(format!("{parsed:?}"), format!("BaseUrl({bare})"));
            let basic = pair.map(|pair| format!("Basic {}", BASE64_STANDARD.encode(pair)));
            let header = parsed.authorization();
            assert_eq!(header.as_ref().map(|it| it.to_str().unwrap()), basic.as_deref());
            assert!(header.is_none_or(|header| header.is_sensitive()));
            let there = format!("http://{}127.0.0.1:9/v1", parsed.user_info());
            assert_eq!(BaseUrl::parse(&there).unwrap().authorization(), parsed.authorization());
        }
    }

    #[test]
    fn errors_do_not_show_credentials() {
        for url in [
            "user:secret@gate",
            "ftp://user:secret@gate",
            "http://user:secret@",
            "http://user:secret@gate/?x=1",
            "http://user:se cret@gate",
            "http://user:secret/x@gate",
            "http://user:secret@ga te",
        ] {
            let error = format!("{:#}", BaseUrl::parse(url).unwrap_err());
            assert!(error.contains("invalid URL"), "{url}: {error}");
            assert!(!error.contains("cret") && !error.contains("user"), "{url}: {error}");
        }
    }
}
