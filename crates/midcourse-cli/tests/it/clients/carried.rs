//! What midcourse said, as it stands in requests: what is to stay stays where it is, byte by byte, what
//! is for one request is in one, and all else is the client's own.

use std::ops::Range;

use midcourse::{CallId, Delivery, LABEL, TrajectoryPayload, TrajectoryRecord};
use serde_json::Value;

/// What is on record as said to a run.
struct Said {
    /// Feedback, by the call whose result carries it.
    feedback: Vec<(CallId, Vec<Delivery>)>,
    guidance: Vec<Delivery>,
}

/// Compares the requests of a run, as the model got them, with what the client sent, in order.
pub(crate) fn check(records: &[TrajectoryRecord], got: &[Vec<u8>], sent: &[Vec<u8>]) {
    assert_eq!(got.len(), sent.len(), "each request arrives once");
    let said = Said::by(records);
    let got: Vec<&str> = got.iter().map(|body| str::from_utf8(body).unwrap()).collect();
    for (number, (got, sent)) in got.iter().zip(sent).enumerate() {
        let mut rest = (*got).to_owned();
        for words in said.in_request(got) {
            rest.replace_range(place(&rest, &words).unwrap(), "");
        }
        assert_eq!(rest, str::from_utf8(sent).unwrap(), "request {number}");
    }
    for piece in &said.guidance {
        let times: usize =
            got.iter().map(|body| body.matches(&inside(&piece.text())).count()).sum();
        assert_eq!(times, 1, "is for one request: {}", piece.text());
    }
    for (call, feedback) in &said.feedback {
        let words = Delivery::labelled_text(feedback).unwrap();
        let mut places = got.iter().map(|body| around(body, call, &words));
        let first = places.by_ref().find_map(|place| place);
        assert!(first.is_some(), "was not delivered: {words}");
        for later in places {
            assert_eq!(later, first, "stays as it is: {words}");
        }
    }
}

impl Said {
    fn by(records: &[TrajectoryRecord]) -> Self {
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

    /// The words that were inserted into a request, each once.
    fn in_request(&self, body: &str) -> Vec<String> {
        let is_there = |piece: &&Delivery| body.contains(&inside(&piece.text()));
        let mut words: Vec<String> = Vec::new();
        for (_, feedback) in &self.feedback {
            let feedback = Delivery::labelled_text(feedback).unwrap();
            words.extend(place(body, &feedback).map(|_| feedback));
        }
        words.extend(Delivery::labelled_text(self.guidance.iter().filter(is_there)));
        assert_eq!(body.matches(LABEL).count(), words.len(), "all of it is on record: {words:?}");
        words
    }
}

/// Where words stand in a body that were inserted there, in one of the forms that they have.
fn place(body: &str, words: &str) -> Option<Range<usize>> {
    let text = Value::from(words).to_string();
    let forms = [
        inside(&format!("\n\n{words}")),
        format!(r#",{{"type":"text","text":{text}}}"#),
        format!(r#",{{"role":"system","content":{text}}}"#),
        format!(r#","content":{text}"#),
    ];
    let places = |form: &String| {
        let found = body.match_indices(form);
        found.map(|(at, form)| at..at + form.len()).collect::<Vec<_>>()
    };
    // In this order: the last stands at the end of the one before, too.
    let places = forms.iter().map(places).find(|places| !places.is_empty())?;
    assert_eq!(places.len(), 1, "stands there once: {words}");
    places.into_iter().next()
}

/// Words about a call's result, with the bytes in front of them from the call's last mention on.
fn around(body: &str, call: &CallId, words: &str) -> Option<String> {
    let place = place(body, words)?;
    let (front, _) = body.split_at(place.end);
    let begin = body.split_at(place.start).0.rfind(&format!("\"{call}\"")).unwrap();
    Some(front.split_at(begin).1.to_owned())
}

/// A text as it stands in a JSON string.
fn inside(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap().to_owned()
}
