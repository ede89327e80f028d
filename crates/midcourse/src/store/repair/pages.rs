//! Reads the pages of a database file and the rows on them. A page in the write-ahead log replaces
//! the page with the same number in the file.
//!
//! Every page is read directly, not through the B-tree that leads to it. So a damaged page loses
//! only its own rows, even if it is the root of a table. Free pages contain old rows and are
//! skipped. Any byte may be damaged: malformed cells are skipped.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::super::log_frames::Frame;

const DATABASE_HEADER: usize = 100;
const TABLE_LEAF: u8 = 0x0d;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;
/// Tables and indexes of the store have fewer columns than this.
const MAX_COLUMNS: usize = 32;
const MAX_ROW_BYTES: usize = 1 << 30;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
    /// A value that the store never writes: a float, or text that is not UTF-8.
    Other,
}

/// The pages of a database.
pub(super) struct Pages<'a> {
    file: RefCell<File>,
    page_size: usize,
    count_in_file: u32,
    /// The number of pages after the last commit. Pages with greater numbers were removed.
    limit: u32,
    over: HashMap<u32, &'a [u8]>,
}

impl<'a> Pages<'a> {
    /// The pages of the database in a file after the commits in these frames.
    pub(super) fn new(
        database: &Path,
        frames: impl IntoIterator<Item = &'a Frame>,
    ) -> io::Result<Self> {
        let mut file = File::open(database)?;
        let mut header = [0; DATABASE_HEADER];
        let is_read = file.read_exact(&mut header).is_ok();
        let mut over = HashMap::new();
        let (mut page_size, mut limit) = (None, u32::MAX);
        for frame in frames {
            limit = frame.committed_pages().unwrap_or(limit);
            page_size = Some(frame.page.len());
            over.insert(frame.page_number, frame.page.as_slice());
        }
        let in_header = match header.get(16..18) {
            Some([0, 1]) => 65_536,
            Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        };
        let is_size = |size: &usize| is_read && size.is_power_of_two() && *size >= 512;
        let page_size =
            page_size.or_else(|| Some(in_header).filter(is_size)).unwrap_or(4096).max(512);
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let count_in_file = u32::try_from(length.div_ceil(page_size)).unwrap_or(u32::MAX);
        Ok(Self { file: RefCell::new(file), page_size, count_in_file, limit, over })
    }

    fn page(&self, number: u32) -> Option<Vec<u8>> {
        if let Some(page) = self.over.get(&number) {
            return Some(page.to_vec());
        }
        if number == 0 || number > self.count_in_file {
            return None;
        }
        let mut page = Vec::with_capacity(self.page_size);
        let start = u64::from(number - 1).checked_mul(u64::try_from(self.page_size).ok()?)?;
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(start)).ok()?;
        let limit = u64::try_from(self.page_size).ok()?;
        file.by_ref().take(limit).read_to_end(&mut page).ok()?;
        page.resize(self.page_size, 0);
        Some(page)
    }

    /// The numbers of all pages. Pages past the end of the file are only in the log. Their numbers
    /// are taken from the log: counting up to a damaged number could take billions of steps.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let (end, limit) = (self.count_in_file, self.limit);
        let in_log = self.over.keys().copied().filter(move |number| *number > end);
        (1..=end).chain(in_log).filter(move |number| *number <= limit)
    }

    /// Calls `row` for every row of a table, with the row's id, and for every entry of an index,
    /// with `None`.
    pub(super) fn each_row(&self, row: &mut dyn FnMut(Option<i64>, Vec<Value>)) {
        let free = self.free_pages();
        for number in self.numbers().filter(|number| !free.contains(number)) {
            let Some(page) = self.page(number) else { continue };
            let Some(cells) = Cells::of(&page, number) else { continue };
            for at in cells.places() {
                if let Some((id, values)) = self.cell(&page, cells.kind, at) {
                    row(id, values);
                }
            }
        }
    }

    /// The pages in SQLite's list of free pages. The list may be damaged, so a page does not count
    /// as free if a B-tree refers to it.
    fn free_pages(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let first = self.page(1).and_then(|page| number_at(&page, 32));
        let mut trunk = first.unwrap_or_default();
        while trunk != 0
            && !free.contains(&trunk)
            && let Some(page) = self.page(trunk)
        {
            free.insert(trunk);
            let count = number_at(&page, 4).and_then(|count| usize::try_from(count).ok());
            let listed = page.get(8..).unwrap_or_default().chunks_exact(4);
            free.extend(listed.take(count.unwrap_or(0)).filter_map(|bytes| number_at(bytes, 0)));
            trunk = number_at(&page, 0).unwrap_or_default();
        }
        if free.is_empty() {
            return free;
        }
        for number in self.numbers().filter(|number| !free.contains(number)).collect::<Vec<_>>() {
            let Some(page) = self.page(number) else { continue };
            let Some(cells) = Cells::of(&page, number) else { continue };
            if matches!(cells.kind, TABLE_INTERIOR | INDEX_INTERIOR) {
                for at in cells.places() {
                    free.remove(&number_at(&page, at).unwrap_or_default());
                }
                free.remove(&number_at(&page, cells.header + 8).unwrap_or_default());
            }
        }
        free
    }

    fn cell(&self, page: &[u8], kind: u8, at: usize) -> Option<(Option<i64>, Vec<Value>)> {
        let mut rest = page.get(at..)?;
        if kind == INDEX_INTERIOR {
            rest = rest.get(4..)?;
        }
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        let id = if kind == TABLE_LEAF { Some(varint(&mut rest)?) } else { None };
        let payload = self.payload(rest, length, kind)?;
        Some((id, values(&payload)?))
    }

    /// Reads the payload of a cell, which may continue on overflow pages.
    fn payload(&self, rest: &[u8], length: usize, kind: u8) -> Option<Vec<u8>> {
        let usable = self.page_size;
        let max = match kind {
            TABLE_LEAF => usable - 35,
            _ => (usable - 12) * 64 / 255 - 23,
        };
        if length <= max {
            return rest.get(..length).map(<[u8]>::to_vec);
        }
        if length > MAX_ROW_BYTES {
            return None;
        }
        let min = (usable - 12) * 32 / 255 - 23;
        let preferred = min + (length - min) % (usable - 4);
        let local = if preferred <= max { preferred } else { min };
        let mut payload = rest.get(..local)?.to_vec();
        let mut next = number_at(rest, local)?;
        let mut seen = HashSet::new();
        while payload.len() < length {
            if !seen.insert(next) {
                return None;
            }
            let page = self.page(next)?;
            let wanted = (length - payload.len()).min(usable - 4);
            payload.extend(page.get(4..4 + wanted)?);
            next = number_at(&page, 0)?;
        }
        Some(payload)
    }
}

