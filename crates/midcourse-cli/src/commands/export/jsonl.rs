//! Trajectory records as JSON lines, which `midcourse import` reads. All records of a damaged run are
//! marked: some of them may have been changed.

use std::io::Write;

use anyhow::Result;
use midcourse::RunSummary;

use super::{RunSource, record_json};
use crate::display::json_line;

pub(super) fn write(
    source: &mut RunSource<'_>,
    runs: &[RunSummary],
    out: &mut impl Write,
) -> Result<()> {
    for run in runs {
        let is_damaged = source.is_damaged(run);
        source.for_each_record(run, |record, labels| {
            let json = record_json(&record, &labels, is_damaged);
            Ok(writeln!(out, "{}", json_line(&json))?)
        })?;
    }
    Ok(())
}
