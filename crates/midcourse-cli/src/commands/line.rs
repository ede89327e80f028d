//! Reading one line of a file of runs or records, in bounded room whatever the file.

use std::io::{BufRead, Read as _, Result};

/// The longest line that is read, in bytes; what follows of a longer one is passed over, and the line
/// is torn there.
const LINE_MAX: u64 = 64 << 20;

/// Reads the next line into `line`, which is empty; returns whether there was one.
pub(super) fn read(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', line)?;
    if u64::try_from(read).unwrap_or(u64::MAX) == LINE_MAX && line.last() != Some(&b'\n') {
        pass_over_the_rest(reader)?;
    }
    Ok(read > 0)
}

fn pass_over_the_rest(reader: &mut impl BufRead) -> Result<()> {
    loop {
        let rest = reader.fill_buf()?;
        let length = rest.len();
        let end = rest.iter().position(|byte| *byte == b'\n');
        reader.consume(end.map_or(length, |at| at + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}
