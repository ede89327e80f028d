//! Session files of all formats. The first line of the input is the name of the format; its first byte
//! chooses one if there is no such format.

use std::path::Path;

use midcourse::ForeignRecord;

use super::{NOW, check_engine, check_stored};
use crate::session_file::SessionFile;
use crate::session_format::{FORMATS, SessionFormat, read_stream};

pub(crate) fn check(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (name, bytes) = (&data[..end], &data[end + 1..]);
    let any = || FORMATS.get(usize::from(*name.first()?) % FORMATS.len());
    let named = std::str::from_utf8(name).ok().and_then(SessionFormat::named);
    let Some(format) = named.or_else(any) else { return };
    let records = read(Some(format), bytes);
    assert_eq!(records, read(Some(format), bytes), "reading is deterministic");
    assert!(records.len() <= bytes.len(), "{} records of {} bytes", records.len(), bytes.len());
    let events = || records.iter().flat_map(|record| &record.events);
    events().for_each(|event| check_stored(&event.payload));
    check_engine(events().map(|event| &event.payload));
    // Recognising the format must accept the same bytes.
    read(None, bytes);
}

fn read(format: Option<&'static SessionFormat>, bytes: &[u8]) -> Vec<ForeignRecord> {
    let mut records = Vec::new();
    let file = SessionFile { path: Path::new("rollout-1.jsonl"), modified: NOW };
    // An unknown format and an empty file are errors.
    let _ = read_stream(bytes, &file, format, |found, _| {
        records.append(found);
        Ok(())
    });
    records
}
