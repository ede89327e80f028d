//! Headers and request lines: their order, their size, and headers that contradict each other.

use std::io::Write as _;

use serde_json::{Value, json};

use super::intercepted::{HOST, Session, ordinary};
use super::server::{Server, completion};
use super::world::{Behaviour, World};
use super::{Chat, Proxy, read_reply, runs};

/// Headers as a client might send them. Repeated names follow each other.
const HEADERS: &str = "accept: */*\r\nAccept-Encoding: gzip\r\nX-Stainless-Lang: js\r\n\
     x-stainless-OS: Linux\r\nAuthorization: Bearer K\r\nX-Api-Key: k\r\nUser-Agent: a/1\r\n\
     anthropic-beta: one\r\nAnthropic-Beta: two\r\nANTHROPIC-BETA: three\r\n\
     anthropic-version: 1\r\nCookie: a=b\r\ncookie: c=d\r\nX-Empty:\r\nOpenAI-Organization: o\r\n\
     x-z: 1\r\nX-Y: 2\r\nx-x: 3\r\nX-A: 4\r\nTraceparent: 00\r\n";

#[test]
fn headers_arrive_in_the_order_in_which_they_were_sent() {
    let body = completion(Some("ok"), None).to_string();
    let response = format!("{HEADERS}Content-Length: {}\r\nX-Last: l\r\n", body.len());
    let sent = format!("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n{response}\r\n{body}");
    let server = Server::start(move |_, _, out| out.write_all(sent.as_bytes()).unwrap());
    let proxy = Proxy::start(&server, "");
    let body = Chat::new("go").body().to_string();
    for path in ["chat/completions", "files"] {
        let mut stream = proxy.connect();
        let head = format!("POST {}/openai/{path} HTTP/1.1\r\nHost: x\r\n", proxy.prefix);
        // The proxy must not forward `close`: these headers apply only to this connection.
        let (length, close) = (body.len(), "Connection: close\r\nKeep-Alive: 5\r\n");
        write!(stream, "{head}{close}{HEADERS}Content-Length: {length}\r\nX-Last: l\r\n\r\n{body}")
            .unwrap();
        let reply = read_reply(stream);
        let status = "HTTP/1.1 200 OK\r\n";
        let received = reply.head.strip_prefix(status).unwrap();
        // The proxy adds its own `Connection` header at the end. White space may differ.
        let received = received.strip_suffix("\r\nConnection: close").unwrap();
        let received = received.replace("X-Empty: ", "X-Empty:");
        assert_eq!(format!("{received}\r\n"), response, "the response of {path}");
        let expected = format!(
            "POST /v1/{path} HTTP/1.1\r\nHost: {}\r\n{HEADERS}Content-Length: {length}\r\n\
             X-Last: l\r\n",
            server.address
        );
        assert_eq!(server.received().pop().unwrap().head, expected);
    }
}

#[test]
fn intercepted_headers_arrive_in_the_order_in_which_they_were_sent() {
    let world = ordinary();
    let session = Session::start(&world);
    let mut client = session.open(HOST);
    let body = Chat::new("go").body().to_string();
    for path in ["chat/completions", "files"] {
        let head = format!(
            "POST /v1/{path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: keep-alive\r\n{HEADERS}\
             Content-Length: {}\r\nX-Last: l\r\n\r\n",
            body.len()
        );
        let end = completion(Some("ok"), None).to_string();
        client.exchange(format!("{head}{body}").as_bytes(), &end);
        assert_eq!(world.asked().pop().unwrap().head, head);
    }
}

#[test]
fn a_repeated_header_arrives_where_it_came_first() {
    let server = Server::of_json(|_| json!({}));
    let proxy = Proxy::start(&server, "");
    proxy.send("GET", "/openai/models", "X-A: 1\r\nX-B: 2\r\nx-a: 3\r\nX-C: 4\r\n", b"");
    let head = server.received().pop().unwrap().head;
    assert!(head.contains("X-A: 1\r\nx-a: 3\r\nX-B: 2\r\nX-C: 4\r\n"), "{head}");
}

