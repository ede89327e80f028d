//! Reads a run to replay: from the store, or from a file with records as JSON lines or in notation
//! (a short form for people, such as `bash make -> built`).

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use anyhow::{Context, Result, bail};
use midcourse::{DecisionPoint, RunId, Source, Store, TrajectoryRecord, parse_notation};
use serde::Deserialize;

use crate::terminal::warn;

/// A record with its source (who reported it) and its decision point (the point of the agent's turn
/// at which a message could be delivered after this record). Each is `None` if the input does not
/// contain it.
#[derive(Deserialize)]
pub(super) struct InputRecord {
    #[serde(flatten)]
    pub(super) record: TrajectoryRecord,
    #[serde(flatten)]
    pub(super) source: Option<Source>,
    pub(super) decision_point: Option<DecisionPoint>,
}

/// Reads the records of a stored run, and warns about records that cannot be read.
pub(super) fn read_stored(store: &Store, run_id: &RunId) -> Result<Vec<InputRecord>> {
    let mut records = Vec::new();
    for (seq, stored) in store.records_or_damage(run_id.as_str(), 0, usize::MAX)? {
        match stored {
            Ok(stored) => {
                let source = Some(stored.source.clone());
                let decision_point = stored.decision_point;
                let record = stored.into_record();
                records.push(InputRecord { record, source, decision_point });
            }
            Err(error) => warn(&format!("skipped record {seq}: {error}")),
        }
    }
    Ok(records)
}

/// Reads a run from a file, or from standard input if `file` is `None` or `-`. Text that starts
/// with `{` is parsed as JSON lines, other text as notation.
pub(super) fn read_file(file: Option<&Path>) -> Result<Vec<InputRecord>> {
    let (name, bytes) = read_bytes(file)?;
    let expected = "expected records as JSON lines, or notation";
    let text =
        String::from_utf8(bytes).with_context(|| format!("{name} is no text; {expected}"))?;
    let records = if text.trim_start().starts_with('{') {
        parse_records(&text).with_context(|| name.clone())?
    } else {
        let records = parse_notation(&text).with_context(|| name.clone())?;
        let without_source = |record| InputRecord { record, source: None, decision_point: None };
        records.into_iter().map(without_source).collect()
    };
    if records.is_empty() {
        bail!("{name} contains no records; {expected}");
    }
    Ok(records)
}

fn read_bytes(file: Option<&Path>) -> Result<(String, Vec<u8>)> {
    match file {
        Some(path) if path != Path::new("-") => {
            let name = path.display().to_string();
            let bytes = fs::read(path).with_context(|| {
                format!("cannot read {name} (for a stored run, use `--run {name}`)")
            })?;
            Ok((name, bytes))
        }
        _ => {
            let mut bytes = Vec::new();
            stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            Ok(("standard input".to_owned(), bytes))
        }
    }
}

fn parse_records(text: &str) -> Result<Vec<InputRecord>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {number} is not a trajectory record"))
        })
        .collect()
}
