//! Reads the hook's input: the payload on standard input, and the end of the host's transcript.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, stdin};
use std::path::Path;

/// Maximum length of a payload, in bytes. A longer payload is not decoded.
const MAX_PAYLOAD_LEN: u64 = 8 * 1024 * 1024;

/// How many bytes are kept of a payload that is longer than `MAX_PAYLOAD_LEN`.
const TRUNCATED_LEN: usize = 64 * 1024;

/// How many bytes at the end of a transcript are read.
const MAX_TAIL_LEN: u64 = 128 * 1024;

/// Reads the payload from standard input. If the payload is too long, returns only its beginning
/// and adds a warning. Always reads to the end, because a host may fail if it cannot write the
/// whole payload.
pub(super) fn read_payload(warnings: &mut Vec<String>) -> std::io::Result<Vec<u8>> {
    let mut input = stdin().lock();
    let mut bytes = Vec::new();
    input.by_ref().take(MAX_PAYLOAD_LEN).read_to_end(&mut bytes)?;
    let rest = std::io::copy(&mut input, &mut std::io::sink())?;
    if rest > 0 {
        bytes.truncate(TRUNCATED_LEN);
        let length = MAX_PAYLOAD_LEN.saturating_add(rest);
        warnings.push(format!("a payload of {length} bytes is too long; kept the first 64 KiB"));
    }
    Ok(bytes)
}

/// Reads the last `MAX_TAIL_LEN` bytes of a file; `None` if it cannot be read or is not a regular
/// file.
pub(super) fn read_tail(path: &Path) -> Option<Vec<u8>> {
    // Check that the path is a regular file, because opening a named pipe could block forever.
    let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_TAIL_LEN))).ok()?;
    let mut tail = Vec::new();
    file.take(MAX_TAIL_LEN).read_to_end(&mut tail).ok()?;
    Some(tail)
}
