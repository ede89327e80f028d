//! Measures redaction on a corpus of invented secrets and of ordinary lines.
//!
//! The corpus was written without knowledge of the rules; `testdata/redaction` has every fourth
//! planted text and every ninth ordinary line of it. The example `redaction_corpus` measures a
//! whole corpus.

use serde::Deserialize;

use super::Redaction;

/// Splits the secrets in the file, so that secret scanners raise no alarm.
const SPLIT: char = '·';

#[derive(Deserialize)]
struct PlantedWire {
    kind: String,
    text: String,
    secrets: Vec<String>,
}

#[test]
fn at_least_97_percent_of_planted_secrets_are_gone() {
    let planted = include_str!("../../testdata/redaction/planted.jsonl").replace(SPLIT, "");
    let (mut count, mut left) = (0, Vec::new());
    for line in planted.lines() {
        let PlantedWire { kind, text, secrets } = serde_json::from_str(line).unwrap();
        let redacted = Redaction::default().redact(&text).map_or(text, |redacted| redacted.text);
        count += secrets.len();
        let kept = secrets.into_iter().filter(|secret| redacted.contains(secret));
        left.extend(kept.map(|secret| format!("{kind}: {secret}")));
    }
    assert!(count > 800 && left.len() * 100 <= count * 3, "{} of {count}: {left:#?}", left.len());
}

#[test]
fn at_most_one_in_1000_ordinary_lines_changes() {
    let lines = include_str!("../../testdata/redaction/ordinary.txt").lines();
    let changed: Vec<_> =
        lines.clone().filter(|line| Redaction::default().redact(line).is_some()).collect();
    assert!(changed.len() * 1000 <= lines.count(), "{changed:#?}");
}
