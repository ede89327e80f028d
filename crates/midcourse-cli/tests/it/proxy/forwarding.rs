//! The proxy forwards requests and responses unchanged, whatever the client and the upstream (the
//! model API behind the proxy) do: long bodies, streams, errors, broken connections.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::{Mutex, mpsc};

use midcourse::{AgentMessage, StopReason, TrajectoryPayload, TrajectoryRecord};
use serde_json::json;

use super::server::{Server, completion, send_json};
use super::{Chat, Proxy, configured, kinds, log, read_reply, runs};

/// The stop reason and text of each recorded model response.
fn replies(records: &[TrajectoryRecord]) -> Vec<(StopReason, String)> {
    let reply = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::MessageAppended {
            message: AgentMessage::Assistant { content, stop_reason, .. },
        } => Some((*stop_reason, content.plain_text().into_owned())),
        _ => None,
    };
    records.iter().filter_map(reply).collect()
}

#[test]
fn requests_without_the_token_are_refused() {
    let server = Server::of_json(|_| json!({}));
    let proxy = Proxy::start(&server, "");
    assert!(proxy.address.ip().is_loopback());
    for path in ["/", "/v1/messages", "/openai/chat/completions", "/midcourse-0/openai/models"] {
        let mut stream = proxy.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let reply = read_reply(stream);
        assert!(reply.head.starts_with("HTTP/1.1 403"), "{reply:?}");
        assert!(String::from_utf8(reply.body).unwrap().contains("token"));
    }
    assert!(proxy.send("GET", "/elsewhere/models", "host: x\r\n", b"").head.contains("403"));
    assert_eq!(server.received().len(), 0);
}

#[test]
fn hundreds_of_headers_pass_in_both_directions() {
    let server = Server::start(|_, _, out| {
        let headers: String = (0..300).map(|n| format!("x-{n}: {n}\r\n")).collect();
        write!(out, "HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\n{{}}").unwrap();
    });
    let proxy = Proxy::start(&server, "");
    let headers: String = (0..300).map(|n| format!("y-{n}: {n}\r\n")).collect();
    let reply = proxy.send("GET", "/openai/models", &headers, b"");
    assert!(reply.head.contains("x-299: 299"), "{reply:?}");
    assert!(server.received()[0].head.contains("y-299: 299"));
}

#[test]
fn requests_that_are_not_model_requests_pass_unchanged() {
    let server = Server::start(|_, _, out| {
        out.write_all(
            b"HTTP/1.1 418 I'm a Teapot, Short\r\nX-OdD: 1\r\nx-odd: 2\r\ncontent-length: 3\r\n\r\n\xff\0z",
        )
        .unwrap();
    });
    let proxy = Proxy::start(&server, "");
    for (method, path, sent) in [
        ("GET", "/openai/models?a=%20b&c", "/v1/models?a=%20b&c"),
        (
            "POST",
            "/anthropic/v1/messages/count_tokens?beta=true",
            "/v1/messages/count_tokens?beta=true",
        ),
        ("DELETE", "/openai/files/x%2Fy", "/v1/files/x%2Fy"),
        ("PATCH", "/anthropic", "/"),
        ("POST", "/openai/responses", "/v1/responses"),
    ] {
        let headers = "host: me\r\nAuthorization: Bearer KEY\r\nX-ApI-kEy: other\r\nContent-Encoding: odd\r\n";
        let reply = proxy.send(method, path, headers, b"\xfe{not json");
        assert_eq!(reply.body, b"\xff\0z", "{method} {path}: {reply:?}");
        assert!(reply.head.starts_with("HTTP/1.1 418 I'm a Teapot, Short\r\n"), "{}", reply.head);
        assert!(
            reply.head.contains("X-OdD: 1\r\n") && reply.head.to_lowercase().contains("x-odd: 2")
        );
        assert!(!reply.head.to_lowercase().contains("date:"), "no header is added: {}", reply.head);
        let received = server.received().pop().unwrap();
        assert!(
            received.head.starts_with(&format!("{method} {sent} HTTP/1.1\r\n")),
            "{}",
            received.head
        );
        for header in
            ["Authorization: Bearer KEY\r\n", "X-ApI-kEy: other\r\n", "Content-Encoding: odd\r\n"]
        {
            assert!(received.head.contains(header), "{}", received.head);
        }
        assert!(
            received.head.contains(&format!("host: {}\r\n", server.address)),
            "{}",
            received.head
        );
        assert_eq!(received.body, b"\xfe{not json");
    }
}

