//! Measures redaction on a corpus of invented secrets, and on ordinary lines: those of this project.
//!
//! The corpus was written without knowledge of the rules; `testdata/redaction` has every fourth
//! planted text of it. The example `redaction_corpus` measures a whole corpus.

use std::path::Path;

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

/// The lines of code and documentation below a folder.
fn lines_below(folder: &Path, lines: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_text =
            path.extension().is_some_and(|end| ["md", "rs", "py"].iter().any(|it| end == *it));
        if path.is_dir() {
            lines_below(&path, lines);
        } else if is_text {
            let text = std::fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().map(ToOwned::to_owned));
        }
    }
}

#[test]
fn at_most_one_in_1000_ordinary_lines_changes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut lines = Vec::new();
    for folder in ["docs", "crates/midcourse-core", "crates/midcourse-cli/src"] {
        lines_below(&root.join(folder), &mut lines);
    }
    let changed: Vec<_> =
        lines.iter().filter(|line| Redaction::default().redact(line).is_some()).collect();
    assert!(lines.len() > 20_000, "{}", lines.len());
    assert!(
        changed.len() * 1000 <= lines.len(),
        "{} of {}: {changed:#?}",
        changed.len(),
        lines.len()
    );
}
