//! What passes: everything, as it is, whatever either side does.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::{Mutex, mpsc};

use midcourse::{AgentMessage, StopReason, TrajectoryPayload, TrajectoryRecord};
use serde_json::json;

use super::server::{Server, completion, send_json};
use super::{Chat, Proxy, kinds, log, read_reply, runs};

fn answers(records: &[TrajectoryRecord]) -> Vec<(StopReason, String)> {
    let answer = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::MessageAppended {
            message: AgentMessage::Assistant { content, stop_reason, .. },
        } => Some((*stop_reason, content.plain_text().into_owned())),
        _ => None,
    };
    records.iter().filter_map(answer).collect()
}

#[test]
fn nobody_gets_through_without_the_token() {
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
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn what_is_not_understood_passes_as_it_is() {
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
        assert!(!reply.head.to_lowercase().contains("date:"), "nothing is added: {}", reply.head);
        let asked = server.asked().pop().unwrap();
        assert!(asked.head.starts_with(&format!("{method} {sent} HTTP/1.1\r\n")), "{}", asked.head);
        for header in
            ["Authorization: Bearer KEY\r\n", "X-ApI-kEy: other\r\n", "Content-Encoding: odd\r\n"]
        {
            assert!(asked.head.contains(header), "{}", asked.head);
        }
        assert!(asked.head.contains(&format!("host: {}\r\n", server.address)), "{}", asked.head);
        assert_eq!(asked.body, b"\xfe{not json");
    }
}

#[test]
fn the_bytes_of_a_question_stay_the_clients() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let odd = "{ \"b\" : 1.50e+1,\n\t\"messages\":[ {\"content\":\"\\u00e9\\/\\n \\ud83d\\ude00\", \
               \"role\":\"user\",\"x\":[ ]} ] ,\"model\":\"m\",\"a\":12345678901234567890 } ";
    let reply = proxy.send("POST", "/openai/chat/completions", "Host: x\r\n", odd.as_bytes());
    assert!(reply.is_whole);
    assert_eq!(server.bodies(), [odd]);
}

#[test]
fn what_cannot_be_read_passes_and_is_kept() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let bodies: [&[u8]; 4] = [b"", b"not json \xff", b"{\"messages\": 7}", b"[[[[["];
    for body in bodies {
        let reply = proxy.send("POST", "/openai/chat/completions", "host: x\r\n", body);
        assert!(reply.head.starts_with("HTTP/1.1 200"), "{reply:?}");
    }
    let sent: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(sent, bodies);
    let runs = proxy.runs();
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(kinds(run).iter().filter(|kind| **kind == "unread").count(), 4);
}

#[test]
fn a_question_that_is_too_long_passes() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let mut body = Chat::new("go").body();
    body["messages"][1]["content"] = "x".repeat(100 * 1024 * 1024).into();
    let body = body.to_string().into_bytes();
    let reply = proxy.send("POST", "/openai/chat/completions", "host: x\r\n", &body);
    assert!(reply.is_whole && reply.head.starts_with("HTTP/1.1 200"));
    assert!(server.asked()[0].body == body);

    // The same without a length that says so beforehand.
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
    assert!(server.asked()[1].body == body);
}

#[test]
fn a_question_that_breaks_off_asks_nothing() {
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
    assert_eq!(server.asked().len(), 0);
    assert!(proxy.chat(&Chat::new("go").body()).is_whole, "and the next one passes");
}

#[test]
fn a_stream_comes_piece_by_piece() {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::start(move |_, _, out| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes()).unwrap();
        let mut chunk = |text: &str| write!(out, "{:x}\r\n{text}\r\n", text.len()).unwrap();
        chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \"}}]}\n\n");
        // The rest comes when the client has had the first piece.
        waits.lock().unwrap().recv().unwrap();
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
    let mut begun = Vec::new();
    while !String::from_utf8_lossy(&begun).contains("one ") {
        let mut some = [0; 512];
        let read = stream.read(&mut some).unwrap();
        assert!(read > 0);
        begun.extend_from_slice(&some[..read]);
    }
    go_on.send(()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("two") && rest.contains("[DONE]") && rest.ends_with("0\r\n\r\n"));
    let runs = proxy.runs();
    assert_eq!(answers(&runs[0]), [(StopReason::EndTurn, "one two".to_owned())]);
}

#[test]
fn an_answer_that_breaks_off_breaks_off_for_the_client() {
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
    assert_eq!((reply.head.as_str(), reply.body.len()), ("", 0), "no answer is no answer");
    assert!(proxy.chat(&body).head.starts_with("HTTP/1.1 500"));
    assert_eq!(proxy.chat(&body).body, b"\xff\xfe{]");
    assert!(proxy.chat(&body).is_whole);
    let folder = proxy.stop();
    assert!(log(&folder).contains("no response from"), "{}", log(&folder));
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    let reasons: Vec<_> = answers(run).into_iter().map(|(reason, _)| reason).collect();
    use StopReason::{Aborted, EndTurn, Error};
    assert_eq!(reasons, [Aborted, Aborted, Aborted, Error, Error, EndTurn]);
    let turns = kinds(run).iter().filter(|kind| **kind == "turn_started").count();
    assert_eq!(turns, 1, "what is sent again because it failed is the same turn");
}

