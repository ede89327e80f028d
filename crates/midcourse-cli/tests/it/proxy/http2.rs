//! HTTP/2 on connections that `midcourse run --proxy=intercept` opens (decrypts). Codex and others
//! prefer it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::intercepted::{HOST, Session};
use super::server::completion;
use super::world::{Behaviour, Connection, accept_connect, authority, client_config, tls_server};
use super::{Chat, deliveries, runs};

#[derive(Debug)]
struct Asked {
    target: String,
    version: Version,
    headers: HeaderMap,
    body: Bytes,
}

/// A corporate proxy in front of a server that speaks HTTP/2 only.
struct World {
    folder: TempDir,
    proxy: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl World {
    fn start(runtime: &tokio::runtime::Runtime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (signer, pem) = authority("corporate");
        std::fs::write(folder.path().join("corporate.pem"), pem).unwrap();
        let tls = TlsAcceptor::from(tls_server(signer, Behaviour::Ordinary, b"h2"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (runtime, kept) = (runtime.handle().clone(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accept_connect(&client).unwrap();
                client.set_nonblocking(true).unwrap();
                runtime.spawn(serve(client, tls.clone(), Arc::clone(&kept)));
            }
        });
        Self { folder, proxy, asked }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("corporate.pem")
    }
}

async fn serve(client: std::net::TcpStream, tls: TlsAcceptor, kept: Arc<Mutex<Vec<Asked>>>) {
    let client = tokio::net::TcpStream::from_std(client).unwrap();
    let client = TokioIo::new(tls.accept(client).await.unwrap());
    let service = service_fn(move |request: Request<Incoming>| {
        let kept = Arc::clone(&kept);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let (target, version, headers) = (parts.uri.to_string(), parts.version, parts.headers);
            kept.lock().unwrap().push(Asked { target, version, headers, body });
            let body = completion(Some("ok"), None).to_string();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
        }
    });
    let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http2.max_header_list_size(1024 * 1024);
    // The connection may break at the end of the test.
    drop(http2.serve_connection(client, service).await);
}

/// Connects as the command would, and begins HTTP/2.
async fn open(session: &Session) -> SendRequest<Full<Bytes>> {
    let (status, stream) = Connection::tunnel(session.proxy(), HOST);
    assert_eq!(status, 200);
    stream.set_nonblocking(true).unwrap();
    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let tls = TlsConnector::from(client_config(&session.roots(), &[b"h2", b"http/1.1"]));
    let stream = tls.connect(ServerName::try_from(HOST).unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    assert!(certificate.windows(13).any(|bytes| bytes == b"midcourse run"));
    let http2 = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = http2.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn post(sender: &mut SendRequest<Full<Bytes>>, path: &str, body: &str) -> String {
    sender.ready().await.unwrap();
    let request = Request::post(format!("https://{HOST}{path}"))
        .header(AUTHORIZATION, "Bearer K")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[test]
fn a_model_host_that_speaks_http2_is_asked_with_http2_and_the_same_bytes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::start(&runtime);
    let session = Session::start_at(world.proxy, &world.authority());
    let mut chat = Chat::new("go");
    let mut sent = Vec::new();
    runtime.block_on(async {
        let mut client = open(&session).await;
        post(&mut client, "/v1/files?purpose=x", "any bytes").await;
        for number in 0..6 {
            sent.push(chat.body().to_string());
            let text = post(&mut client, "/v1/chat/completions", &chat.body().to_string()).await;
            assert_eq!(text, completion(Some("ok"), None).to_string());
            chat.call(&format!("c{number}"), "make", "make: *** No rule to make it. Exit code 2");
        }
    });
    let asked = std::mem::take(&mut *world.asked.lock().unwrap());
    assert!(asked.iter().all(|it| it.version == Version::HTTP_2));
    assert!(asked.iter().all(|it| it.headers[AUTHORIZATION] == "Bearer K"));
    assert_eq!(asked[0].target, format!("https://{HOST}/v1/files?purpose=x"));
    assert_eq!(asked[0].body, "any bytes");
    let changed: Vec<usize> = (0..6).filter(|n| asked[n + 1].body != sent[*n]).collect();
    let [changed] = changed.as_slice() else { panic!("changed: {changed:?}") };
    let text = String::from_utf8(asked[changed + 1].body.to_vec()).unwrap();
    assert!(text.contains("[midcourse run monitor]"), "{text}");
    let (folder, code, err) = session.end();
    assert_eq!(code, Some(0), "{err}");
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs: {err}", runs.len()) };
    assert_eq!(deliveries(run).len(), 1);
}

#[test]
fn requests_at_the_same_time_share_one_http2_connection() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::start(&runtime);
    let session = Session::start_at(world.proxy, &world.authority());
    runtime.block_on(async {
        let client = open(&session).await;
        let requests = (0..20).map(|number| {
            let mut client = client.clone();
            let body = Chat::new(&format!("task {number}")).body().to_string();
            tokio::spawn(async move { post(&mut client, "/v1/chat/completions", &body).await })
        });
        for request in requests.collect::<Vec<_>>() {
            assert_eq!(request.await.unwrap(), completion(Some("ok"), None).to_string());
        }
    });
    assert_eq!(world.asked.lock().unwrap().len(), 20);
    let (folder, code, err) = session.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(runs(&folder).len(), 20);
}

#[test]
fn long_headers_pass_over_http2() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::start(&runtime);
    let session = Session::start_at(world.proxy, &world.authority());
    let value = "v".repeat(100_000);
    runtime.block_on(async {
        let mut client = open(&session).await;
        client.ready().await.unwrap();
        let request = Request::get(format!("https://{HOST}/v1/models")).header("x-long", &value);
        let response = client.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    });
    assert_eq!(world.asked.lock().unwrap()[0].headers["x-long"], value.as_str());
}