#[test]
fn a_model_request_without_deliveries_passes_byte_for_byte() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let odd = "{ \"b\" : 1.50e+1,\n\t\"messages\":[ {\"content\":\"\\u00e9\\/\\n \\ud83d\\ude00\", \
               \"role\":\"user\",\"x\":[ ]} ] ,\"model\":\"m\",\"a\":12345678901234567890 } ";
    let reply = proxy.send("POST", "/openai/chat/completions", "Host: x\r\n", odd.as_bytes());
    assert!(reply.is_whole);
    assert_eq!(server.bodies(), [odd]);
}

#[test]
fn model_requests_that_cannot_be_parsed_pass_and_are_kept() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let bodies: [&[u8]; 4] = [b"", b"not json \xff", b"{\"messages\": 7}", b"[[[[["];
    for body in bodies {
        let reply = proxy.send("POST", "/openai/chat/completions", "host: x\r\n", body);
        assert!(reply.head.starts_with("HTTP/1.1 200"), "{reply:?}");
    }
    let sent: Vec<_> = server.received().into_iter().map(|request| request.body).collect();
    assert_eq!(sent, bodies);
    let runs = proxy.runs();
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(kinds(run).iter().filter(|kind| **kind == "unread").count(), 4);
}

#[test]
fn a_model_request_that_is_too_long_passes() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let mut body = Chat::new("go").body();
    body["messages"][1]["content"] = "x".repeat(100 * 1024 * 1024).into();
    let body = body.to_string().into_bytes();
    let reply = proxy.send("POST", "/openai/chat/completions", "host: x\r\n", &body);
    assert!(reply.is_whole && reply.head.starts_with("HTTP/1.1 200"));
    assert!(server.received()[0].body == body);

    // The same body again, in chunks and without a content-length header.
    let mut stream = proxy.connect();
    let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
    write!(stream, "{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n").unwrap();
    for chunk in body.chunks(1 << 20) {
        write!(stream, "{:x}\r\n", chunk.len()).unwrap();
        stream.write_all(chunk).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert!(read_reply(stream).is_whole);
    assert!(server.received()[1].body == body);
}

#[test]
fn an_incomplete_request_is_not_forwarded() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    for rest in ["5\r\nabc", "zz\r\nabc\r\n", "3\r\nabcd\r\n0\r\n\r\n"] {
        let mut stream = proxy.connect();
        let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
        write!(stream, "{head}transfer-encoding: chunked\r\n\r\n{rest}").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let reply = read_reply(stream);
        assert!(!reply.head.starts_with("HTTP/1.1 200"), "{reply:?}");
    }
    assert_eq!(server.received().len(), 0);
    assert!(proxy.chat(&Chat::new("go").body()).is_whole, "the next request passes");
}

#[test]
fn a_streamed_response_arrives_chunk_by_chunk() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let server = Server::start(move |_, _, out| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes()).unwrap();
        let mut chunk = |text: &str| write!(out, "{:x}\r\n{text}\r\n", text.len()).unwrap();
        chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \"}}]}\n\n");
        // The server sends the rest only after the client has received the first chunk.
        wait.lock().unwrap().recv().unwrap();
        chunk(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two\"},\"finish_reason\":\"stop\"}]}\n\n",
        );
        chunk("data: [DONE]\n\n");
        out.write_all(b"0\r\n\r\n").unwrap();
    });
    let proxy = Proxy::start(&server, "");
    let body = Chat::new("go").body().to_string();
    let mut stream = proxy.connect();
    let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
    write!(stream, "{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut start = Vec::new();
    while !String::from_utf8_lossy(&start).contains("one ") {
        let mut some = [0; 512];
        let read = stream.read(&mut some).unwrap();
        assert!(read > 0);
        start.extend_from_slice(&some[..read]);
    }
    go_on.send(()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("two") && rest.contains("[DONE]") && rest.ends_with("0\r\n\r\n"));
    let runs = proxy.runs();
    assert_eq!(replies(&runs[0]), [(StopReason::EndTurn, "one two".to_owned())]);
}

