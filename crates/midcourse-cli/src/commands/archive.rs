//! `midcourse archive`: copies old runs to Parquet files in a folder or an S3 bucket.

mod selection;
mod source;

use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::{Timestamp, now};
use midcourse_fleet::archive::{Archive, ArchivePlace, ArchiveWriter};
use serde_json::json;

use super::open;
use super::source::StoreArguments;
use crate::display::{counted, escape_control_chars, json_line};
use crate::duration::parse_age;
use crate::terminal::warn;
use selection::{ArchivedEnds, Selection, select};
#[cfg(feature = "fleet")]
use source::FleetRuns;
use source::{Pieces, RunSource, StoredRuns};

/// Maximum number of runs that cannot be archived for which a warning is printed.
const MAX_SHOWN_PROBLEMS: usize = 10;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Archive runs older than this, such as `30d` or `12h`.
    ///
    /// The age of a run is that of its latest record. A run and its child runs are archived
    /// together.
    #[arg(long, value_name = "DURATION", value_parser = parse_older_than)]
    older_than: Age,
    /// Write to this folder or bucket: `DIR` or `s3://BUCKET/PREFIX`.
    ///
    /// Credentials, region and endpoint of a bucket come from the variables AWS_ACCESS_KEY_ID,
    /// AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and so on.
    #[arg(long, value_name = "DIR|s3://…")]
    to: String,
    /// Show what would be archived, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
}

/// A duration as the user wrote it.
#[derive(Clone)]
struct Age {
    text: String,
    duration: Duration,
}

fn parse_older_than(text: &str) -> Result<Age> {
    let duration = parse_age(text);
    let duration =
        duration.with_context(|| format!("invalid duration `{text}`; try `30d` or `12h`"))?;
    Ok(Age { text: text.to_owned(), duration })
}

/// Counts of what is archived.
#[derive(Default)]
struct Totals {
    runs: u64,
    records: u64,
    reports: u64,
}

/// Writes the archive, and returns true if all old runs are in it.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let age = u64::try_from(arguments.older_than.duration.as_millis()).unwrap_or(u64::MAX);
    let moment = Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age));
    #[cfg(feature = "fleet")]
    if let Some(fleet) = arguments.store.fleet()? {
        return archive_runs(&FleetRuns::new(fleet.reader), moment, arguments);
    }
    archive_runs(&StoredRuns(open::to_read()?), moment, arguments)
}

/// Archives the runs of any source.
fn archive_runs(source: &dyn RunSource, moment: Timestamp, arguments: &Arguments) -> Result<bool> {
    let to = &arguments.to;
    let is_new = !ArchivePlace::is_in_object_store(to) && !Path::new(to).exists();
    let known = if is_new { ArchivedEnds::default() } else { archived_ends(to)? };
    let selection = select(source, moment, &known)?;
    for (run_id, why) in selection.damaged.iter().take(MAX_SHOWN_PROBLEMS) {
        warn(&format!("not archived: {run_id}: {why}"));
    }
    let mut totals = Totals::default();
    if arguments.dry_run {
        for run_id in &selection.runs {
            let header = source.header(run_id)?;
            totals.add(&header);
        }
        print(arguments, &selection, &totals, None)?;
        return Ok(selection.damaged.is_empty());
    }
    let written = if selection.runs.is_empty() {
        None
    } else {
        let place = ArchivePlace::create(to)?;
        let mut writer = ArchiveWriter::new(&place);
        let count = u64::try_from(selection.runs.len()).unwrap_or_default();
        let bar = open::progress(count, "archiving");
        for run_id in &selection.runs {
            let header = source.header(run_id)?;
            writer.add(&header, Pieces::new(source, &header))?;
            totals.add(&header);
            bar.inc(1);
        }
        let written = writer.finish()?;
        bar.finish_and_clear();
        written.map(|written| (written.path, written.manifest.bytes))
    };
    print(arguments, &selection, &totals, written)?;
    Ok(selection.damaged.is_empty())
}

/// The ends of the runs that are in the archive already.
fn archived_ends(to: &str) -> Result<ArchivedEnds> {
    let place = ArchivePlace::open(to)?;
    let archive = Archive::open_or_empty(&place)?;
    let mut ends = ArchivedEnds::default();
    for (index, part) in archive.parts().enumerate() {
        for run in archive.runs(index, part)? {
            ends.insert((run.run_id, run.end.link));
        }
    }
    Ok(ends)
}

impl Totals {
    fn add(&mut self, header: &midcourse::RunHeader) {
        let end = header.end();
        self.runs = self.runs.saturating_add(1);
        self.records = self.records.saturating_add(end.records);
        self.reports = self.reports.saturating_add(end.reports);
    }
}

/// `written` is the path of the manifest and the size of all other files.
fn print(
    arguments: &Arguments,
    selection: &Selection,
    totals: &Totals,
    written: Option<(String, u64)>,
) -> Result<()> {
    let mut out = stdout().lock();
    let Totals { runs, records, reports } = *totals;
    let archived = selection.already_archived;
    if arguments.json {
        let damaged = selection.damaged.iter();
        let damaged: Vec<_> =
            damaged.map(|(run_id, why)| json!({"run_id": run_id, "problem": why})).collect();
        let (manifest, bytes) = written.unzip();
        let line = json!({"to": arguments.to, "dry_run": arguments.dry_run, "runs": runs,
                          "records": records, "reports": reports, "bytes": bytes,
                          "manifest": manifest, "already_archived": archived,
                          "not_archived": damaged});
        writeln!(out, "{}", json_line(&line))?;
        return Ok(());
    }
    let to = escape_control_chars(&arguments.to);
    match written {
        Some((manifest, bytes)) => {
            let size = size(bytes);
            let (runs, records) = (counted(runs, "run"), counted(records, "record"));
            writeln!(out, "Archived {runs}, {records} ({size}) in {to}: {manifest}")?;
        }
        None if runs > 0 => {
            let (runs, records) = (counted(runs, "run"), counted(records, "record"));
            writeln!(out, "{runs}, {records} would be archived in {to}.")?;
        }
        None => writeln!(out, "No runs are to be archived.")?,
    }
    if archived > 0 {
        let verb = if archived == 1 { "is" } else { "are" };
        writeln!(out, "{} {verb} in the archive already.", counted(archived, "run"))?;
    }
    let problems = selection.damaged.len();
    if problems > 0 {
        let next = match arguments.store.is_fleet() {
            true => "see above",
            false => "run `midcourse verify` for details, and `midcourse repair`",
        };
        let verb = if problems == 1 { "was" } else { "were" };
        writeln!(out, "{} {verb} not archived; {next}.", counted(problems, "run"))?;
    } else if !arguments.dry_run && runs.saturating_add(archived) > 0 {
        let age = &arguments.older_than.text;
        match arguments.store.is_fleet() {
            true => writeln!(
                out,
                "They are still in the fleet; `midcourse fleet prune ADDRESS --older-than {age}` drops \
                 old days of all projects."
            )?,
            false => writeln!(
                out,
                "They are still in the store; `midcourse prune --older-than {age}` removes them."
            )?,
        }
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
