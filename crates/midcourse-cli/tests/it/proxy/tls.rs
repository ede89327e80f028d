//! Model APIs that use TLS: HTTP/1.1 and HTTP/2, a certificate authority that the user configured,
//! and an HTTP proxy of the user between midcourse and the model API.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::Proxy;
use super::server::completion;

/// A TLS server whose response says which HTTP version, path and credentials it received.
struct TlsServer {
    address: SocketAddr,
    folder: TempDir,
}

impl TlsServer {
    fn start(protocol: &'static [u8]) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("authority.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, TlsAcceptor::from(Arc::new(config))));
        });
        Self { address, folder }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        // The handshake fails if the client does not trust the certificate.
        let Ok(stream) = acceptor.accept(stream).await else { continue };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        tokio::spawn(async move {
            if is_http2 {
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(stream, service_fn(respond)).await;
            } else {
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(stream, service_fn(respond)).await;
            }
        });
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let received = format!("{:?} {}", request.version(), request.uri().path());
    let key = request.headers().get("authorization").unwrap().to_str().unwrap().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let text = format!("{received} {key} {}", body.len());
    Ok(Response::new(completion(Some(&text), None).to_string().into()))
}

/// Starts `midcourse proxy` with these environment variables and sends a request through it.
/// Returns the body of the response; `None` if midcourse could not reach the server.
fn response(server: &TlsServer, variables: &[(&str, &str)]) -> Option<String> {
    let upstream = format!("https://{}", server.address);
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start_at(folder, &upstream, variables);
    let body = super::Chat::new("go").body().to_string();
    let headers = "host: x\r\nauthorization: Bearer K\r\n";
    let reply = proxy.send("POST", "/openai/chat/completions", headers, body.as_bytes());
    let text = String::from_utf8(reply.body).unwrap();
    let expected = format!("/v1/chat/completions Bearer K {}", body.len());
    (!text.is_empty()).then(|| {
        assert!(text.contains(&expected), "{text}");
        text
    })
}

#[test]
fn tls_upstreams_may_use_http1_or_http2() {
    for (protocol, named) in [(b"h2".as_slice(), "HTTP/2.0"), (b"http/1.1", "HTTP/1.1")] {
        let server = TlsServer::start(protocol);
        let authority = server.authority();
        let text = response(&server, &[("SSL_CERT_FILE", authority.to_str().unwrap())]).unwrap();
        assert!(text.contains(named), "{text}");
    }
}

#[test]
fn a_certificate_authority_must_be_named() {
    let server = TlsServer::start(b"http/1.1");
    assert_eq!(response(&server, &[]), None);
    let authority = server.authority();
    let text = response(&server, &[("NODE_EXTRA_CA_CERTS", authority.to_str().unwrap())]);
    assert!(text.is_some());
}

#[test]
fn the_users_proxy_is_used_unless_no_proxy_excepts_the_host() {
    let server = TlsServer::start(b"h2");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || tunnel(stream));
        }
    });
    let authority = server.authority();
    let proxy = format!("http://user:password@{address}");
    let variables = [("SSL_CERT_FILE", authority.to_str().unwrap()), ("HTTPS_PROXY", &proxy)];
    assert!(response(&server, &variables).is_some());
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    let excepted = [variables[0], variables[1], ("NO_PROXY", "127.0.0.1")];
    assert!(response(&server, &excepted).is_some());
    assert_eq!(connections.load(Ordering::SeqCst), 1, "NO_PROXY excepts the host");
}

/// Plays the user's HTTP proxy for one connection: reads a CONNECT request, connects to the server
/// that it names, and copies bytes in both directions.
fn tunnel(mut client: TcpStream) {
    let mut input = BufReader::new(client.try_clone().unwrap());
    let mut first = String::new();
    input.read_line(&mut first).unwrap();
    let target = first.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
    let mut has_credentials = false;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).unwrap();
        has_credentials |= line.to_lowercase().starts_with("proxy-authorization: basic");
        if line == "\r\n" {
            break;
        }
    }
    assert!(has_credentials);
    let server = TcpStream::connect(target).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut back = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
    let _ = std::io::copy(&mut input, &mut &server);
}