#[test]
fn a_response_that_breaks_off_breaks_off_for_the_client() {
    let server = Server::start(|number, _, out| match number {
        0 => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            out.write_all(head.as_bytes()).unwrap();
            let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
            write!(out, "{:x}\r\n{event}\r\n40\r\nda", event.len()).unwrap();
            out.shutdown(Shutdown::Both).unwrap();
        }
        1 => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":").unwrap();
            out.shutdown(Shutdown::Both).unwrap();
        }
        2 => out.shutdown(Shutdown::Both).unwrap(),
        3 => send_json(out, 500, &json!({"error": {"message": "broken"}})),
        4 => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\xff\xfe{]").unwrap();
        }
        _ => send_json(out, 200, &completion(Some("at last"), None)),
    });
    let proxy = Proxy::start(&server, "");
    let body = Chat::new("go").body();
    let reply = proxy.chat(&body);
    assert!(reply.head.starts_with("HTTP/1.1 200") && !reply.is_whole, "{reply:?}");
    assert!(String::from_utf8(reply.body).unwrap().contains("half"));
    let reply = proxy.chat(&body);
    assert!(!reply.is_whole && reply.body == b"{\"choices\":", "{reply:?}");
    let reply = proxy.chat(&body);
    assert_eq!(
        (reply.head.as_str(), reply.body.len()),
        ("", 0),
        "the connection closes without a response"
    );
    assert!(proxy.chat(&body).head.starts_with("HTTP/1.1 500"));
    assert_eq!(proxy.chat(&body).body, b"\xff\xfe{]");
    assert!(proxy.chat(&body).is_whole);
    let folder = proxy.stop();
    assert!(log(&folder).contains("no response from"), "{}", log(&folder));
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    let reasons: Vec<_> = replies(run).into_iter().map(|(reason, _)| reason).collect();
    use StopReason::{Aborted, EndTurn, Error};
    assert_eq!(reasons, [Aborted, Aborted, Aborted, Error, Error, EndTurn]);
    let turns = kinds(run).iter().filter(|kind| **kind == "turn_started").count();
    assert_eq!(turns, 1, "a retry belongs to the same turn");
}

#[test]
fn an_unreachable_upstream_closes_the_connection() {
    let proxy = Proxy::start_in(configured(""), "127.0.0.1:9".parse().unwrap());
    let reply = proxy.chat(&Chat::new("go").body());
    assert_eq!((reply.head.as_str(), reply.body.len()), ("", 0));
}

#[test]
fn a_client_that_disconnects_is_recorded_as_an_aborted_response() {
    let (arrived, has_arrived) = mpsc::channel();
    let (_never, wait) = mpsc::channel::<()>();
    let (arrived, wait) = (Mutex::new(arrived), Mutex::new(wait));
    let server = Server::start(move |number, _, out| {
        if number == 0 {
            arrived.lock().unwrap().send(()).unwrap();
            // The server never responds to this request.
            let _ = wait.lock().unwrap().recv();
        } else {
            send_json(out, 200, &completion(Some("ok"), None));
        }
    });
    let proxy = Proxy::start(&server, "");
    let body = Chat::new("go").body();
    let mut stream = proxy.connect();
    let text = body.to_string();
    let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
    write!(stream, "{head}content-length: {}\r\n\r\n{text}", text.len()).unwrap();
    has_arrived.recv().unwrap();
    drop(stream);
    assert!(proxy.chat(&Chat::new("another").body()).is_whole);
    let runs = proxy.runs();
    let reasons: Vec<_> =
        runs.iter().flat_map(|run| replies(run)).map(|(reason, _)| reason).collect();
    assert_eq!(reasons, [StopReason::Aborted, StopReason::EndTurn]);
}