#[test]
fn a_server_that_cannot_be_reached_is_no_answer() {
    let server = Server::of_json(|_| json!({}));
    let proxy = Proxy::start_in(tempfile::tempdir().unwrap(), "127.0.0.1:9".parse().unwrap(), "");
    let reply = proxy.chat(&Chat::new("go").body());
    assert_eq!((reply.head.as_str(), reply.body.len()), ("", 0));
    drop(server);
}

#[test]
fn a_client_that_goes_away_is_no_matter() {
    let (has_come, is_asked) = mpsc::channel();
    let (_never, waits) = mpsc::channel::<()>();
    let (has_come, waits) = (Mutex::new(has_come), Mutex::new(waits));
    let server = Server::start(move |number, _, out| {
        if number == 0 {
            has_come.lock().unwrap().send(()).unwrap();
            // It never answers.
            let _ = waits.lock().unwrap().recv();
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
    is_asked.recv().unwrap();
    drop(stream);
    assert!(proxy.chat(&Chat::new("another").body()).is_whole);
    let runs = proxy.runs();
    let reasons: Vec<_> =
        runs.iter().flat_map(|run| answers(run)).map(|(reason, _)| reason).collect();
    assert_eq!(reasons, [StopReason::Aborted, StopReason::EndTurn]);
}

#[test]
fn an_answer_may_be_compressed() {
    let text = completion(Some("packed"), None).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let packed =
        [("gzip", gzip.finish().unwrap()), ("zstd", zstd::encode_all(text.as_bytes(), 1).unwrap())];
    let sent = packed.clone();
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
    for (name, bytes) in &packed {
        let reply = proxy.chat(&Chat::new(name).body());
        assert_eq!(&reply.body, bytes, "{name} passes as it is");
    }
    for run in proxy.runs() {
        assert_eq!(answers(&run), [(StopReason::EndTurn, "packed".to_owned())]);
    }
}

#[test]
fn a_question_may_be_compressed() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let packed = zstd::encode_all(Chat::new("packed").body().to_string().as_bytes(), 1).unwrap();
    let headers = "host: x\r\ncontent-encoding: zstd\r\n";
    assert!(proxy.send("POST", "/openai/chat/completions", headers, &packed).is_whole);
    assert_eq!(server.asked()[0].body, packed);
    let runs = proxy.runs();
    assert_eq!(answers(&runs[0]), [(StopReason::EndTurn, "ok".to_owned())]);
}

#[test]
fn who_waits_to_be_told_to_go_on_is_told() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    for path in ["/openai/chat/completions", "/openai/files"] {
        let mut stream = proxy.connect();
        let body = Chat::new("go").body().to_string();
        let head =
            format!("POST {}{path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n", proxy.prefix);
        write!(stream, "{head}connection: close\r\ncontent-length: {}\r\n\r\n", body.len())
            .unwrap();
        let mut told = [0; 25];
        stream.read_exact(&mut told).unwrap();
        assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(body.as_bytes()).unwrap();
        assert!(read_reply(stream).is_whole);
        assert_eq!(server.asked().pop().unwrap().text(), body);
    }
}

#[test]
fn another_protocol_passes_both_ways() {
    let server = Server::start(|_, asked, out| {
        assert!(asked.head.to_lowercase().contains("upgrade: websocket"), "{}", asked.head);
        out.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
            .unwrap();
        let mut heard = [0; 5];
        out.read_exact(&mut heard).unwrap();
        out.write_all(&heard).unwrap();
        out.shutdown(Shutdown::Both).unwrap();
    });
    let proxy = Proxy::start(&server, "");
    let mut stream = proxy.connect();
    let head = format!("GET {}/openai/realtime HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
    write!(stream, "{head}connection: Upgrade\r\nupgrade: websocket\r\n\r\n").unwrap();
    let mut begun = Vec::new();
    while !begun.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        begun.push(byte[0]);
    }
    assert!(begun.starts_with(b"HTTP/1.1 101"));
    stream.write_all(b"\x81\x03\xffab").unwrap();
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo).unwrap();
    assert_eq!(echo, b"\x81\x03\xffab");
}

#[test]
fn what_is_offered_for_one_hop_is_not_taken() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let headers =
        "host: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n";
    let body = Chat::new("go").body().to_string();
    let reply = proxy.send("POST", "/openai/chat/completions", headers, body.as_bytes());
    assert!(reply.is_whole);
    let head = server.asked().pop().unwrap().head.to_lowercase();
    assert!(!head.contains("upgrade") && !head.contains("http2-settings"), "{head}");
    assert_eq!(proxy.runs().len(), 1);
}

#[test]
fn a_connection_is_kept_for_more() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let proxy = Proxy::start(&server, "");
    let mut stream = proxy.connect();
    for number in 0..3 {
        let body = Chat::new(&format!("task {number}")).body().to_string();
        let head = format!("POST {}/openai/chat/completions HTTP/1.1\r\nhost: x\r\n", proxy.prefix);
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let answer = completion(Some("ok"), None).to_string();
        let mut got = Vec::new();
        while !got.ends_with(answer.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            got.push(byte[0]);
        }
    }
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn where_nothing_can_be_recorded_everything_passes() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("midcourse"), "in the way").unwrap();
    let proxy = Proxy::start_with(folder, server.address, &[]);
    let mut chat = Chat::new("go");
    for number in 0..4 {
        chat.call(&format!("c{number}"), "make", "make: *** no rule");
        let body = chat.body();
        assert!(proxy.chat(&body).is_whole);
        assert_eq!(
            server.bodies().pop().unwrap(),
            body.to_string(),
            "nothing is said that is not on record"
        );
    }
    proxy.stop();
}
