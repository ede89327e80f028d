//! Writes a part: the four tables of runs that started on one day.

use std::fs::File;
use std::io::Write;

use midcourse::{ChainEntry, RunHeader};
use sha2::{Digest as _, Sha256};

use super::error::ArchiveError;
use super::manifest::{FileInfo, PartFiles, PartInfo, VERSION};
use super::place::{ArchivePlace, hex};
use super::rows::{body_row, record_row, report_row, run_row};
use super::schema::Table;
use super::table::TableWriter;
use super::texts::TextIds;

type Writer = TableWriter<HashedFile>;

pub(super) struct PartWriter {
    name: String,
    day: String,
    runs: Writer,
    records: Writer,
    reports: Writer,
    bodies: Writer,
    texts: TextIds,
    counts: Counts,
    bytes: usize,
}

#[derive(Default)]
struct Counts {
    runs: u64,
    records: u64,
    reports: u64,
}

impl PartWriter {
    pub(super) fn new(
        place: &ArchivePlace,
        name: String,
        day: String,
        max_buffered: usize,
    ) -> Result<Self, ArchiveError> {
        let version = VERSION.to_string();
        let metadata = [("midcourse.archive.version", version.as_str()), ("midcourse.part", &name)];
        let open = |table| {
            let file = HashedFile::new(place.temporary_file()?);
            TableWriter::new(file, table, &metadata, max_buffered)
        };
        Ok(Self {
            runs: open(Table::Runs)?,
            records: open(Table::Records)?,
            reports: open(Table::Reports)?,
            bodies: open(Table::Bodies)?,
            texts: TextIds::default(),
            counts: Counts::default(),
            bytes: 0,
            name,
            day,
        })
    }

    pub(super) fn day(&self) -> &str {
        &self.day
    }

    /// About how many bytes the part has before compression.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn runs(&self) -> u64 {
        self.counts.runs
    }

    /// Adds an entry of the run whose header is added next.
    pub(super) fn add_entry(
        &mut self,
        run_id: &str,
        entry: ChainEntry,
    ) -> Result<(), ArchiveError> {
        let added = match entry {
            ChainEntry::Record(record) => {
                let mut texts = Vec::with_capacity(record.bodies.len());
                for body in &record.bodies {
                    let (id, is_new) = self.texts.of(body);
                    if is_new {
                        let row = body_row(&self.name, id, body)?;
                        self.bytes = self.bytes.saturating_add(self.bodies.add(row)?);
                    }
                    texts.push(id);
                }
                self.counts.records = self.counts.records.saturating_add(1);
                self.records.add(record_row(&self.name, run_id, record, texts)?)?
            }
            ChainEntry::Report(report) => {
                self.counts.reports = self.counts.reports.saturating_add(1);
                self.reports.add(report_row(&self.name, run_id, report)?)?
            }
        };
        self.bytes = self.bytes.saturating_add(added);
        Ok(())
    }

    /// Adds the header of a run, after its entries.
    pub(super) fn add_header(&mut self, header: &RunHeader) -> Result<(), ArchiveError> {
        let added = self.runs.add(run_row(&self.name, header)?)?;
        self.bytes = self.bytes.saturating_add(added);
        self.counts.runs = self.counts.runs.saturating_add(1);
        Ok(())
    }

    /// Completes the files and copies them to the place. `placed` gets the path of each file before
    /// it is copied.
    pub(super) fn finish(
        self,
        place: &ArchivePlace,
        placed: &mut Vec<String>,
    ) -> Result<PartInfo, ArchiveError> {
        let (name, day) = (self.name, self.day);
        let mut put = |table: Table, writer: Writer| {
            let (mut file, bytes, sha256) = writer.finish()?.finish();
            let path = format!("{}/day={day}/{name}.parquet", table.name());
            placed.push(path.clone());
            place.put_file(&path, &mut file)?;
            Ok::<_, ArchiveError>(FileInfo { path, bytes, sha256 })
        };
        let files = PartFiles {
            runs: put(Table::Runs, self.runs)?,
            records: put(Table::Records, self.records)?,
            reports: put(Table::Reports, self.reports)?,
            bodies: put(Table::Bodies, self.bodies)?,
        };
        let texts = u64::try_from(self.texts.len()).unwrap_or_default();
        let Counts { runs, records, reports } = self.counts;
        Ok(PartInfo { part: name, day, runs, records, reports, texts, files })
    }
}

/// A file that computes the size and the hash of what is written to it.
struct HashedFile {
    file: File,
    bytes: u64,
    hash: Sha256,
}

impl HashedFile {
    fn new(file: File) -> Self {
        Self { file, bytes: 0, hash: Sha256::new() }
    }

    fn finish(self) -> (File, u64, String) {
        (self.file, self.bytes, hex(&self.hash.finalize()))
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
