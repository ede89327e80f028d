//! Reads a run to replay: from the store, from a session file, or from a file with records as JSON
//! lines or in notation (a short form for people, such as `bash make -> built`).

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use anyhow::{Context, Result, bail};
use midcourse::{
    DecisionPoint, Event, RunId, RunIdentity, Source, Store, TrajectoryRecord, now, parse_notation,
};
use serde::Deserialize;

use crate::session_file::{Head, SessionFile};
use crate::session_format::{HEAD_LEN, SessionFormat, read_stream};
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

/// Reads a run from a file, or from standard input if `file` is `None` or `-`: a session file of any
/// format, of which `run` names the run if there are several; records as JSON lines; or notation.
pub(super) fn read_file(file: Option<&Path>, run: Option<&str>) -> Result<Vec<InputRecord>> {
    let (name, bytes) = read_bytes(file)?;
    let path = file.unwrap_or(Path::new("-"));
    let format = SessionFormat::of(&Head::new(path, bytes.get(..HEAD_LEN).unwrap_or(&bytes)));
    if let Some(format) = format.filter(|format| run.is_some() || format.name != "records") {
        return read_session(path, &bytes, format, run).with_context(|| name);
    }
    let expected = "expected a session file, records as JSON lines, or notation";
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

/// Reads one run of a session file: `run`, or else the only run that is not of a subagent.
fn read_session(
    path: &Path,
    bytes: &[u8],
    format: &'static SessionFormat,
    run: Option<&str>,
) -> Result<Vec<InputRecord>> {
    let file = SessionFile { path, modified: now() };
    let mut runs: Vec<(RunIdentity, Vec<InputRecord>)> = Vec::new();
    let report = read_stream(bytes, &file, Some(format), |records, _| {
        for event in records.drain(..).filter_map(|record| record.events.into_iter().next()) {
            let index = runs.iter().rposition(|(run, _)| run.run_id == event.run.run_id);
            let index = index.unwrap_or_else(|| {
                runs.push((event.run.clone(), Vec::new()));
                runs.len() - 1
            });
            if let Some((_, records)) = runs.get_mut(index) {
                records.push(input_record(event, records.len()));
            }
        }
        Ok(())
    })?;
    for (line, problem) in report.problems {
        warn(&format!("{}:{line}: {problem}", path.display()));
    }
    let is_chosen = |(identity, _): &(RunIdentity, Vec<InputRecord>)| match run {
        Some(run) => identity.run_id.as_str() == run,
        None => identity.parent_run_id.is_none(),
    };
    let count = runs.len();
    let example = runs.first().map(|(identity, _)| identity.run_id.to_string());
    // The file of a subagent has only its run.
    let is_only = count == 1 && run.is_none();
    let mut chosen = runs.into_iter().filter(|run| is_only || is_chosen(run));
    match (chosen.next(), chosen.next(), run) {
        (Some((_, records)), None, _) => Ok(records),
        (_, _, Some(run)) => bail!("the file has no run `{run}`"),
        _ => bail!(
            "the file has {count} runs; choose one with `--run`, such as `--run {}`",
            example.unwrap_or_default()
        ),
    }
}

fn input_record(event: Event, position: usize) -> InputRecord {
    let seq = u64::try_from(position).unwrap_or(u64::MAX);
    let record = TrajectoryRecord {
        schema_version: event.schema_version,
        run_id: Some(event.run.run_id),
        parent_run_id: event.run.parent_run_id,
        depth: event.run.depth,
        ..TrajectoryRecord::new(seq, event.at, event.payload)
    };
    InputRecord { record, source: Some(event.source), decision_point: event.decision_point }
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
