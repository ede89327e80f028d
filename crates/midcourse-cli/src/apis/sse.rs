//! Server-sent events, from bytes that are all there.

/// Whether a body is a stream of events and no JSON.
pub(super) fn is_stream(body: &[u8]) -> bool {
    let begins = body.trim_ascii_start();
    [b"event:".as_slice(), b"data:", b":", b"id:", b"retry:"]
        .iter()
        .any(|word| begins.starts_with(word))
}

/// The data of each event that is whole.
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
                Some(known) => {
                    known.push('\n');
                    known.push_str(data);
                }
                None => current = Some(data.to_owned()),
            }
        }
    }
    events.extend(current);
    events
}
