//! Measures redaction: how many planted secrets are gone, and how many ordinary lines change.
//!
//! `cargo run --example redaction_corpus -- PLANTED.jsonl ORDINARY.txt [--show]`
//!
//! Each line of the first file is `{"kind": "…", "text": "…", "secrets": ["…"]}`. Each line of the
//! second file is an ordinary line. With `--show`, prints the secrets that are left and the lines
//! that changed.

#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::collections::BTreeMap;

use midcourse::Redaction;
use serde::Deserialize;

#[derive(Deserialize)]
struct Planted {
    kind: String,
    text: String,
    secrets: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(planted), Some(ordinary)) = (arguments.next(), arguments.next()) else {
        return Err("usage: redaction_corpus PLANTED.jsonl ORDINARY.txt [--show]".into());
    };
    let shows = arguments.next().is_some();
    let redaction = Redaction::default();

    let (mut secrets, mut gone) = (0_usize, 0_usize);
    let mut by_kind: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in std::fs::read_to_string(planted)?.lines() {
        let planted: Planted = serde_json::from_str(line)?;
        let redacted = redaction.redact(&planted.text);
        let text = redacted.as_ref().map_or(planted.text.as_str(), |redacted| &redacted.text);
        for secret in &planted.secrets {
            let is_gone = !text.contains(secret.as_str());
            secrets += 1;
            gone += usize::from(is_gone);
            let (all, left) = by_kind.entry(planted.kind.clone()).or_default();
            *all += 1;
            *left += usize::from(!is_gone);
            if shows && !is_gone {
                println!("left: {}: {secret:?} in {text:?}", planted.kind);
            }
        }
    }
    for (kind, (all, left)) in by_kind.iter().filter(|(_, (_, left))| *left > 0) {
        println!("{kind}: {left} of {all} left");
    }
    println!("{gone} of {secrets} secrets are gone");

    let (mut lines, mut changed) = (0_usize, 0_usize);
    for line in std::fs::read_to_string(ordinary)?.lines() {
        lines += 1;
        if let Some(redacted) = redaction.redact(line) {
            changed += 1;
            if shows {
                println!("changed: {line:?}\n      to {:?}", redacted.text);
            }
        }
    }
    println!("{changed} of {lines} ordinary lines changed");
    Ok(())
}
