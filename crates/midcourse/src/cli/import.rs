//! `midcourse import`: runs that were recorded elsewhere.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use midcourse::{ForeignRecord, Imported, LineDefaults, Source, Store, now, read_line};
use serde_json::json;

use super::{open, remark};

/// Lines taken in with one commit.
const PAGE: usize = 500;

/// Complaints shown; the rest is counted.
const SHOWN: u64 = 5;

/// How the files are written.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Trajectory records, one JSON object a line.
    Records,
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
    let Format::Records = arguments.format;
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
        read(&mut store, reader, &name, &mut sum)?;
    }
    let Imported { new, known, filled, diverged, renumbered } = sum.imported;
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
        (sum.unread, "lines could not be read"),
    ] {
        if count > 0 {
            writeln!(out, "{count} {words}.")?;
        }
    }
    Ok(())
}

/// Reads one file as far as it goes.
fn read(store: &mut Store, mut reader: Box<dyn BufRead>, name: &str, sum: &mut Sum) -> Result<()> {
    let defaults =
        LineDefaults { run_id: None, source: Source::new("import", "records"), at: now() };
    let bar = open::progress(0, "importing");
    let mut seen = Unnumbered::default();
    let mut page = Vec::new();
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let read = reader.read_until(b'\n', &mut bytes);
        let is_end = read.with_context(|| format!("{name} cannot be read"))? == 0;
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
        let read = std::str::from_utf8(&bytes)
            .context("it is not text")
            .and_then(|line| Ok(read_line(line.trim(), &defaults)?));
        match read {
            Ok(mut record) => {
                seen.name(&mut record, &bytes);
                page.push(record);
            }
            Err(error) => {
                sum.unread += 1;
                if sum.unread <= SHOWN {
                    remark(&format!("{name}: line {number} is left out: {error:#}"));
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
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
    sum.known += more.known;
    sum.filled += more.filled;
    sum.diverged += more.diverged;
    sum.renumbered += more.renumbered;
}
