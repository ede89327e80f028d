//! `midcourse import`: stores runs from files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use crate::formats::events::{ParsedRun, parse_run};
use crate::formats::records::{LineDefaults, parse_line};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use midcourse::{Channel, ForeignRecord, Imported, Source, Store, Timestamp, now};
use serde_json::json;

use super::input_line::read_line;
use super::open;
use crate::terminal::warn;

/// Records are imported in transactions of about this many records. A run in the `events` format is
/// never split, so a transaction can be larger.
const BATCH_RECORDS: usize = 500;

/// Maximum number of invalid lines for which a warning is printed. Further invalid lines are only
/// counted.
const MAX_SHOWN_ERRORS: u64 = 5;

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Trajectory records, one JSON object per line.
    Records,
    /// Runs of any agent, one JSON object per line (see docs/measuring.md).
    Events,
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Import these files; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Read files of this format.
    #[arg(long, value_enum, default_value = "records")]
    format: Format,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Total {
    imported: Imported,
    /// Number of lines that could not be parsed completely.
    unreadable: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut readers: Vec<(String, Box<dyn BufRead>)> = Vec::new();
    for file in &arguments.files {
        let name = file.display().to_string();
        if file == Path::new("-") {
            readers.push((name, Box::new(stdin().lock())));
        } else {
            let file = File::open(file).with_context(|| format!("cannot read {name}"))?;
            readers.push((name, Box::new(BufReader::new(file))));
        }
    }
    let mut store = open::to_write()?;
    let mut total = Total::default();
    for (name, reader) in readers {
        import_file(&mut store, reader, &name, arguments.format, &mut total)?;
    }
    let Imported { new, duplicates, merged, conflicts, renumbered } = total.imported;
    let read = new.saturating_add(duplicates).saturating_add(merged).saturating_add(conflicts);
    anyhow::ensure!(
        read > 0 || total.unreadable == 0,
        "none of the {} lines could be read; check `--format`",
        total.unreadable
    );
    let mut out = stdout().lock();
    if arguments.json {
        let line = json!({"new": new, "duplicate": duplicates, "merged": merged,
                          "conflict": conflicts,
                          "renumbered": renumbered, "unreadable": total.unreadable});
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "Imported {new} records; {duplicates} were already stored.")?;
    for (count, meaning) in [
        (merged, "merged into stored records that missed some fields"),
        (conflicts, "conflicting duplicates; kept the stored version"),
        (
            renumbered,
            "stored with another seq, because the stored run has grown or the file has gaps",
        ),
        (total.unreadable, "lines not read, or not to their end"),
    ] {
        if count > 0 {
            writeln!(out, "{count:>6} {meaning}")?;
        }
    }
    Ok(())
}

fn import_file(
    store: &mut Store,
    mut reader: Box<dyn BufRead>,
    name: &str,
    format: Format,
    total: &mut Total,
) -> Result<()> {
    let bar = open::progress(0, "importing");
    let mut line_keys = LineKeys::default();
    let now = now();
    let mut batch = Vec::new();
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let read = read_line(&mut reader, &mut bytes);
        let is_end = !read.with_context(|| format!("cannot read {name}"))?;
        if batch.len() >= BATCH_RECORDS || is_end {
            bar.inc(u64::try_from(batch.len()).unwrap_or_default());
            add(&mut total.imported, store.import(std::mem::take(&mut batch))?);
        }
        if is_end {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let problem = match format {
            Format::Records => match parse_record(&bytes, now) {
                Ok(mut record) => {
                    line_keys.assign(&mut record, &bytes);
                    batch.push(record);
                    None
                }
                Err(error) => Some(format!("skipped: {error:#}")),
            },
            Format::Events => {
                let run = parse_run(&bytes, now, number);
                let problem = parse_problem(&run);
                if !run.is_empty() {
                    batch.extend(run.into_records());
                }
                problem
            }
        };
        if let Some(problem) = problem {
            total.unreadable += 1;
            if total.unreadable <= MAX_SHOWN_ERRORS {
                warn(&format!("{name}:{number}: {problem}"));
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn parse_record(line: &[u8], at: Timestamp) -> Result<ForeignRecord> {
    let defaults = LineDefaults {
        run_id: None,
        source: Source::new("import", Channel::Import),
        at,
        // A record that names no version has the format from before there were versions.
        schema_version: 0,
        decision_point: None,
    };
    let line = std::str::from_utf8(line).context("not valid UTF-8")?;
    Ok(parse_line(line.trim(), &defaults)?)
}

/// Describes which parts of a run could not be parsed; `None` if the whole run was parsed.
fn parse_problem(run: &ParsedRun) -> Option<String> {
    match (&run.parse_error, run.skipped_events) {
        (None, 0) => None,
        (None, skipped) => Some(format!("skipped {skipped} invalid events")),
        (Some(error), _) => Some(format!("used only what comes before the error: {error}")),
    }
}

/// Gives keys to records without a sequence number, so that importing a file again adds no
/// duplicates. A key consists of a hash of the line and a number, which tells equal lines of a file
/// apart: 1 for the first such line, 2 for the second. The map counts the lines with each hash.
#[derive(Default)]
struct LineKeys(HashMap<u64, u64>);

impl LineKeys {
    fn assign(&mut self, record: &mut ForeignRecord, line: &[u8]) {
        if record.seq.is_some() {
            return;
        }
        let hash = xxhash_rust::xxh3::xxh3_64(line.trim_ascii());
        let count = self.0.entry(hash).or_default();
        *count += 1;
        for event in record.events.iter_mut().filter(|event| event.fact.is_none()) {
            event.fact = Some(format!("line:{hash:x}:{count}").into());
        }
    }
}

fn add(total: &mut Imported, more: Imported) {
    total.new += more.new;
    total.duplicates += more.duplicates;
    total.merged += more.merged;
    total.conflicts += more.conflicts;
    total.renumbered += more.renumbered;
}
