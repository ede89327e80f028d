//! Which requests the server takes: those for its own names, over TLS where that was promised, and
//! not those that a page of another site causes.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method};

/// The names of a server that listens on loopback.
const LOOPBACK_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Who terminates TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// Nobody: plain HTTP on this machine.
    Plain,
    /// The server itself.
    Tls,
    /// A proxy in front of the server. It says so with `X-Forwarded-Proto`, and names the client in
    /// `X-Forwarded-For`.
    TlsProxy,
}

pub(super) struct RequestRules {
    pub(super) transport: Transport,
    /// The names in lower case, without a port.
    hosts: Vec<String>,
}

/// Why a request is refused before anybody looks at its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It names another host.
    Host,
    /// The proxy received it without TLS, or does not say how.
    NotTls,
    /// A page of another site has caused it.
    OtherSite,
}

impl RequestRules {
    /// The rules for a server at this address, which people call by these names. Without names, it
    /// has those of its address.
    pub(super) fn new(transport: Transport, listen: SocketAddr, hosts: &[String]) -> Self {
        let own = match listen.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let hosts = match hosts {
            [] if listen.ip().is_loopback() => {
                let mut names: Vec<String> = LOOPBACK_NAMES.map(str::to_owned).into();
                names.push(own);
                names
            }
            [] => vec![own],
            hosts => hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        };
        Self { transport, hosts }
    }

    pub(super) fn is_https(&self) -> bool {
        self.transport != Transport::Plain
    }

    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = only(headers, HOST.as_str()).unwrap_or_default().to_ascii_lowercase();
        if !self.hosts.iter().any(|name| name == name_of(&host)) {
            return Err(Refusal::Host);
        }
        if self.transport == Transport::TlsProxy && !came_over_tls(headers) {
            return Err(Refusal::NotTls);
        }
        let scheme = if self.is_https() { "https" } else { "http" };
        let origin = text_of(headers, ORIGIN.as_str());
        let is_own = origin.as_ref().map(|origin| *origin == format!("{scheme}://{host}"));
        let site = text_of(headers, "sec-fetch-site");
        let is_allowed = match (method == Method::GET || method == Method::HEAD, site.as_deref()) {
            // Somebody follows a link on another site, or types the address.
            (true, _) if is_navigation(headers) => is_own != Some(false),
            (true, None | Some("same-origin" | "none")) => is_own != Some(false),
            // Browsers say where a request that may change something comes from.
            (false, Some("same-origin")) => is_own != Some(false),
            (false, None) => is_own == Some(true),
            _ => false,
        };
        if is_allowed { Ok(()) } else { Err(Refusal::OtherSite) }
    }

    /// The address of the client. A proxy adds the address that it sees at the end of the header.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if self.transport != Transport::TlsProxy {
            return peer;
        }
        let forwarded = headers.get_all("x-forwarded-for").iter().next_back();
        let last = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next());
        let address = last.map(str::trim).and_then(|text| {
            let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
            text.parse::<IpAddr>().ok().or_else(with_port)
        });
        address.unwrap_or(peer)
    }
}

/// Whether the request loads a page into a tab. Pages of other sites cannot read the result.
pub(super) fn is_navigation(headers: &HeaderMap) -> bool {
    text_of(headers, "sec-fetch-mode").as_deref() == Some("navigate")
        && text_of(headers, "sec-fetch-dest").as_deref() == Some("document")
}

/// Whether a link or a form on another site leads here. Browsers leave out our cookie then.
pub(super) fn is_from_other_site(headers: &HeaderMap) -> bool {
    let site = text_of(headers, "sec-fetch-site");
    is_navigation(headers) && matches!(site.as_deref(), Some("cross-site" | "same-site"))
}

/// Whether every proxy on the way received the request over TLS.
fn came_over_tls(headers: &HeaderMap) -> bool {
    let values = headers.get_all("x-forwarded-proto");
    let mut given = values.iter().flat_map(|value| value.to_str().unwrap_or_default().split(','));
    let mut count = 0;
    given.all(|scheme| {
        count += 1;
        scheme.trim().eq_ignore_ascii_case("https")
    }) && count > 0
}

/// The name in a `Host` header, without the port.
fn name_of(host: &str) -> &str {
    let split = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    split.map_or(host, |(name, _)| name)
}

fn text(value: &HeaderValue) -> String {
    // A value that is no text equals nothing that is expected.
    value.to_str().map_or_else(|_| "?".to_owned(), ToOwned::to_owned)
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(text)
}

