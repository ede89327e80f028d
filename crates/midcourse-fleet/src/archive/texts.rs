//! The long texts of a part: numbering them when it is written, and finding them when it is read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use midcourse::ChainBody;

use super::error::ArchiveError;
use super::rows::{BODY_COLUMNS, read_body};
use super::table::TableReader;

/// Texts longer than this are not decompressed. The store keeps no text that long.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// The text in a zstd frame, if its hash is the right one, so that the column `text` never shows
/// something else than what was recorded. Its compressed bytes are archived in any case.
pub(super) fn readable_text(zstd: &[u8], length: Option<u64>, hash: &[u8; 32]) -> Option<String> {
    let limit = length.unwrap_or(MAX_TEXT_BYTES);
    if limit > MAX_TEXT_BYTES {
        return None;
    }
    let mut text = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(zstd).ok()?;
    decoder.take(limit.saturating_add(1)).read_to_end(&mut text).ok()?;
    (blake3::hash(&text).as_bytes() == hash)
        .then_some(text)
        .and_then(|text| String::from_utf8(text).ok())
}

/// Gives each text of a part a number. A text that occurs again gets the number that it has.
#[derive(Default)]
pub(super) struct TextIds(HashMap<([u8; 32], [u8; 32]), i64>);

impl TextIds {
    /// The number of a text, and whether it is new. One text may have been compressed in two ways by
    /// two releases, and a copy must have the bytes of its original: such texts are different here.
    pub(super) fn of(&mut self, body: &ChainBody) -> (i64, bool) {
        let next = i64::try_from(self.0.len()).unwrap_or(i64::MAX);
        let key = (body.hash, *blake3::hash(&body.zstd).as_bytes());
        let id = *self.0.entry(key).or_insert(next);
        (id, id == next)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The compressed texts of a part, in a temporary file: a part may have more texts than fit into
/// memory, and a record may refer to any of those before it.
pub(super) struct Texts {
    file: File,
    /// Where the text of each number is: its offset and length.
    places: Vec<(u64, usize)>,
}

impl Texts {
    /// Copies the texts of the table `bodies` to a temporary file.
    pub(super) fn read(table: File, file: File) -> Result<Self, ArchiveError> {
        let mut rows = TableReader::new(table, &BODY_COLUMNS)?;
        let mut to = std::io::BufWriter::new(file);
        let mut places = Vec::new();
        let mut offset = 0_u64;
        while let Some(row) = rows.next_row()? {
            let (id, zstd) = read_body(row)?;
            if usize::try_from(id) != Ok(places.len()) {
                return Err(ArchiveError::damaged("the texts are not in order".to_owned()));
            }
            to.write_all(zstd.data()).map_err(ArchiveError::temporary)?;
            places.push((offset, zstd.len()));
            offset = offset.saturating_add(u64::try_from(zstd.len()).unwrap_or(u64::MAX));
        }
        let file = to.into_inner().map_err(|error| ArchiveError::temporary(error.into_error()))?;
        Ok(Self { file, places })
    }

    /// The compressed bytes of a text.
    pub(super) fn get(&mut self, id: i64) -> Result<Vec<u8>, ArchiveError> {
        let place = usize::try_from(id).ok().and_then(|id| self.places.get(id)).copied();
        let missing = || ArchiveError::damaged(format!("the text {id} is missing"));
        let (offset, length) = place.ok_or_else(missing)?;
        let mut zstd = vec![0; length];
        self.file.seek(SeekFrom::Start(offset)).map_err(ArchiveError::temporary)?;
        self.file.read_exact(&mut zstd).map_err(ArchiveError::temporary)?;
        Ok(zstd)
    }
}
