//! Reads the hook's input: the payload on standard input, and the end of the host's transcript.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, stdin};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::path::Path;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(unix)]
use rustix::io::Errno;

/// Maximum length of a payload, in bytes. A longer payload is not decoded.
const MAX_PAYLOAD_LEN: usize = 8 * 1024 * 1024;

/// How many bytes are kept of a payload that is longer than `MAX_PAYLOAD_LEN`.
const TRUNCATED_LEN: usize = 64 * 1024;

const CHUNK_LEN: usize = 64 * 1024;

/// How many bytes at the end of a transcript are read.
const MAX_TAIL_LEN: u64 = 128 * 1024;

/// Some hosts write the payload and do not close the pipe. If the payload is complete, the hook waits
/// no longer than this for the end of standard input.
#[cfg(unix)]
const END_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads the payload from standard input. If the payload is too long, returns only its beginning
/// and adds a warning. Always reads to the end, because a host may fail if it cannot write the
/// whole payload; but a payload that is complete is used even if the host keeps the pipe open.
pub(super) fn read_payload(warnings: &mut Vec<String>) -> std::io::Result<Vec<u8>> {
    let mut input = stdin().lock();
    let mut bytes = Vec::new();
    let mut length = 0_usize;
    let mut chunk = vec![0; CHUNK_LEN];
    while may_read(&input, &bytes)? {
        let read = match input.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        length = length.saturating_add(read);
        if length <= MAX_PAYLOAD_LEN {
            bytes.extend(chunk.iter().take(read));
        } else {
            bytes.truncate(TRUNCATED_LEN);
        }
    }
    if length > MAX_PAYLOAD_LEN {
        bytes.truncate(TRUNCATED_LEN);
        warnings.push(format!("a payload of {length} bytes is too long; kept the first 64 KiB"));
    }
    Ok(bytes)
}

/// Waits until there is more to read, or standard input has ended. Returns `false` if the payload is
/// complete and nothing more came for some time.
#[cfg(unix)]
fn may_read(input: &impl AsFd, bytes: &[u8]) -> std::io::Result<bool> {
    let is_ready = |wait: Option<&Timespec>| loop {
        let mut polled = [PollFd::new(input, PollFlags::IN)];
        match poll(&mut polled, wait) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error)),
        }
    };
    // Checking whether the payload is complete takes time, and most hosts close the pipe at once.
    if is_ready(Some(&Timespec::default()))? {
        return Ok(true);
    }
    let is_complete = bytes.trim_ascii_end().ends_with(b"}")
        && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    is_ready(is_complete.then_some(&END_WAIT))
}

#[cfg(not(unix))]
fn may_read(_: &std::io::StdinLock<'_>, _: &[u8]) -> std::io::Result<bool> {
    Ok(true)
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