#[test]
fn a_compressed_response_passes_unchanged_and_is_recorded() {
    let text = completion(Some("compressed"), None).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let compressed =
        [("gzip", gzip.finish().unwrap()), ("zstd", zstd::encode_all(text.as_bytes(), 1).unwrap())];
    let sent = compressed.clone();
    let server = Server::start(move |number, _, out| {
        let (name, bytes) = &sent[number];
        write!(
            out,
            "HTTP/1.1 200 OK\r\ncontent-encoding: {name}\r\ncontent-length: {}\r\n\r\n",
            bytes.len()
        )
        .unwrap();
        out.write_all(bytes).unwrap();
    });
    let proxy = Proxy::start(&server, "");
    for (name, bytes) in &compressed {
        let reply = proxy.chat(&Chat::new(name).body());
        assert_eq!(&reply.body, bytes, "{name} passes unchanged");
    }
    for run in proxy.runs() {
        assert_eq!(replies(&run), [(StopReason::EndTurn, "compressed".to_owned())]);
    }
}

#[test]
fn a_compressed_request_passes_unchanged_and_is_recorded() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let compressed =
        zstd::encode_all(Chat::new("compressed").body().to_string().as_bytes(), 1).unwrap();
    let headers = "host: x\r\ncontent-encoding: zstd\r\n";
    assert!(proxy.send("POST", "/openai/chat/completions", headers, &compressed).is_whole);
    assert_eq!(server.received()[0].body, compressed);
    let runs = proxy.runs();
    assert_eq!(replies(&runs[0]), [(StopReason::EndTurn, "ok".to_owned())]);
}

#[test]
fn expect_100_continue_works() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    for path in ["/openai/chat/completions", "/openai/files"] {
        let mut stream = proxy.connect();
        let body = Chat::new("go").body().to_string();
        let head =
            format!("POST {}{path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n", proxy.prefix);
        write!(stream, "{head}connection: close\r\ncontent-length: {}\r\n\r\n", body.len())
            .unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(body.as_bytes()).unwrap();
        assert!(read_reply(stream).is_whole);
        assert_eq!(server.received().pop().unwrap().text(), body);
    }
}

#[test]
fn a_websocket_passes_both_ways() {
    let server = Server::start(|_, request, out| {
        assert!(request.head.to_lowercase().contains("upgrade: websocket"), "{}", request.head);
        out.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
            .unwrap();
        let mut frame = [0; 5];
        out.read_exact(&mut frame).unwrap();
        out.write_all(&frame).unwrap();
        out.shutdown(Shutdown::Both).unwrap();
    });
    let proxy = Proxy::start(&server, "");
    let mut stream = proxy.connect();
    let head = format!("GET {}/openai/realtime HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
    write!(stream, "{head}connection: Upgrade\r\nupgrade: websocket\r\n\r\n").unwrap();
    let mut start = Vec::new();
    while !start.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        start.push(byte[0]);
    }
    assert!(start.starts_with(b"HTTP/1.1 101"));
    stream.write_all(b"\x81\x03\xffab").unwrap();
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo).unwrap();
    assert_eq!(echo, b"\x81\x03\xffab");
}

#[test]
fn other_upgrades_are_not_forwarded() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let headers =
        "host: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n";
    let body = Chat::new("go").body().to_string();
    let reply = proxy.send("POST", "/openai/chat/completions", headers, body.as_bytes());
    assert!(reply.is_whole);
    let head = server.received().pop().unwrap().head.to_lowercase();
    assert!(!head.contains("upgrade") && !head.contains("http2-settings"), "{head}");
    assert_eq!(proxy.runs().len(), 1);
}

#[test]
fn a_client_connection_serves_several_requests() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let mut stream = proxy.connect();
    for number in 0..3 {
        let body = Chat::new(&format!("task {number}")).body().to_string();
        let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let response = completion(Some("ok"), None).to_string();
        let mut got = Vec::new();
        while !got.ends_with(response.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            got.push(byte[0]);
        }
    }
    assert_eq!(server.received().len(), 3);
}

#[test]
fn without_a_store_everything_passes_and_nothing_is_delivered() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("midcourse"), "a file where the folder should be").unwrap();
    let proxy = Proxy::start_in(folder, server.address);
    let mut chat = Chat::new("go");
    for number in 0..4 {
        chat.call(&format!("c{number}"), "make", "make: *** no rule");
        let body = chat.body();
        assert!(proxy.chat(&body).is_whole);
        assert_eq!(
            server.bodies().pop().unwrap(),
            body.to_string(),
            "nothing is delivered that is not recorded"
        );
    }
    proxy.stop();
}
