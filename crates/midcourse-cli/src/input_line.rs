//! Reads lines from files that other programs wrote. Lines are cut at a maximum length, so that a
//! huge line cannot use up the memory.

use std::io::{BufRead, Read as _, Result};

/// Maximum length of a line, in bytes. The rest of a longer line is skipped.
const MAX_LINE_LEN: u64 = 64 << 20;

/// Reads the next line into `line`, which must be empty. Returns false at the end of the file.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    let read = reader.by_ref().take(MAX_LINE_LEN).read_until(b'\n', line)?;
    if u64::try_from(read).unwrap_or(u64::MAX) == MAX_LINE_LEN && line.last() != Some(&b'\n') {
        skip_rest_of_line(reader)?;
    }
    Ok(read > 0)
}

fn skip_rest_of_line(reader: &mut impl BufRead) -> Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let length = buffer.len();
        let end = buffer.iter().position(|byte| *byte == b'\n');
        reader.consume(end.map_or(length, |at| at + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}