/// Where the cells of a page are.
struct Cells<'a> {
    page: &'a [u8],
    kind: u8,
    header: usize,
    count: usize,
}

impl<'a> Cells<'a> {
    fn of(page: &'a [u8], number: u32) -> Option<Self> {
        let header = if number == 1 { DATABASE_HEADER } else { 0 };
        let kind = *page.get(header)?;
        if ![TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR].contains(&kind) {
            return None;
        }
        let count = usize::from(short_at(page, header + 3)?);
        Some(Self { page, kind, header, count })
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        let is_leaf = matches!(self.kind, TABLE_LEAF | INDEX_LEAF);
        let start = self.header + if is_leaf { 8 } else { 12 };
        let pointers = self.page.get(start..).unwrap_or_default().chunks_exact(2);
        // SQLite ignores the bits that would point behind the page, and so does this.
        let mask = self.page.len().saturating_sub(1);
        let places = pointers.take(self.count).filter_map(|bytes| short_at(bytes, 0));
        places.map(move |place| usize::from(place) & mask)
    }
}

/// The values of a row in SQLite's record format; `None` if the payload is malformed.
fn values(payload: &[u8]) -> Option<Vec<Value>> {
    let mut rest = payload;
    let header_length = usize::try_from(varint(&mut rest)?).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..header_length)?;
    let mut rest = payload.get(header_length..)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        if values.len() == MAX_COLUMNS {
            return None;
        }
        let serial_type = varint(&mut types)?;
        let length = match serial_type {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(serial_type).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((serial_type - 12) / 2).ok()?,
            _ => return None,
        };
        let (bytes, behind) = rest.split_at_checked(length)?;
        rest = behind;
        values.push(match serial_type {
            0 => Value::Null,
            1..=6 => Value::Integer(integer(bytes)),
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            7 => Value::Other,
            even if even % 2 == 0 => Value::Blob(bytes.to_vec()),
            _ => String::from_utf8(bytes.to_vec()).map_or(Value::Other, Value::Text),
        });
    }
    Some(values)
}

fn integer(bytes: &[u8]) -> i64 {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if is_negative { -1 } else { 0 };
    bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte))
}

/// Reads a SQLite varint: one to nine bytes with seven bits each, but eight in the ninth.
fn varint(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for place in 0..9 {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        if place == 8 {
            number = number << 8 | u64::from(*byte);
            break;
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number.cast_signed())
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn short_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}
