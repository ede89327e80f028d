//! `midcourse import`: runs that were recorded elsewhere.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use crate::formats::events::{ForeignRun, read_run};
use crate::formats::records::{LineDefaults, read_line};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use midcourse::{ForeignRecord, Imported, Source, Store, Timestamp, now};
use serde_json::json;

use super::{line, open};
use crate::terminal::warn;

/// Lines taken in with one commit.
const PAGE: usize = 500;

/// Complaints shown; the rest is counted.
const SHOWN: u64 = 5;

/// How the files are written.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Trajectory records, one JSON object a line.
    Records,
    /// Runs in the neutral format, one JSON object a line.
    Events,
}

/// Which files.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The files; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The format of the files.
    #[arg(long, value_enum, default_value = "records")]
    format: Format,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Sum {
    imported: Imported,
    unread: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut readers: Vec<(String, Box<dyn BufRead>)> = Vec::new();
    for file in &arguments.files {
        let name = file.display().to_string();
        if file == Path::new("-") {
            readers.push((name, Box::new(stdin().lock())));
        } else {
            let file = File::open(file).with_context(|| format!("{name} cannot be read"))?;
            readers.push((name, Box::new(BufReader::new(file))));
        }
    }
    let mut store = open::to_write()?;
    let mut sum = Sum::default();
    for (name, reader) in readers {
        read(&mut store, reader, &name, arguments.format, &mut sum)?;
    }
    let Imported { new, duplicates: known, merged: filled, conflicts: diverged, renumbered } =
        sum.imported;
    let read = new.saturating_add(known).saturating_add(filled).saturating_add(diverged);
    anyhow::ensure!(
        read > 0 || sum.unread == 0,
        "none of the {} lines could be read: give trajectory records, one JSON object a line",
        sum.unread
    );
    let mut out = stdout().lock();
    if arguments.json {
        let line = json!({"new": new, "known": known, "filled": filled, "diverged": diverged,
                          "renumbered": renumbered, "unread": sum.unread});
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "{new} records imported, {known} were known.")?;
    for (count, words) in [
        (filled, "known records gained something that was missing"),
        (diverged, "known records were told differently; the first telling stands"),
        (
            renumbered,
            "records have another number than in the file, because the run had gone on \
                      or the file has holes",
        ),
        (sum.unread, "lines could not be read, or not to their end"),
    ] {
        if count > 0 {
            writeln!(out, "{count} {words}.")?;
        }
    }
    Ok(())
}

/// Reads one file as far as it goes.
fn read(
    store: &mut Store,
    mut reader: Box<dyn BufRead>,
    name: &str,
    format: Format,
    sum: &mut Sum,
) -> Result<()> {
    let bar = open::progress(0, "importing");
    let mut seen = Unnumbered::default();
    let started = now();
    let mut page = Vec::new();
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let read = line::read(&mut reader, &mut bytes);
        let is_end = !read.with_context(|| format!("{name} cannot be read"))?;
        if page.len() >= PAGE || is_end {
            bar.inc(u64::try_from(page.len()).unwrap_or_default());
            add(&mut sum.imported, store.import(std::mem::take(&mut page))?);
        }
        if is_end {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let complaint = match format {
            Format::Records => match read_record(&bytes, started) {
                Ok(mut record) => {
                    seen.name(&mut record, &bytes);
                    page.push(record);
                    None
                }
                Err(error) => Some(format!("is left out: {error:#}")),
            },
            Format::Events => {
                let run = read_run(&bytes, started, number);
                let complaint = complaint_about(&run);
                if !run.is_nothing() {
                    page.extend(run.into_records());
                }
                complaint
            }
        };
        if let Some(complaint) = complaint {
            sum.unread += 1;
            if sum.unread <= SHOWN {
                warn(&format!("{name}: line {number} {complaint}"));
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn read_record(line: &[u8], at: Timestamp) -> Result<ForeignRecord> {
    let defaults = LineDefaults { run_id: None, source: Source::new("import", "records"), at };
    let line = std::str::from_utf8(line).context("it is not text")?;
    Ok(read_line(line.trim(), &defaults)?)
}

/// What is to be said about a run that was not read whole.
fn complaint_about(run: &ForeignRun) -> Option<String> {
    match (&run.torn, run.unread) {
        (None, 0) => None,
        (None, unread) => Some(format!("has {unread} events that could not be read")),
        (Some(why), _) => Some(format!("is read as far as it goes: {why}")),
    }
}

/// Lines without a number are known the next time by what they say, and the how-manieth to say it.
#[derive(Default)]
struct Unnumbered(HashMap<u64, u64>);

impl Unnumbered {
    fn name(&mut self, record: &mut ForeignRecord, line: &[u8]) {
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

fn add(sum: &mut Imported, more: Imported) {
    sum.new += more.new;
    sum.duplicates += more.duplicates;
    sum.merged += more.merged;
    sum.conflicts += more.conflicts;
    sum.renumbered += more.renumbered;
}
