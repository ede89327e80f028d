//! A minimal HTTP/1.1 server for the scripted model: it handles one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// A request body must have fewer bytes than this. If the body is sent in chunks, the same limit
/// applies to each chunk.
const MAX_BODY_LEN: u64 = 64 * 1024 * 1024;

pub(crate) struct Request {
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
    /// The body after decompression.
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Json(String),
    /// Server-sent events, each sent separately.
    Events(Vec<String>),
}

/// Serves requests until the process ends, each on its own thread.
pub(crate) fn serve(respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let respond = Arc::new(respond);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let respond = Arc::clone(&respond);
            std::thread::spawn(move || {
                // An error means that the client closed the connection early, which is harmless.
                let _ = handle(&stream, &*respond);
            });
        }
    });
    address
}

fn handle(stream: &TcpStream, respond: &dyn Fn(&Request) -> Reply) -> io::Result<()> {
    let Some(request) = read(&mut BufReader::new(stream))? else { return Ok(()) };
    let reply = respond(&request);
    let mut out = stream;
    let kind = match reply.content {
        Content::Json(_) => "application/json",
        Content::Events(_) => "text/event-stream",
    };
    write!(out, "HTTP/1.1 {} -\r\ncontent-type: {kind}\r\nconnection: close\r\n", reply.status)?;
    match reply.content {
        Content::Json(text) => {
            write!(out, "content-length: {}\r\n\r\n", text.len())?;
            if request.method != "HEAD" {
                out.write_all(text.as_bytes())?;
            }
        }
        Content::Events(events) => {
            out.write_all(b"\r\n")?;
            for event in events {
                out.write_all(event.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Reads a request; `None` if the client closed the connection.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let (mut length, mut encoding, mut is_chunked) = (0, String::new(), false);
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-encoding" => encoding = value.to_ascii_lowercase(),
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        while let Some(size) = chunk(input)? {
            input.take(size).read_to_end(&mut body)?;
            input.read_line(&mut String::new())?;
        }
    } else {
        assert!(length < MAX_BODY_LEN, "a request of {length} bytes");
        input.take(length).read_to_end(&mut body)?;
    }
    let body = match encoding.as_str() {
        "" | "identity" => body,
        "zstd" => zstd::decode_all(body.as_slice())?,
        other => panic!("a request in the encoding {other}"),
    };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Ok(Some(Request { method, path, body }))
}

/// The size in bytes of the next chunk of a body; `None` at the end of the body.
fn chunk(input: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let size = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).unwrap();
    assert!(size < MAX_BODY_LEN, "a chunk of {size} bytes");
    Ok((size > 0).then_some(size))
}
