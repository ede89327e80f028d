//! Parses server-sent events, the format in which model APIs stream a response. The body may have
//! been cut off.

/// Whether a response body is an event stream rather than JSON.
pub(super) fn is_stream(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    [b"event:".as_slice(), b"data:", b":", b"id:", b"retry:"]
        .iter()
        .any(|field| start.starts_with(field))
}

/// The data of each event. If an event has several `data:` lines, they are joined with line feeds.
pub(super) fn data(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let mut events = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if line.is_empty() {
            events.extend(current.take());
        } else if let Some(data) = line.strip_prefix("data:") {
            let data = data.strip_prefix(' ').unwrap_or(data);
            match &mut current {
                Some(event) => {
                    event.push('\n');
                    event.push_str(data);
                }
                None => current = Some(data.to_owned()),
            }
        }
    }
    events.extend(current);
    events
}
