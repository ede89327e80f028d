//! CONNECT requests: how a client asks an HTTP proxy for a connection to a host.

use std::io;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service as _;

use super::upstream::{Failure, TcpConnector};

/// The user name in the URL of the proxy. The password is the access token.
const USER: &str = "midcourse";

/// The URL of the proxy for `HTTPS_PROXY`.
pub(crate) fn url(address: SocketAddr, token: &str) -> String {
    format!("http://{USER}:{token}@{address}")
}

/// The host and port that a client wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Parses `HOST:PORT`. An IPv6 address should be in brackets, but Python leaves them out.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let is_host = !host.is_empty() && host.bytes().all(is_plain);
        let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (is_host && (is_address || !host.contains(':')))
            .then(|| Self { host: host.to_owned(), port })
    }

    /// Connects to the target, through the user's own proxy if one is configured for it.
    pub(super) fn dial(&self) -> impl Future<Output = Result<TcpStream, Failure>> + Send + use<> {
        let url = format!("https://{self}/").parse::<Uri>();
        async move {
            let url = url?;
            let mut connector = TcpConnector::new(&url);
            std::future::poll_fn(|context| connector.poll_ready(context)).await?;
            let connecting = connector.call(url);
            let stream: TokioIo<TcpStream> = connecting.await?;
            let stream = stream.into_inner();
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What a client's connection begins with, as far as the bytes received so far show it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// More bytes are needed to decide.
    Incomplete,
    /// A CONNECT request with this target and credentials; any bytes after it begin at `length`.
    Connect { target: Target, credentials: Option<String>, length: usize },
    /// Another request, or an invalid one.
    Other,
}

impl Head {
    /// Maximum length of a request head that is parsed, in bytes.
    pub(super) const MAX_LEN: usize = 16 * 1024;

    pub(super) fn parse(bytes: &[u8]) -> Self {
        const METHOD: &[u8] = b"CONNECT ";
        let compared = bytes.len().min(METHOD.len());
        if bytes.get(..compared) != METHOD.get(..compared) || bytes.len() > Self::MAX_LEN {
            return Self::Other;
        }
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Self::Incomplete,
            Err(_) => return Self::Other,
        };
        let Some(target) = request.path.and_then(Target::parse) else { return Self::Other };
        let credentials = request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("proxy-authorization"))
            .and_then(|header| std::str::from_utf8(header.value).ok());
        Self::Connect { target, credentials: credentials.map(str::to_owned), length }
    }
}

/// Whether the value of `Proxy-Authorization` contains the access token. Compares hashes, so that
/// the time reveals nothing about the token.
pub(super) fn is_authorized(credentials: Option<&str>, token: &blake3::Hash) -> bool {
    let Some((scheme, encoded)) = credentials.and_then(|value| value.trim().split_once(' ')) else {
        return false;
    };
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let password = decoded.split_once(':').map_or("", |(_, password)| password);
    scheme.eq_ignore_ascii_case("basic") && blake3::hash(password.as_bytes()) == *token
}

pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The reply to a CONNECT request whose target cannot be reached. A client without a proxy would
/// have seen the error itself; this is the closest a proxy can come to it.
pub(super) const UNREACHABLE: &[u8] =
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Reads until the beginning of the connection shows what the client wants. Returns the bytes read.
pub(super) async fn read_head(stream: &TcpStream) -> io::Result<(Head, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        stream.readable().await?;
        match stream.try_read_buf(&mut bytes) {
            Ok(0) => return Ok((Head::Other, bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        match Head::parse(&bytes) {
            Head::Incomplete => {}
            head => return Ok((head, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BASE64_STANDARD, Head, Target, is_authorized};
    use base64::Engine as _;

    fn connect(text: &str) -> Option<(String, Option<String>, usize)> {
        match Head::parse(text.as_bytes()) {
            Head::Connect { target, credentials, length } => {
                Some((target.to_string(), credentials, length))
            }
            _ => None,
        }
    }

    #[test]
    fn a_connect_request_names_a_host_and_a_port() {
        let head = "CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\
                    proxy-authorization: Basic eDp5\r\n\r\n";
        let found = connect(&format!("{head}rest")).unwrap();
        let credentials = Some("Basic eDp5".to_owned());
        assert_eq!(found, ("api.openai.com:443".to_owned(), credentials, head.len()));
        for ipv6 in ["[::1]:8443", "::1:8443"] {
            let head = format!("CONNECT {ipv6} HTTP/1.0\r\n\r\n");
            assert_eq!(connect(&head).unwrap().0, "[::1]:8443");
        }
    }

    #[test]
    fn every_prefix_is_incomplete_and_nothing_else_is_a_connect_request() {
        let head = "CONNECT host:1 HTTP/1.1\r\nHost: host:1\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(Head::parse(&head.as_bytes()[..length]), Head::Incomplete, "{length}");
        }
        for other in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECTED",
            "CONNECT host HTTP/1.1\r\n\r\n",
            "CONNECT /path HTTP/1.1\r\n\r\n",
            "CONNECT a:b@host:443 HTTP/1.1\r\n\r\n",
            "CONNECT host:443 HTTP/9\r\n\r\n",
            "\u{16}\u{3}\u{1}",
        ] {
            assert_eq!(Head::parse(other.as_bytes()), Head::Other, "{other:?}");
        }
        let endless = format!("CONNECT host:443 HTTP/1.1\r\n{}", "a: b\r\n".repeat(9_999));
        assert_eq!(Head::parse(endless.as_bytes()), Head::Other);
    }

    #[test]
    fn only_the_token_is_accepted() {
        let token = blake3::hash(b"secret");
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        assert!(is_authorized(Some(&basic("midcourse:secret")), &token));
        assert!(is_authorized(Some(&basic("x:secret").replace("Basic", "BASIC")), &token));
        for wrong in [basic("secret"), basic("midcourse:secre"), basic(":"), "secret".to_owned()] {
            assert!(!is_authorized(Some(&wrong), &token), "{wrong}");
        }
        assert!(!is_authorized(None, &token));
        assert!(Target::parse("host:99999").is_none());
    }
}
