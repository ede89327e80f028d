//! Checks the messages that the proxy inserts into model requests. Feedback (a message about a tool
//! call) has to be at the same place in all later requests, byte for byte. Guidance (a message
//! about what to do next) has to be in one request only. All other bytes have to be those that the
//! client sent.

use std::ops::Range;

use midcourse::{CallId, Delivery, LABEL, TrajectoryPayload, TrajectoryRecord};
use serde_json::Value;

/// The messages that, according to the records of a run, the agent got.
struct Deliveries {
    /// Each call that got feedback, and the feedback that was added to its result.
    feedback: Vec<(CallId, Vec<Delivery>)>,
    guidance: Vec<Delivery>,
}

/// Compares the request bodies that the model `received` with those that the client `sent`: they
/// may differ only in the messages that `records` contains.
pub(crate) fn check(records: &[TrajectoryRecord], received: &[Vec<u8>], sent: &[Vec<u8>]) {
    assert_eq!(received.len(), sent.len(), "each request arrives once");
    let deliveries = Deliveries::of(records);
    let received: Vec<&str> = received.iter().map(|body| str::from_utf8(body).unwrap()).collect();
    for (number, (received, sent)) in received.iter().zip(sent).enumerate() {
        let mut rest = (*received).to_owned();
        for text in deliveries.in_request(received) {
            rest.replace_range(find(&rest, &text).unwrap(), "");
        }
        assert_eq!(rest, str::from_utf8(sent).unwrap(), "request {number}");
    }
    for guidance in &deliveries.guidance {
        let times: usize =
            received.iter().map(|body| body.matches(&escaped(&guidance.text())).count()).sum();
        assert_eq!(times, 1, "guidance is in one request: {}", guidance.text());
    }
    for (call, feedback) in &deliveries.feedback {
        let text = Delivery::labelled_text(feedback).unwrap();
        let mut contexts = received.iter().map(|body| with_context(body, call, &text));
        let first = contexts.by_ref().find_map(|context| context);
        assert!(first.is_some(), "was not delivered: {text}");
        for later in contexts {
            assert_eq!(later, first, "stays unchanged: {text}");
        }
    }
}

impl Deliveries {
    fn of(records: &[TrajectoryRecord]) -> Self {
        let (mut feedback, mut guidance) = (Vec::<(CallId, Vec<Delivery>)>::new(), Vec::new());
        for record in records {
            match record.payload.clone() {
                TrajectoryPayload::GuidanceDelivered { guidance: piece, .. } => {
                    guidance.push(Delivery::from(piece));
                }
                TrajectoryPayload::FeedbackDelivered { feedback: piece, tool_call_id, .. } => {
                    let call = tool_call_id.unwrap();
                    let piece = Delivery::from(piece);
                    match feedback.iter_mut().find(|(known, _)| *known == call) {
                        Some((_, pieces)) => pieces.push(piece),
                        None => feedback.push((call, vec![piece])),
                    }
                }
                _ => {}
            }
        }
        Self { feedback, guidance }
    }

    /// The texts of midcourse's messages that a request contains.
    fn in_request(&self, body: &str) -> Vec<String> {
        let is_there = |guidance: &&Delivery| body.contains(&escaped(&guidance.text()));
        let mut texts: Vec<String> = Vec::new();
        for (_, feedback) in &self.feedback {
            let feedback = Delivery::labelled_text(feedback).unwrap();
            texts.extend(find(body, &feedback).map(|_| feedback));
        }
        texts.extend(Delivery::labelled_text(self.guidance.iter().filter(is_there)));
        assert_eq!(body.matches(LABEL).count(), texts.len(), "all are recorded: {texts:?}");
        texts
    }
}

/// The bytes that the proxy inserted into a body to add a text; `None` if the text is not there.
/// The proxy appends to an existing string, or adds a content block, a message or a field.
fn find(body: &str, text: &str) -> Option<Range<usize>> {
    let json = Value::from(text).to_string();
    let forms = [
        escaped(&format!("\n\n{text}")),
        format!(r#",{{"type":"text","text":{json}}}"#),
        format!(r#",{{"role":"system","content":{json}}}"#),
        format!(r#","content":{json}"#),
    ];
    let places = |form: &String| {
        let found = body.match_indices(form);
        found.map(|(at, form)| at..at + form.len()).collect::<Vec<_>>()
    };
    // A text in the third form also contains the fourth, so the forms are tried in this order.
    let places = forms.iter().map(places).find(|places| !places.is_empty())?;
    assert_eq!(places.len(), 1, "occurs once: {text}");
    places.into_iter().next()
}

/// The part of a body that begins with the id of `call` and ends with the inserted `text`. `None`
/// if the text is not in the body.
fn with_context(body: &str, call: &CallId, text: &str) -> Option<String> {
    let range = find(body, text)?;
    let (front, _) = body.split_at(range.end);
    let begin = body.split_at(range.start).0.rfind(&format!("\"{call}\"")).unwrap();
    Some(front.split_at(begin).1.to_owned())
}

/// A text as it is written inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap().to_owned()
}