#[test]
fn a_model_request_in_chunks_stays_in_chunks_if_it_is_intercepted() {
    let world = World::start(Behaviour::Ordinary, |_, _| {
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()
    });
    let session = Session::start(&world);
    let mut client = session.open(HOST);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\
         X-Last: l\r\n\r\n"
    );
    let body = Chat::new("go").body().to_string();
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    client.exchange(format!("{head}{chunk}").as_bytes(), "{}");
    assert_eq!(world.asked()[0].head, head);
}

/// A response whose `Content-Length` contradicts its chunks. Clients must ignore that header.
fn two_lengths(order: usize) -> Vec<u8> {
    let body = completion(Some("chunked"), None).to_string();
    let mut lengths = ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"];
    lengths.rotate_left(order % 2);
    let (first, second) = body.split_at(20);
    let chunks = format!("{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n", first.len(), second.len());
    format!("HTTP/1.1 200 OK\r\n{}X-A: a\r\n\r\n{chunks}0\r\n\r\n", lengths.concat()).into_bytes()
}

#[test]
fn chunks_win_over_a_content_length() {
    let server = Server::start(|number, _, out| out.write_all(&two_lengths(number)).unwrap());
    let proxy = Proxy::start(&server, "");
    for path in ["chat/completions", "chat/completions", "files", "files"] {
        let body = Chat::new("go").body().to_string();
        let path = format!("/openai/{path}");
        let reply = proxy.send("POST", &path, "host: x\r\n", body.as_bytes());
        assert!(reply.is_whole && !reply.head.to_lowercase().contains("content-length"));
        let reply: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply, completion(Some("chunked"), None));
    }
    assert!(!runs(&proxy.stop()).is_empty());
}

#[test]
fn chunks_win_over_a_content_length_if_they_are_intercepted() {
    let world = World::start(Behaviour::Ordinary, |number, _| two_lengths(number));
    let session = Session::start(&world);
    let mut client = session.open(HOST);
    let body = Chat::new("go").body().to_string();
    for _ in 0..2 {
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\n");
        let head = format!("{head}content-length: {}\r\n\r\n", body.len());
        let reply = client.exchange(format!("{head}{body}").as_bytes(), "\r\n0\r\n\r\n");
        let (head, _) = reply.split_once("\r\n\r\n").unwrap();
        assert_eq!(head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: a");
    }
}

#[test]
fn long_paths_and_headers_pass() {
    let server = Server::of_json(|_| json!({}));
    let proxy = Proxy::start(&server, "");
    let (long, value) = ("x".repeat(60_000), "v".repeat(100_000));
    let path = format!("/openai/files?after={long}");
    let reply = proxy.send("GET", &path, &format!("x-long: {value}\r\n"), b"");
    assert!(reply.is_whole, "{reply:?}");
    let head = server.received().pop().unwrap().head;
    assert!(head.contains(&long) && head.contains(&value));
}

/// Checks the response to a path that is too long for the proxy.
#[track_caller]
fn check_is_too_long(head: &str, body: &str) {
    assert!(head.starts_with("HTTP/1.1 414 URI Too Long\r\n"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["type"], &body["error"]["type"]),
        (&json!("error"), &json!("midcourse_proxy"))
    );
    assert!(body["error"]["message"].as_str().unwrap().contains("64 kB"), "{body}");
}

#[test]
fn a_path_that_is_too_long_gets_a_response_that_says_so() {
    let server = Server::start(|_, _, out| {
        out.write_all(b"HTTP/1.1 414 URI Too Long\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let proxy = Proxy::start(&server, "");
    let long = "x".repeat(100_000);
    let reply = proxy.send("GET", &format!("/openai/files?after={long}"), "", b"");
    assert!(reply.is_whole);
    check_is_too_long(&reply.head, &String::from_utf8(reply.body).unwrap());
    let reply = proxy.send("GET", "/openai/files", "", b"");
    assert!(reply.head.contains(" 414 ") && reply.body.is_empty(), "the upstream's own: {reply:?}");
    let world = ordinary();
    let session = Session::start(&world);
    let request = format!("GET /v1/files?after={long} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let reply = session.open(HOST).exchange(request.as_bytes(), "}}");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    check_is_too_long(head, body);
    assert_eq!((server.received().len(), world.asked().len()), (1, 0));
}
