//! Bodies as they were before they were compressed for the way.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// The most that a body may become: what is small on the way may be huge.
const LENGTH_MAX: u64 = 64 * 1024 * 1024;

/// The body, as far as it can be read; nothing, if it is in a form that is not known.
pub(super) fn plain(bytes: Vec<u8>, encoding: Option<&str>) -> Option<Vec<u8>> {
    match encoding.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") => Some(bytes),
        Some("gzip" | "x-gzip") => Some(as_far(MultiGzDecoder::new(bytes.as_slice()))),
        // Some send it with the header of its name, some without.
        Some("deflate") => {
            let read = as_far(ZlibDecoder::new(bytes.as_slice()));
            let is_read = !read.is_empty() || bytes.is_empty();
            Some(if is_read { read } else { as_far(DeflateDecoder::new(bytes.as_slice())) })
        }
        Some("br") => {
            Some(as_far(brotli_decompressor::Decompressor::new(bytes.as_slice(), 16 * 1024)))
        }
        Some("zstd") => Some(as_far(zstd::Decoder::new(bytes.as_slice()).ok()?)),
        Some(_) => None,
    }
}

/// What can be read: of a stream that was cut off, the beginning.
fn as_far(input: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    let _ = input.take(LENGTH_MAX).read_to_end(&mut out);
    out
}
