//! Reads the files in a zip archive, also if the end of the archive is missing.
//!
//! The files are found by their own headers, one after the other. The directory at the end of the
//! archive is not needed: an archive that is being written has none yet. What is unpacked is limited,
//! whatever the archive says about its sizes.

use std::borrow::Cow;
use std::io::Read;

/// Maximum size of an unpacked file, in bytes.
const MAX_ENTRY_LEN: u64 = 256 << 20;

/// Maximum size of all unpacked files of an archive together, in bytes.
const MAX_TOTAL_LEN: u64 = 2 << 30;

/// The beginning of the header of a file.
const FILE_HEADER: [u8; 4] = *b"PK\x03\x04";

/// The beginning of the directory, which comes after the files.
const DIRECTORY: [u8; 4] = *b"PK\x01\x02";

/// The beginning of the sizes that follow a file whose header does not have them.
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Size of the header of a file, without the name.
const HEADER_LEN: usize = 30;

/// Says that a size is in the extra field `ZIP64` instead.
const IN_EXTRA_FIELD: u64 = 0xffff_ffff;
const ZIP64: u64 = 1;

pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&FILE_HEADER)
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: String,
    method: u64,
    packed: &'a [u8],
}

pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    /// How much may still be unpacked.
    left: u64,
    problem: Option<&'static str>,
}

impl<'a> Archive<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left: MAX_TOTAL_LEN, problem: None }
    }

    /// Why not all files were found; `None` if they were.
    pub(super) const fn problem(&self) -> Option<&'static str> {
        self.problem
    }

    /// The files of the archive, in order.
    pub(super) fn entries(&mut self) -> Vec<Entry<'a>> {
        let mut entries = Vec::new();
        let mut rest = self.bytes;
        while rest.starts_with(&FILE_HEADER) {
            let Some((entry, after)) = self.entry(rest) else {
                self.problem = Some("the archive is cut off");
                return entries;
            };
            entries.push(entry);
            rest = after;
        }
        if !rest.starts_with(&DIRECTORY) {
            self.problem = Some("the archive is cut off or damaged");
        }
        entries
    }

    /// The file at the beginning of `bytes`, and what comes after it.
    fn entry(&mut self, bytes: &'a [u8]) -> Option<(Entry<'a>, &'a [u8])> {
        let (flags, method) = (number(bytes, 6, 2)?, number(bytes, 8, 2)?);
        let (packed_len, len) = (number(bytes, 18, 4)?, number(bytes, 22, 4)?);
        let name_len = usize::try_from(number(bytes, 26, 2)?).ok()?;
        let extra_len = usize::try_from(number(bytes, 28, 2)?).ok()?;
        let (name, after_name) = bytes.get(HEADER_LEN..)?.split_at_checked(name_len)?;
        let (extra, contents) = after_name.split_at_checked(extra_len)?;
        let name = String::from_utf8_lossy(name).into_owned();
        let has_descriptor = flags & 8 != 0;
        if has_descriptor && packed_len == 0 {
            let packed_len = self.packed_len(method, contents)?;
            let (packed, after) = contents.split_at_checked(packed_len)?;
            return Some((Entry { name, method, packed }, after_descriptor(after)));
        }
        let packed_len = match packed_len {
            IN_EXTRA_FIELD => zip64_packed_len(extra, len == IN_EXTRA_FIELD)?,
            len => len,
        };
        let (packed, after) = contents.split_at_checked(usize::try_from(packed_len).ok()?)?;
        let after = if has_descriptor { after_descriptor(after) } else { after };
        Some((Entry { name, method, packed }, after))
    }

    /// The packed size of a file whose header does not have it: where its compressed data ends.
    fn packed_len(&mut self, method: u64, contents: &[u8]) -> Option<usize> {
        if method != 8 {
            return None;
        }
        let mut decoder = flate2::bufread::DeflateDecoder::new(contents);
        self.read(&mut decoder).ok()?;
        usize::try_from(decoder.total_in()).ok()
    }

    pub(super) fn unpack(&mut self, entry: &Entry<'a>) -> Result<Cow<'a, [u8]>, String> {
        match entry.method {
            0 => Ok(Cow::Borrowed(entry.packed)),
            8 => self.read(&mut flate2::bufread::DeflateDecoder::new(entry.packed)).map(Cow::Owned),
            93 => {
                let decoder = zstd::Decoder::with_buffer(entry.packed);
                self.read(&mut decoder.map_err(|error| error.to_string())?).map(Cow::Owned)
            }
            method => Err(format!("unknown compression method {method}")),
        }
    }

    /// Reads all of the stream, within the limits.
    fn read(&mut self, stream: &mut impl Read) -> Result<Vec<u8>, String> {
        let limit = self.left.min(MAX_ENTRY_LEN);
        let mut unpacked = Vec::new();
        let read = stream.take(limit + 1).read_to_end(&mut unpacked);
        let len = u64::try_from(unpacked.len()).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(len);
        match read {
            Err(error) => Err(error.to_string()),
            Ok(_) if len > limit => {
                Err(format!("larger than the limit of {} MiB when unpacked", limit >> 20))
            }
            Ok(_) => Ok(unpacked),
        }
    }
}

/// A number of `len` bytes at a position, the lowest byte first.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

/// The packed size in an extra field. The unpacked size comes before it, if it is there too.
fn zip64_packed_len(mut extra: &[u8], has_len: bool) -> Option<u64> {
    loop {
        let (id, len) = (number(extra, 0, 2)?, usize::try_from(number(extra, 2, 2)?).ok()?);
        let (field, rest) = extra.get(4..)?.split_at_checked(len)?;
        if id == ZIP64 {
            return number(field, if has_len { 8 } else { 0 }, 8);
        }
        extra = rest;
    }
}

/// What comes after the sizes that follow a file. They may begin with a mark, and have 12 or 20 bytes
/// after it.
fn after_descriptor(bytes: &[u8]) -> &[u8] {
    let rest = bytes.strip_prefix(&DESCRIPTOR).unwrap_or(bytes);
    let candidates = [12, 20].into_iter().filter_map(|len| rest.get(len..));
    let is_next = |rest: &&[u8]| rest.starts_with(&FILE_HEADER) || rest.starts_with(&DIRECTORY);
    candidates.into_iter().find(is_next).unwrap_or_default()
}
