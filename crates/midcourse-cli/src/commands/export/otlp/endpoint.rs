//! Where spans are sent, and with which headers: from options and the standard variables of
//! OpenTelemetry.
//!
//! Values of headers, and credentials in the URL, are secrets: neither is ever printed.

use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};

use super::Options;
use crate::percent_encoding::percent_decoded;

const PATH: &str = "/v1/traces";

/// An OTLP/HTTP endpoint.
pub(in super::super) struct Endpoint {
    /// The whole URL, possibly with credentials.
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
}

/// Shows the URL without credentials and without its query.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        write!(f, "{scheme}://{host}/{path}")
    }
}

impl Endpoint {
    /// The endpoint that the user named with an option or in the environment.
    pub(in super::super) fn find(options: &Options) -> Result<Self> {
        let variable =
            |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self::from(options, variable)
    }

    fn from(options: &Options, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let named = options.endpoint.clone().map(|url| with_path(&url));
        let of_traces = || variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let of_all = || variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| with_path(&url));
        let url = named.or_else(of_traces).or_else(of_all).context(
            "where should the spans go? Name an endpoint with `--endpoint URL` or \
             OTEL_EXPORTER_OTLP_ENDPOINT, or a file with `-o FILE`",
        )?;
        let url = url.trim().to_owned();
        let mut endpoint = Self { url, headers: Vec::new() };
        ensure!(
            endpoint.url.starts_with("http://") || endpoint.url.starts_with("https://"),
            "invalid endpoint; it must begin with http:// or https://, such as \
             http://localhost:6006"
        );
        for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
            let value = variable(name).unwrap_or_default();
            for header in value.split(',').filter(|header| !header.trim().is_empty()) {
                let Some((key, value)) = header.split_once('=') else {
                    bail!("invalid {name}; it must be NAME=VALUE, with commas between headers");
                };
                let value = percent_decoded(value.trim());
                endpoint.set_header(key, &String::from_utf8_lossy(&value));
            }
        }
        for header in &options.header {
            let Some((key, value)) = header.split_once('=') else {
                bail!(
                    "invalid --header; it must be NAME=VALUE, such as authorization=Bearer TOKEN"
                );
            };
            endpoint.set_header(key, value.trim());
        }
        Ok(endpoint)
    }

    fn set_header(&mut self, name: &str, value: &str) {
        let name = name.trim().to_ascii_lowercase();
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
    }
}

/// Adds the path for traces to a base address.
fn with_path(url: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(url, it)| (url, Some(it)));
    let address = address.trim_end_matches('/');
    let path = if address.ends_with(PATH) { "" } else { PATH };
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{address}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Options};

    fn find(
        endpoint: Option<&str>,
        headers: &[&str],
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Endpoint> {
        let options = Options {
            endpoint: endpoint.map(ToOwned::to_owned),
            header: headers.iter().map(|header| (*header).to_owned()).collect(),
            again: false,
            unfinished: false,
        };
        Endpoint::from(&options, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_path_is_added_to_a_base_address_only() {
        let url = |endpoint| find(Some(endpoint), &[], &[]).unwrap().url;
        assert_eq!(url("http://localhost:6006"), "http://localhost:6006/v1/traces");
        assert_eq!(url("http://localhost:6006/v1/traces/"), "http://localhost:6006/v1/traces");
        assert_eq!(url("https://x.example/otel?a=b"), "https://x.example/otel/v1/traces?a=b");
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:2/as-it-is");
        assert_eq!(find(None, &[], &[all]).unwrap().url, "http://all:1/v1/traces");
        assert_eq!(find(None, &[], &[all, traces]).unwrap().url, "http://traces:2/as-it-is");
        assert_eq!(
            find(Some("http://o:3"), &[], &[all, traces]).unwrap().url,
            "http://o:3/v1/traces"
        );
    }

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        let error = find(None, &[], &[]).err().unwrap().to_string();
        assert!(error.contains("--endpoint URL"), "{error}");
        assert!(find(Some("localhost:6006"), &[], &[]).is_err());
    }

    #[test]
    fn later_headers_replace_earlier_ones_and_no_secret_is_shown() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20one, x-a=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20two"),
        ];
        let endpoint = find(Some("http://user:secret@h/"), &["X-A=2"], &variables).unwrap();
        let expected = [("authorization", "Bearer two"), ("x-a", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(endpoint.headers, expected);
        assert_eq!(endpoint.to_string(), "http://h/v1/traces");
        let error = find(Some("http://h"), &["token secret"], &[]).err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
