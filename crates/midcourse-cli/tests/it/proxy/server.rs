//! A server that plays the model API behind the proxy. It keeps the bytes of each request, and a
//! function that the test provides writes the responses.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that calls `respond` with the number of the request (0 for the first), the
    /// request, and the connection to write to. A request that breaks off is ignored.
    pub(crate) fn start(
        respond: impl Fn(usize, &Received, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (kept, respond) = (Arc::clone(&received), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, respond) = (Arc::clone(&kept), Arc::clone(&respond));
                std::thread::spawn(move || {
                    let mut input = BufReader::new(stream.try_clone().unwrap());
                    let mut out = stream;
                    while let Some(request) = read(&mut input, &mut out) {
                        let mut all = kept.lock().unwrap();
                        let number = all.len();
                        all.push(request.clone());
                        drop(all);
                        respond(number, &request, &mut out);
                    }
                });
            }
        });
        Self { address, received }
    }

    /// Starts a server that sends `response(n)` for request number `n`; 0 is the first.
    pub(crate) fn of_json(response: impl Fn(usize) -> Value + Send + Sync + 'static) -> Self {
        Self::start(move |number, _, out| send_json(out, 200, &response(number)))
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.received().iter().map(|request| request.text().to_owned()).collect()
    }
}

pub(crate) fn send_json(out: &mut impl Write, status: u16, value: &Value) {
    let text = value.to_string();
    let head = format!("HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n");
    // Writing fails if the client closed the connection, which some tests do.
    let _ = write!(out, "{head}content-length: {}\r\n\r\n{text}", text.len());
}

/// A response of OpenAI's Chat Completions API with a text, or with a call of the shell tool (the
/// id of the call and the command).
pub(crate) fn completion(text: Option<&str>, call: Option<(&str, &str)>) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if let Some((id, command)) = call {
        let arguments = json!({"command": command}).to_string();
        let function = json!({"name": "shell", "arguments": arguments});
        message["tool_calls"] = json!([{"id": id, "type": "function", "function": function}]);
    }
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    json!({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage})
}

fn read(input: &mut BufReader<TcpStream>, out: &mut TcpStream) -> Option<Received> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let header = |name: &str| {
        let lower = head.to_ascii_lowercase();
        let line = lower.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::to_owned)
    };
    if header("expect").is_some() {
        out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let mut body = Vec::new();
    if header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            input.read_line(&mut size).ok()?;
            let size = u64::from_str_radix(size.trim(), 16).ok()?;
            let before = body.len();
            input.take(size).read_to_end(&mut body).ok()?;
            let mut end = String::new();
            input.read_line(&mut end).ok()?;
            if body.len() - before < usize::try_from(size).unwrap() || end != "\r\n" {
                return None;
            }
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = header("content-length") {
        let length: u64 = length.parse().unwrap();
        input.take(length).read_to_end(&mut body).ok()?;
        (body.len() == usize::try_from(length).unwrap()).then_some(())?;
    }
    Some(Received { head, body })
}
