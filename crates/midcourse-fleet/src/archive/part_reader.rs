//! Reads the runs of a part, one after the other and each in pieces.

use std::collections::VecDeque;

use midcourse::{ChainEntry, ChainLimit, ChainPosition, ChainReport, RunHeader};

use super::error::ArchiveError;
use super::manifest::PartInfo;
use super::place::ArchivePlace;
use super::rows::{
    RECORD_COLUMNS, REPORT_COLUMNS, RUN_COLUMNS, read_header, read_record, read_report,
};
use super::schema::Table;
use super::table::TableReader;
use super::texts::Texts;

/// Reads a part of an archive. Memory is bounded by the headers of its runs and one piece of a run.
pub struct PartReader {
    headers: VecDeque<RunHeader>,
    records: TableReader,
    reports: TableReader,
    texts: Texts,
    run: Option<OpenRun>,
    /// The next report, if it was read already.
    report: Option<ChainReport>,
}

/// The run that is being read.
struct OpenRun {
    header: RunHeader,
    position: ChainPosition,
    records_left: u64,
    reports_left: u64,
}

/// The headers of the runs of a part.
pub(super) fn read_headers(
    place: &ArchivePlace,
    part: &PartInfo,
) -> Result<VecDeque<RunHeader>, ArchiveError> {
    let mut rows = TableReader::new(place.open_file(part.files.of(Table::Runs))?, &RUN_COLUMNS)?;
    let mut headers = VecDeque::new();
    while let Some(row) = rows.next_row()? {
        headers.push_back(read_header(row)?);
    }
    Ok(headers)
}

impl PartReader {
    pub(super) fn open(place: &ArchivePlace, part: &PartInfo) -> Result<Self, ArchiveError> {
        let open = |table| place.open_file(part.files.of(table));
        Ok(Self {
            headers: read_headers(place, part)?,
            records: TableReader::new(open(Table::Records)?, &RECORD_COLUMNS)?,
            reports: TableReader::new(open(Table::Reports)?, &REPORT_COLUMNS)?,
            texts: Texts::read(open(Table::Bodies)?, place.temporary_file()?)?,
            run: None,
            report: None,
        })
    }

    /// Begins with the next run, and skips what was not read of the one before.
    pub fn next_run(&mut self) -> Result<Option<RunHeader>, ArchiveError> {
        if let Some(run) = self.run.take() {
            for _ in 0..run.records_left {
                self.records.next_row()?;
            }
            let peeked = u64::from(self.report.take().is_some());
            for _ in peeked..run.reports_left {
                self.reports.next_row()?;
            }
        }
        let Some(header) = self.headers.pop_front() else { return Ok(None) };
        self.run = Some(OpenRun {
            position: ChainPosition::start(header.run_id()),
            records_left: header.end().records,
            reports_left: header.end().reports,
            header: header.clone(),
        });
        Ok(Some(header))
    }

    /// The next entries of the present run; none after its last one. Each is checked.
    pub fn next_entries(&mut self, limit: ChainLimit) -> Result<Vec<ChainEntry>, ArchiveError> {
        let mut entries = Vec::new();
        let mut bytes = 0_usize;
        while entries.len() < limit.entries && bytes < limit.bytes {
            let Some(entry) = self.next_entry()? else { break };
            bytes = bytes.saturating_add(entry.size());
            entries.push(entry);
        }
        Ok(entries)
    }

    fn next_entry(&mut self) -> Result<Option<ChainEntry>, ArchiveError> {
        let Some(run) = &mut self.run else { return Ok(None) };
        let run_id = run.header.run_id().clone();
        let wrong = |what: &str| ArchiveError::damaged(format!("the run {run_id} {what}"));
        if self.report.is_none() && run.reports_left > 0 {
            let row = self.reports.next_row()?.ok_or_else(|| wrong("has too few reports"))?;
            let (of, report) = read_report(row)?;
            if of != run_id.as_str() {
                return Err(wrong("has too few reports"));
            }
            self.report = Some(report);
        }
        let entry = if let Some(report) =
            self.report.take_if(|report| report.after <= run.position.records)
        {
            run.reports_left = run.reports_left.saturating_sub(1);
            ChainEntry::Report(report)
        } else if run.records_left > 0 {
            let row = self.records.next_row()?.ok_or_else(|| wrong("has too few records"))?;
            let mut read = read_record(row)?;
            if read.run_id != run_id.as_str() {
                return Err(wrong("has too few records"));
            }
            for (body, id) in read.record.bodies.iter_mut().zip(read.texts) {
                body.zstd = self.texts.get(id)?;
            }
            run.records_left = run.records_left.saturating_sub(1);
            ChainEntry::Record(read.record)
        } else if self.report.is_some() || run.position != run.header.end() {
            return Err(wrong("does not end as its header says"));
        } else {
            return Ok(None);
        };
        run.position =
            run.position.after(&entry).map_err(|why| wrong(&format!("is broken: {why}")))?;
        Ok(Some(entry))
    }
}
