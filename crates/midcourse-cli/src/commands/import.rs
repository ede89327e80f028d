//! `midcourse import`: stores runs from files, in any format that `session_format` knows, and from
//! archives.

mod archives;
mod recorded_calls;

use std::collections::{BTreeMap, HashSet};
use std::io::{Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use midcourse::{ForeignRecord, Imported, Importer, RunId, TrajectoryPayload, now};
use serde_json::{Value, json};

use super::input_files::{InputFile, find_session_files};
use super::{columns, open};
use crate::display::one_line;
use crate::session_file::{Counts, SessionFile};
use crate::session_format::{
    FORMATS, FileReport, ReadError, SessionFormat, read_file, read_stream,
};
use crate::terminal::warn;
use archives::ArchiveTotal;
use recorded_calls::RecordedCalls;

/// Records are imported in transactions of about this many records.
const BATCH_RECORDS: usize = 500;

/// Maximum number of problems for which a warning is printed. Further problems are only counted.
const MAX_SHOWN_PROBLEMS: usize = 5;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Import these files, and session files in these directories; `-` is standard input.
    ///
    /// A directory that `midcourse archive` wrote, or an address `s3://BUCKET/PREFIX`, is an archive,
    /// whose runs are stored exactly as they were.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Read files of this format; `auto` recognises it.
    #[arg(long, default_value = "auto", value_parser = parse_format, long_help = format_help())]
    format: FormatChoice,
    /// List every kind of line, and what became of it.
    #[arg(long)]
    kinds: bool,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// `None`: recognise the format of each file.
#[derive(Clone, Copy)]
pub(super) struct FormatChoice(pub(super) Option<&'static SessionFormat>);

pub(super) fn parse_format(name: &str) -> Result<FormatChoice> {
    let names = || FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    match SessionFormat::named(name) {
        Some(format) => Ok(FormatChoice(Some(format))),
        None if name == "auto" => Ok(FormatChoice(None)),
        None => bail!("unknown format; use auto or one of: {}", names()),
    }
}

/// The help text of `--format`, with every format.
pub(super) fn format_help() -> String {
    let line = |format: &SessionFormat| format!("\n  {:17}  {}", format.name, format.about);
    let formats: String = FORMATS.iter().map(line).collect();
    format!("Read files of this format; `auto` recognises it:{formats}")
}

/// What was read from all files of one format.
#[derive(Default)]
struct FormatTotal {
    files: u64,
    counts: Counts,
}

#[derive(Default)]
struct Total {
    imported: Imported,
    formats: BTreeMap<&'static str, FormatTotal>,
    runs: HashSet<RunId>,
    runs_with_calls: HashSet<RunId>,
    recorded_calls: RecordedCalls,
    /// Files in directories whose format is not known.
    unrecognised: Vec<PathBuf>,
    problems: usize,
    archives: Option<ArchiveTotal>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let (archives, paths) = archives::split(&arguments.paths);
    let files = find_session_files(&paths)?;
    let mut store = open::to_write()?;
    let mut total = Total::default();
    if !archives.is_empty() {
        let imported = archives::import(&archives, &mut store)?;
        imported.warn(MAX_SHOWN_PROBLEMS);
        total.archives = Some(imported);
    }
    let bytes = files.iter().map(InputFile::len).sum();
    let bar = open::progress(bytes, "importing");
    let mut importer = store.importer();
    for file in &files {
        let mut batch = Batch { importer: &mut importer, records: Vec::new(), total: &mut total };
        let take = |records: &mut Vec<ForeignRecord>, bytes: u64| {
            bar.inc(bytes);
            Ok(batch.add(records)?)
        };
        let format = arguments.format.0;
        let read = if file.path == Path::new("-") {
            let session = SessionFile { path: &file.path, modified: now() };
            read_stream(stdin().lock(), &session, format, take)
        } else {
            read_file(&file.path, format, take)
        };
        let name = file.path.display();
        match read {
            Ok(report) => {
                batch.flush()?;
                total.add_file(&file.path, &report);
            }
            Err(ReadError::UnknownFormat | ReadError::Empty) if file.is_in_directory => {
                total.unrecognised.push(file.path.clone());
            }
            Err(ReadError::Caller(error)) => return Err(anyhow::Error::from_boxed(error)),
            Err(error) => bail!("{name}: {error}"),
        }
    }
    bar.finish_and_clear();
    if !paths.is_empty() {
        total.check()?;
    }
    if arguments.json {
        writeln!(stdout().lock(), "{}", total.json())?;
    } else {
        if let Some(archives) = &total.archives {
            writeln!(stdout().lock(), "{}", archives.line())?;
        }
        if !paths.is_empty() {
            total.print(arguments.kinds)?;
        }
    }
    total.archives.map_or(Ok(()), |archives| archives.check())
}

/// Records that have been read and not stored yet.
struct Batch<'a, 's> {
    importer: &'a mut Importer<'s>,
    records: Vec<ForeignRecord>,
    total: &'a mut Total,
}

impl Batch<'_, '_> {
    fn add(&mut self, records: &mut Vec<ForeignRecord>) -> Result<()> {
        self.records.append(records);
        if self.records.len() >= BATCH_RECORDS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let mut records = std::mem::take(&mut self.records);
        for event in records.iter().flat_map(|record| &record.events) {
            if !self.total.runs.contains(&event.run.run_id) {
                self.total.runs.insert(event.run.run_id.clone());
            }
            if matches!(event.payload, TrajectoryPayload::ToolStarted { .. })
                && !self.total.runs_with_calls.contains(&event.run.run_id)
            {
                self.total.runs_with_calls.insert(event.run.run_id.clone());
            }
        }
        for event in records.iter_mut().flat_map(|record| &mut record.events) {
            self.total.recorded_calls.rename(event)?;
        }
        let Imported { new, duplicates, merged, conflicts, renumbered } =
            self.importer.import(records)?;
        let imported = &mut self.total.imported;
        imported.new += new;
        imported.duplicates += duplicates;
        imported.merged += merged;
        imported.conflicts += conflicts;
        imported.renumbered += renumbered;
        Ok(())
    }
}

impl Total {
    fn add_file(&mut self, path: &Path, report: &FileReport) {
        let total = self.formats.entry(report.format.name).or_default();
        total.files += 1;
        total.counts.add_all(&report.counts);
        for (line, problem) in &report.problems {
            self.problems += 1;
            if self.problems <= MAX_SHOWN_PROBLEMS {
                let path = path.display();
                warn(&match line {
                    // About the file as a whole.
                    0 => format!("{path}: {problem}"),
                    line => format!("{path}:{line}: {problem}"),
                });
            }
        }
    }

    /// Fails if there were lines and none of them could be read.
    fn check(&self) -> Result<()> {
        let (unknown, invalid) = self.unused();
        if self.runs.is_empty() && unknown + invalid > 0 {
            let formats: Vec<&str> = self.formats.keys().copied().collect();
            bail!(
                "none of the {} lines could be read as {}; name another format with --format",
                unknown + invalid,
                formats.join(" or ")
            );
        }
        if self.runs.is_empty() && self.formats.is_empty() {
            match self.unrecognised.first() {
                Some(first) => bail!("{}: {}", first.display(), ReadError::UnknownFormat),
                None => bail!("these directories contain no session files"),
            }
        }
        Ok(())
    }

    fn unused(&self) -> (u64, u64) {
        let totals = self.formats.values().map(|format| format.counts.total());
        totals.fold((0, 0), |sum, total| (sum.0 + total.unknown, sum.1 + total.invalid))
    }

    fn print(&self, with_kinds: bool) -> Result<()> {
        let mut out = stdout().lock();
        let Imported { new, duplicates, merged, conflicts, renumbered } = self.imported;
        let runs = self.runs.len();
        for (name, format) in &self.formats {
            let files = format.files;
            writeln!(out, "Read {files} {} as {name}.", plural(files, "file", "files"))?;
        }
        let of_runs = format!("of {runs} {}", if runs == 1 { "run" } else { "runs" });
        writeln!(out, "Imported {new} records {of_runs}; {duplicates} were already stored.")?;
        let (unknown, invalid) = self.unused();
        let without_calls = u64::try_from(runs - self.runs_with_calls.len()).unwrap_or_default();
        for (count, meaning) in [
            (without_calls, "runs without a tool call"),
            (merged, "merged into stored records that missed some fields"),
            (conflicts, "conflicting duplicates; kept the stored version"),
            (
                renumbered,
                "stored with another seq, because the stored run has grown or the file has gaps",
            ),
            (invalid, "lines or parts that could not be read, or not to their end"),
            (unknown, "lines or parts of a kind that midcourse does not know (see --kinds)"),
        ] {
            if count > 0 {
                writeln!(out, "{count:>6} {meaning}")?;
            }
        }
        if let Some(first) = self.unrecognised.first() {
            let (count, first) = (self.unrecognised.len(), one_line(&first.to_string_lossy(), 100));
            writeln!(
                out,
                "{count:>6} files whose format is not known were left out, such as {first}"
            )?;
        }
        if with_kinds {
            for (name, format) in &self.formats {
                writeln!(out, "\n{name}:")?;
                print_kinds(&mut out, &format.counts)?;
            }
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let Imported { new, duplicates, merged, conflicts, renumbered } = self.imported;
        let (unknown, invalid) = self.unused();
        let formats: serde_json::Map<String, Value> = self
            .formats
            .iter()
            .map(|(name, format)| {
                let kinds: serde_json::Map<String, Value> = format
                    .counts
                    .iter()
                    .map(|(kind, counts)| {
                        let value = json!({"used": counts.used, "ignored": counts.ignored,
                                           "unknown": counts.unknown, "invalid": counts.invalid});
                        (kind.to_owned(), value)
                    })
                    .collect();
                ((*name).to_owned(), json!({"files": format.files, "kinds": kinds}))
            })
            .collect();
        let unrecognised: Vec<String> =
            self.unrecognised.iter().map(|path| path.display().to_string()).collect();
        let mut json = json!({"new": new, "duplicate": duplicates, "merged": merged, "conflict": conflicts,
               "renumbered": renumbered, "unreadable": invalid, "unknown": unknown,
               "runs": self.runs.len(), "formats": formats, "unrecognised_files": unrecognised});
        if let (Some(archives), Some(json)) = (&self.archives, json.as_object_mut()) {
            json.insert("archives".to_owned(), archives.json());
        }
        json
    }
}

const fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn print_kinds(out: &mut impl std::io::Write, counts: &Counts) -> Result<()> {
    let mut table = columns::table(["KIND", "USED", "IGNORED", "UNKNOWN", "INVALID"]);
    let cell = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    for (kind, counts) in counts.iter() {
        let counts = [counts.used, counts.ignored, counts.unknown, counts.invalid].map(cell);
        table.add_row(std::iter::once(one_line(kind, 60)).chain(counts));
    }
    columns::print(out, table, 1..5)
}
