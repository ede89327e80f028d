//! A user name and a password in the URL of an upstream.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::intercepted::{Session, ordinary, shell};
use super::server::{Server, completion};
use super::{Chat, Proxy, command, configured, read_reply};

/// The user `us:er` with the password `s3cr@t`, as written in a URL and in the header
/// `Authorization`.
const USER: &str = "us%3Aer:s3cr%40t";
const BASIC: &str = "Basic dXM6ZXI6czNjckB0";

/// Checks that no file in a folder contains the password.
fn check_nothing_is_stored(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            check_nothing_is_stored(&entry.path());
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        for secret in ["s3cr", BASIC] {
            let is_found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_found, "{secret} in {}", entry.path().display());
        }
    }
}

#[test]
fn credentials_in_the_url_are_used_if_the_client_sends_none() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let upstream = format!("http://{USER}@{}", server.address);
    let proxy = Proxy::start_at(configured(""), &upstream, &[]);
    let body = Chat::new("go").body().to_string();
    for (headers, expected) in [
        ("X-Api-Key: k\r\n", format!("authorization: {BASIC}\r\n")),
        ("Authorization: Bearer K\r\n", "Authorization: Bearer K\r\n".to_owned()),
    ] {
        for path in ["/openai/chat/completions", "/openai/files"] {
            assert!(proxy.send("POST", path, headers, body.as_bytes()).is_whole);
            let head = server.received().pop().unwrap().head;
            assert!(head.contains(&expected), "{head}");
            assert_eq!(head.to_lowercase().matches("authorization:").count(), 1, "{head}");
            assert!(!head.contains("s3cr"), "{head}");
        }
    }
    check_nothing_is_stored(proxy.stop().path());
}

#[test]
fn a_failing_upstream_is_logged_without_its_credentials() {
    let upstream = format!("http://{USER}@127.0.0.1:9");
    let proxy = Proxy::start_at(configured(""), &upstream, &[]);
    assert!(!proxy.chat(&Chat::new("go").body()).is_whole);
    let folder = proxy.stop();
    assert!(super::log(&folder).contains("no response from 127.0.0.1:9"));
    check_nothing_is_stored(folder.path());
}

#[test]
fn a_redirected_base_url_keeps_its_credentials() {
    let server = Server::of_json(|_| json!({"data": []}));
    let (world, folder) = (ordinary(), tempfile::tempdir().unwrap());
    let base_url = format!("http://{USER}@{}/v1", server.address);
    let change = |run: &mut Command| {
        run.env("OPENAI_BASE_URL", &base_url);
    };
    let session = Session::start_with(&world, folder, &["--proxy=redirect"], &shell(":"), change);
    let url = session.variable("OPENAI_BASE_URL");
    let rest = url.strip_prefix(&format!("http://{USER}@127.0.0.1:")).unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let head = format!("GET /{path}/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    assert!(read_reply(stream).is_whole);
    let head = server.received().pop().unwrap().head;
    assert!(head.starts_with("GET /v1/models ") && head.contains(BASIC), "{head}");
    let (folder, code, err) = session.end();
    assert_eq!(code, Some(0));
    assert!(!err.contains("s3cr"), "{err}");
    check_nothing_is_stored(folder.path());
}

#[test]
fn an_invalid_url_is_shown_without_its_credentials() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["ftp://me:s3cr@gate", "http://me:s3cr@gate/?x", "http://me:s3 cr@gate"] {
        let proxy = command(&folder).args(["proxy", "--upstream", url]).output().unwrap();
        let run = ["run", "--proxy=redirect", "--", "true"];
        let run = command(&folder).args(run).env("OPENAI_BASE_URL", url).output().unwrap();
        for output in [proxy, run] {
            let err = String::from_utf8(output.stderr).unwrap();
            assert!(err.contains("invalid URL") && err.contains("@gate"), "{err}");
            assert!(!err.contains("s3") && !err.contains("me:"), "{err}");
        }
    }
}
