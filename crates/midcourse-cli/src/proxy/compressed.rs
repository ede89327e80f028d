//! Decompresses request and response bodies for recording.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Maximum size of a decompressed body. Without it, a small compressed body could fill the memory.
const MAX_DECOMPRESSED_BYTES: u64 = 64 * 1024 * 1024;

/// Decompresses a body, or as much of it as is valid. `None` if the encoding is unknown.
pub(super) fn decompress(bytes: Vec<u8>, encoding: Option<&str>) -> Option<Vec<u8>> {
    match encoding.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") => Some(bytes),
        Some("gzip" | "x-gzip") => Some(read_available(MultiGzDecoder::new(bytes.as_slice()))),
        // Some servers send `deflate` with a zlib header, others without it. Try both.
        Some("deflate") => {
            let read = read_available(ZlibDecoder::new(bytes.as_slice()));
            let is_read = !read.is_empty() || bytes.is_empty();
            Some(if is_read { read } else { read_available(DeflateDecoder::new(bytes.as_slice())) })
        }
        Some("br") => {
            let decoder = brotli_decompressor::Decompressor::new(bytes.as_slice(), 16 * 1024);
            Some(read_available(decoder))
        }
        Some("zstd") => Some(read_available(zstd::Decoder::new(bytes.as_slice()).ok()?)),
        Some(_) => None,
    }
}

/// Reads until the end or the first error, because the beginning of a body that was cut off is
/// still worth recording.
fn read_available(input: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    let _ = input.take(MAX_DECOMPRESSED_BYTES).read_to_end(&mut out);
    out
}
