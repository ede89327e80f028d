//! Reads a session file piece by piece and passes on what its reader finds.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use midcourse::{ForeignRecord, Timestamp, now};
use serde::de::IgnoredAny;

use super::collection::Collection;
use super::{FORMATS, SessionFormat};
use crate::input_line::read_line;
use crate::session_file::{Counts, Found, Head, SessionFile, Unit};

/// The format of a file is recognised from this many bytes at its beginning.
pub(crate) const HEAD_LEN: usize = 64 << 10;

/// The length of the beginning that is read first, which is enough for most files with lines.
const SHORT_HEAD_LEN: u64 = 16 << 10;

/// Maximum length of a document that is read as a whole, in bytes. The rest of a longer document is
/// left out.
const MAX_DOCUMENT_LEN: u64 = 512 << 20;

/// Maximum number of problems that are described. Further problems are only counted.
const MAX_PROBLEMS: usize = 5;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What was read from a file.
#[derive(Debug)]
pub(crate) struct FileReport {
    pub(crate) format: &'static SessionFormat,
    pub(crate) counts: Counts,
    /// The first problems, each with the number of its line.
    pub(crate) problems: Vec<(u64, String)>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    #[error(
        "cannot tell the format of this file; if it contains runs, name their format with \
         --format (one of: {})",
        format_names()
    )]
    UnknownFormat,
    #[error("the file is empty")]
    Empty,
    #[error("cannot read the database: {0}")]
    Database(#[from] rusqlite::Error),
    /// What the caller does with the records failed.
    #[error(transparent)]
    Caller(TakeError),
}

/// An error of the function that takes the records.
pub(crate) type TakeError = Box<dyn std::error::Error + Send + Sync>;

fn format_names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// The format of a file, from its name and its beginning.
pub(crate) fn format_of_file(path: &Path) -> Result<&'static SessionFormat, ReadError> {
    recognise(path, &read_head(&mut File::open(path)?)?)
}

fn read_head(stream: &mut impl Read) -> Result<Vec<u8>, ReadError> {
    let mut head = Vec::new();
    stream.take(SHORT_HEAD_LEN).read_to_end(&mut head)?;
    // A file with lines is recognised from the first of them.
    let first_line = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    if first_line.is_none_or(|line| serde_json::from_slice::<IgnoredAny>(line).is_err()) {
        let rest = u64::try_from(HEAD_LEN).unwrap_or(u64::MAX).saturating_sub(SHORT_HEAD_LEN);
        stream.take(rest).read_to_end(&mut head)?;
    }
    if head.starts_with(BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
    }
    if head.trim_ascii().is_empty() { Err(ReadError::Empty) } else { Ok(head) }
}

fn recognise(path: &Path, head: &[u8]) -> Result<&'static SessionFormat, ReadError> {
    SessionFormat::of(&Head::new(path, head)).ok_or(ReadError::UnknownFormat)
}

/// Reads a file. Calls `take` after each unit (a line or the document) with the records that were
/// found in it, which `take` must remove, and with the number of bytes read.
pub(crate) fn read_file(
    path: &Path,
    format: Option<&'static SessionFormat>,
    take: impl FnMut(&mut Vec<ForeignRecord>, u64) -> Result<(), TakeError>,
) -> Result<FileReport, ReadError> {
    let file = File::open(path)?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|time| u64::try_from(time.as_millis()).ok());
    let modified = modified.map_or_else(now, Timestamp::from_unix_ms);
    read_stream(file, &SessionFile { path, modified }, format, take)
}

/// Reads from a stream that has the contents of `file`.
pub(crate) fn read_stream(
    mut stream: impl Read,
    file: &SessionFile<'_>,
    format: Option<&'static SessionFormat>,
    mut take: impl FnMut(&mut Vec<ForeignRecord>, u64) -> Result<(), TakeError>,
) -> Result<FileReport, ReadError> {
    let head = read_head(&mut stream)?;
    let format = format.map_or_else(|| recognise(file.path, &head), Ok)?;
    let (unit, collection) = match format.unit {
        Unit::LineOrDocument => (document_or_line(&head), None),
        Unit::Collection => (Unit::Document, Collection::of(file.path, &head)),
        unit => (unit, None),
    };
    let mut input = BufReader::with_capacity(1 << 16, Cursor::new(head).chain(stream));
    let mut reader = format.reader(file);
    let mut found = Found::default();
    let mut problems = Vec::new();
    let mut report = |number: u64, found: &mut Found| {
        if let Some(problem) = found.problem.take()
            && problems.len() < MAX_PROBLEMS
        {
            problems.push((number, problem));
        }
    };
    if let Some(collection) = collection {
        let mut number = 0;
        collection.for_each(&mut |piece| {
            number += 1;
            reader.read(piece, &mut found);
            report(number, &mut found);
            take(&mut found.records, u64::try_from(piece.len()).unwrap_or(u64::MAX))
                .map_err(ReadError::Caller)
        })?;
        reader.end(&mut found);
        report(0, &mut found);
        take(&mut found.records, 0).map_err(ReadError::Caller)?;
        return Ok(FileReport { format, counts: found.counts, problems });
    }
    match unit {
        Unit::Document | Unit::LineOrDocument | Unit::Collection => {
            let mut document = Vec::new();
            let read = input.by_ref().take(MAX_DOCUMENT_LEN).read_to_end(&mut document)?;
            if !input.fill_buf()?.is_empty() {
                let limit = MAX_DOCUMENT_LEN >> 20;
                found.invalid("(document)", format!("used only the first {limit} MiB"));
            }
            reader.read(&document, &mut found);
            report(1, &mut found);
            take(&mut found.records, u64::try_from(read).unwrap_or(u64::MAX))
                .map_err(ReadError::Caller)?;
        }
        Unit::Line => {
            let mut line = Vec::new();
            for number in 1.. {
                line.clear();
                if !read_line(&mut input, &mut line)? {
                    break;
                }
                let content = line.trim_ascii();
                if !content.is_empty() {
                    reader.read(content, &mut found);
                }
                if found.problem.is_some() && line.last() != Some(&b'\n') {
                    found.problem = Some("the last line is cut off".to_owned());
                }
                report(number, &mut found);
                take(&mut found.records, u64::try_from(line.len()).unwrap_or(u64::MAX))
                    .map_err(ReadError::Caller)?;
            }
        }
    }
    reader.end(&mut found);
    report(0, &mut found);
    take(&mut found.records, 0).map_err(ReadError::Caller)?;
    let total = found.counts.total();
    if total.used + total.ignored == 0 {
        problems.truncate(MAX_PROBLEMS - 1);
        problems.push((0, format!(
            "found nothing that belongs to the format {} ({}); if the file has another format, name it with --format",
            format.name, format.about
        )));
    }
    Ok(FileReport { format, counts: found.counts, problems })
}

/// The unit of a file that has lines in some releases and is a document in others.
fn document_or_line(head: &[u8]) -> Unit {
    let first = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let is_object =
        |line: &[u8]| serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(line).is_ok();
    if first.is_some_and(is_object) { Unit::Line } else { Unit::Document }
}