/// The value of a header that occurs once.
fn only(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(text);
    first.filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
        });
        let mut map = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            map.append(name, value);
        });
        map
    }

    fn rules(transport: Transport, hosts: &[&str]) -> RequestRules {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        RequestRules::new(transport, "127.0.0.1:4864".parse().unwrap(), &hosts)
    }

    const NAVIGATE: [(&str, &str); 2] =
        [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];

    #[test]
    fn only_the_names_of_the_server_are_served() {
        let check = |hosts: &[&str], pairs: &[(&'static str, &str)]| {
            rules(Transport::Tls, hosts).check(&Method::GET, &headers(pairs))
        };
        assert_eq!(check(&[], &[("host", "localhost:4864")]), Ok(()));
        assert_eq!(check(&[], &[("host", "[::1]:4864")]), Ok(()));
        assert_eq!(check(&["Runs.Example"], &[("host", "runs.example:443")]), Ok(()));
        let twice = [("host", "localhost"), ("host", "localhost")];
        for (hosts, pairs) in [
            (&[][..], &[("host", "other.example")][..]),
            (&[], &[("host", "localhost.example")]),
            (&[], &[("host", "localhost:1:2")]),
            (&[], &[("host", "")]),
            (&[], &[]),
            (&[], &twice),
            (&["runs.example"], &[("host", "localhost")]),
        ] {
            assert_eq!(check(hosts, pairs), Err(Refusal::Host), "{pairs:?}");
        }
    }

    #[test]
    fn other_sites_may_lead_here_and_nothing_else() {
        let check = |method: Method, pairs: &[(&'static str, &str)]| {
            let mut all = headers(pairs);
            all.append("host", HeaderValue::from_static("localhost:4864"));
            rules(Transport::Plain, &[]).check(&method, &all)
        };
        let (own, other) = (("origin", "http://localhost:4864"), ("origin", "http://x.example"));
        let cross = ("sec-fetch-site", "cross-site");
        let same = ("sec-fetch-site", "same-origin");
        assert_eq!(check(Method::GET, &[]), Ok(()));
        assert_eq!(check(Method::GET, &[same, own]), Ok(()));
        assert_eq!(check(Method::GET, &[cross, NAVIGATE[0], NAVIGATE[1]]), Ok(()));
        assert_eq!(check(Method::GET, &[("sec-fetch-site", "none")]), Ok(()));
        assert_eq!(check(Method::GET, &[cross]), Err(Refusal::OtherSite));
        assert_eq!(check(Method::GET, &[other]), Err(Refusal::OtherSite));
        let frame = [cross, NAVIGATE[0], ("sec-fetch-dest", "iframe")];
        assert_eq!(check(Method::GET, &frame), Err(Refusal::OtherSite));

        assert_eq!(check(Method::POST, &[same, own]), Ok(()));
        assert_eq!(check(Method::POST, &[own]), Ok(()));
        assert_eq!(check(Method::POST, &[same]), Ok(()));
        for foreign in [
            &[][..],
            &[other],
            &[("origin", "null")],
            &[("origin", "null"), same],
            &[("origin", "https://localhost:4864")],
            &[same, other],
            &[cross, own],
            &[("sec-fetch-site", "none"), own],
            &[cross, own, NAVIGATE[0], NAVIGATE[1]],
        ] {
            assert_eq!(check(Method::POST, foreign), Err(Refusal::OtherSite), "{foreign:?}");
        }
    }

    #[test]
    fn a_proxy_has_to_say_that_it_received_tls() {
        let rules = rules(Transport::TlsProxy, &["runs.example"]);
        let check = |pairs: &[(&'static str, &str)]| {
            let mut all = headers(pairs);
            all.append("host", HeaderValue::from_static("runs.example"));
            rules.check(&Method::GET, &all)
        };
        let proto = |value: &'static str| ("x-forwarded-proto", value);
        assert_eq!(check(&[proto("https")]), Ok(()));
        assert_eq!(check(&[proto("https, HTTPS")]), Ok(()));
        assert_eq!(check(&[proto("https"), ("origin", "https://runs.example")]), Ok(()));
        for wrong in [&[][..], &[proto("http")], &[proto("https, http")], &[proto("")]] {
            assert_eq!(check(wrong), Err(Refusal::NotTls), "{wrong:?}");
        }
        assert_eq!(check(&[proto("https"), proto("http")]), Err(Refusal::NotTls));
    }

    #[test]
    fn only_a_proxy_is_believed_about_the_client() {
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        let client = |transport, value: &str| {
            let given = [("x-forwarded-for", value)];
            rules(transport, &[]).client(peer, &headers(&given)).to_string()
        };
        assert_eq!(client(Transport::Tls, "1.2.3.4"), "10.0.0.1");
        assert_eq!(client(Transport::TlsProxy, "6.6.6.6, 1.2.3.4"), "1.2.3.4");
        assert_eq!(client(Transport::TlsProxy, "1.2.3.4:99"), "1.2.3.4");
        assert_eq!(client(Transport::TlsProxy, "unknown"), "10.0.0.1");
    }
}
