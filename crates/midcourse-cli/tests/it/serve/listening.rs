//! Where the server listens: never in the clear beyond this machine, with its own TLS, behind a
//! proxy, and what it says to those who watch it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::server::{Server, Team, head, percent_encoded, post_request, send};
use super::team;
use crate::ui::Reply;

/// Why the server does not start.
fn refusal(team: &Team, options: &[&str]) -> String {
    let output = team.command(options).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn it_does_not_listen_in_the_clear_beyond_this_machine() {
    let (team, _web, _infra) = team();
    team.add("ada", &["web"]);
    let listen = ["--listen", "0.0.0.0:0"];
    let error = refusal(&team, &listen);
    for part in ["plain HTTP", "--tls-cert", "--behind-tls-proxy", "127.0.0.1"] {
        assert!(error.contains(part), "{error}");
    }
    let error = refusal(&team, &[listen[0], listen[1], "--behind-tls-proxy"]);
    assert!(error.contains("--host"), "{error}");
    let half = refusal(&team, &["--tls-cert", "cert.pem"]);
    assert!(half.contains("--tls-key"), "{half}");
    let missing = refusal(&team, &["--tls-cert", "none.pem", "--tls-key", "none.pem"]);
    assert!(missing.contains("none.pem"), "{missing}");
}

#[cfg(unix)]
#[test]
fn a_people_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let set = |mode| {
        std::fs::set_permissions(team.people(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = std::fs::metadata(team.people()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!std::fs::read_to_string(team.people()).unwrap().contains(&token));
    set(0o644);
    assert!(refusal(&team, &[]).contains("chmod 600"));
    set(0o600);
    let server = Server::start(&team, &[]);
    let session = server.session(&token);
    set(0o666);
    assert_eq!(server.get("/p/web/api/runs", &[&session]).status, 503, "nobody is let in");
    assert_eq!(server.sign_in(&token).status, 503);
    set(0o600);
    assert_eq!(server.get("/p/web/api/runs", &[&session]).status, 200);
    assert!(server.stop().contains("chmod 600"));
}

/// A conversation over TLS with a server whose certificate is trusted.
fn over_tls(port: u16, certificate: &CertificateDer<'static>, request: &str) -> Reply {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("runs.example").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(("127.0.0.1", port)).unwrap());
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    Reply::parse(&text)
}

#[test]
fn it_speaks_tls_with_a_certificate() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let made = rcgen::generate_simple_self_signed(["runs.example".to_owned()]).unwrap();
    let (cert, key) = (team.folder.path().join("cert.pem"), team.folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let options = [files.as_slice(), &["--host", "runs.example"]].concat();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refusal(&team, &options).contains("chmod 600"), "others can read the key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let server = Server::start(&team, &options);
    let certificate = made.cert.der();
    let origin = "origin: https://runs.example";
    let form = format!("token={token}");
    let request = post_request("/sign-in", &form, "runs.example", &[origin]);
    let reply = over_tls(server.port, certificate, &request);
    assert_eq!(reply.status, 303, "{}", reply.body);
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-midcourse-serve-"), "{cookie}");
    assert!(cookie.ends_with("; Secure") && cookie.contains("; HttpOnly; SameSite=Strict"));
    let session = format!("cookie: {}", reply.session());
    let request = head("GET", "/p/web/api/runs", "runs.example", &[&session]);
    let reply = over_tls(server.port, certificate, &format!("{request}\r\n"));
    assert_eq!(reply.json()["total"], 1);
    // Plain HTTP gets nothing.
    let mut plain = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: runs.example\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
}

#[test]
fn a_proxy_in_front_has_to_promise_tls() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    // The address that the server prints is that of the proxy, so the test chooses the port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let options = ["--behind-tls-proxy", "--host", "runs.example", "--listen", &listen];
    let server = Server::start(&team, &options);
    let post = |lines: &[&str]| {
        send(port, &post_request("/sign-in", &format!("token={token}"), "runs.example", lines))
    };
    let origin = "origin: https://runs.example";
    assert_eq!(post(&[origin]).status, 403);
    assert_eq!(post(&[origin, "x-forwarded-proto: http"]).status, 403);
    assert_eq!(post(&["origin: http://runs.example", "x-forwarded-proto: https"]).status, 403);
    let forwarded = "x-forwarded-for: 6.6.6.6, 192.0.2.7";
    let reply = post(&[origin, "x-forwarded-proto: https", forwarded]);
    assert_eq!(reply.status, 303);
    assert!(reply.header("set-cookie").unwrap().ends_with("; Secure"));
    let health = send(port, &format!("{}\r\n", head("GET", "/healthz", "10.0.0.9", &[])));
    assert_eq!(health.status, 200, "a health check does not pass the proxy");
    assert!(server.stop().contains("ada signed in from 192.0.2.7"));
}

#[test]
fn health_and_metrics_tell_no_names() {
    let (team, _web, _infra) = team();
    let token = team.add("ada-lovelace", &["web"]);
    let server = Server::start(&team, &["--metrics-listen", "127.0.0.1:0"]);
    let metrics_port = server.metrics_port.unwrap();
    let session = server.session(&token);
    server.sign_in("wrong");
    let secret = percent_encoded("secret-run");
    server.get(&format!("/p/web/api/runs/{secret}"), &[&session]);
    server.get("/p/web/api/runs", &[&session]);

    for (path, body) in [("/healthz", "up\n"), ("/readyz", "ready\n")] {
        for port in [server.port, metrics_port] {
            let reply = send(port, &format!("{}\r\n", head("GET", path, "any.example", &[])));
            assert_eq!((reply.status, reply.body.as_str()), (200, body));
        }
    }
    // The metrics are not on the address that people use.
    assert_eq!(server.get("/metrics", &[&session]).status, 404);
    let reply = send(metrics_port, &format!("{}\r\n", head("GET", "/metrics", "any", &[])));
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "midcourse_serve_requests_total{route=\"api\",status=\"200\"} 1",
        "midcourse_serve_requests_total{route=\"api\",status=\"404\"} 1",
        "midcourse_serve_requests_total{route=\"sign_in\",status=\"401\"} 1",
        "midcourse_serve_request_duration_seconds_count{route=\"api\"} 2",
        "midcourse_serve_sign_ins_total 1",
        "midcourse_serve_sign_in_failures_total 1",
        "midcourse_serve_open_event_streams 0",
        "midcourse_serve_ready 1",
    ] {
        assert!(reply.body.lines().any(|found| found == line), "{line}\n{}", reply.body);
    }
    let cookie = session.rsplit('=').next().unwrap();
    for secret in ["ada", "web", "secret", "127.0.0.1", cookie, &token] {
        assert!(!reply.body.contains(secret), "{secret} is in\n{}", reply.body);
    }
    // The command for health checks of containers.
    let ready = |port: u16| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(["serve", "ready", &format!("127.0.0.1:{port}")]).output().unwrap()
    };
    assert!(ready(metrics_port).status.success());
    drop(server);
    assert!(!ready(metrics_port).status.success());
}

#[cfg(unix)]
#[test]
fn it_ends_when_a_service_manager_stops_it() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let mut server = Server::start(&team, &[]);
    server.session(&token);
    let id = rustix::process::Pid::from_raw(i32::try_from(server.process_id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait());
}
