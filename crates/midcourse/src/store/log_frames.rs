//! Reads the frames of a write-ahead log one by one, including those after damage.
//!
//! A frame is a header (page number, size of the database after a commit, two salts, two checksums)
//! followed by a page. The checksums of a frame continue those of the frame before it, so SQLite
//! ignores everything after a damaged frame. But every frame stores its checksums. The frame after
//! a damaged one can therefore be checked: its checksums must continue those that the damaged frame
//! stores. If a single bit was flipped, the difference between the stored and the computed
//! checksums shows which bit. The frame is corrected if only one bit explains the difference.

use std::fs;
use std::path::Path;

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The bytes of a frame header that its checksums cover.
const COVERED: usize = 8;
const MAGIC: u32 = 0x377f_0682;
const DEFAULT_PAGE_SIZE: u32 = 4096;

type Checksum = [u32; 2];

/// A frame of the log.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) page_number: u32,
    /// If this frame ends a commit, the number of pages in the database after it; otherwise 0.
    pages_after_commit: u32,
    pub(super) page: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// A flipped bit was corrected, or only the salts or the stored checksums were damaged.
    Corrected,
    Damaged,
}

/// The frames of a write-ahead log.
#[derive(Debug, Clone, Default)]
pub(super) struct LogFrames {
    frames: Vec<Frame>,
    is_header_whole: bool,
}

/// How many frames and commits follow the damage in a log. SQLite stops reading at the damage and
/// ignores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind {
    /// The number of the damaged frame, from 1; 0 for the header of the log.
    pub(super) frame: usize,
    pub(super) frames: usize,
    pub(super) commits: usize,
}

impl LogFrames {
    /// Reads the log in this file. A log that is missing or unreadable has no frames.
    pub(super) fn read(path: &Path) -> Self {
        let is_file = path.metadata().is_ok_and(|found| found.is_file());
        let bytes = if is_file { fs::read(path).unwrap_or_default() } else { Vec::new() };
        Self::parse(&bytes)
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        let Some(header) = bytes.first_chunk::<LOG_HEADER>() else { return Self::default() };
        let header = Header::parse(header);
        let page_size = usize::try_from(header.page_size).unwrap_or(4096);
        let rest = bytes.get(LOG_HEADER..).unwrap_or_default();
        // If the header is unreadable, the salts of the first frame identify the frames of this
        // log.
        let known = header.salts.unwrap_or([word(rest, 8), word(rest, 12)]);
        let mut frames: Vec<Frame> = Vec::new();
        let mut starts = header.starts.clone();
        // The file may end with frames of an older log, which have other salts. `count` excludes
        // them.
        let mut count = 0;
        for bytes in rest.chunks_exact(FRAME_HEADER.saturating_add(page_size)) {
            let Some((head, page)) = bytes.split_first_chunk::<FRAME_HEADER>() else { break };
            let stored = [word(head, 16), word(head, 20)];
            let salts = [word(head, 8), word(head, 12)];
            let sums: Vec<Checksum> =
                starts.iter().map(|start| header.sum_of_frame(*start, head, page)).collect();
            let mut frame = Frame {
                page_number: word(head, 0),
                pages_after_commit: word(head, 4),
                page: page.to_vec(),
                state: State::Damaged,
            };
            let is_of_this_log = is_similar(known, salts);
            let which = sums.iter().position(|sum| *sum == stored).filter(|_| is_of_this_log);
            if let Some(which) = which {
                frame.state = if known == salts { State::Whole } else { State::Corrected };
                // This frame continues a checksum that was computed for the previous frame, not the
                // stored one. So only the stored checksum of the previous frame was damaged.
                if which > 0
                    && let Some(before) = frames.last_mut()
                {
                    before.state = State::Corrected;
                }
                starts = vec![stored];
            } else {
                for sum in sums.iter().filter(|_| is_of_this_log) {
                    if frame.state == State::Damaged {
                        frame.correct(head, *sum, stored, header.is_big_endian);
                    }
                }
                starts = [vec![stored], sums].concat();
                starts.truncate(4);
            }
            frames.push(frame);
            if is_of_this_log {
                count = frames.len();
            }
        }
        frames.truncate(count);
        Self { frames, is_header_whole: header.is_whole }
    }

    /// The frames that SQLite reads: whole ones up to the last commit before any damage.
    pub(super) fn seen_by_sqlite(&self) -> &[Frame] {
        let count = if self.is_header_whole { self.first_damaged() } else { 0 };
        up_to_last_commit(self.frames.get(..count).unwrap_or_default())
    }

    /// The whole and the corrected frames up to the last commit.
    pub(super) fn all_whole(&self) -> impl Iterator<Item = &Frame> {
        up_to_last_commit(&self.frames).iter().filter(|frame| frame.state != State::Damaged)
    }

    /// All frames, including damaged ones, which may contain the only copy of a row.
    pub(super) fn all(&self) -> &[Frame] {
        &self.frames
    }

    /// The commits after the first damage, which SQLite ignores; `None` if there are none.
    pub(super) fn behind_damage(&self) -> Option<Behind> {
        let first = if self.is_header_whole { self.first_damaged() } else { 0 };
        let behind = self.frames.get(first..)?.iter().filter(|frame| frame.state != State::Damaged);
        let (mut frames, mut commits) = (0, 0);
        for frame in behind {
            frames += 1;
            commits += usize::from(frame.pages_after_commit > 0);
        }
        let frame = if self.is_header_whole { first.saturating_add(1) } else { 0 };
        (commits > 0).then_some(Behind { frame, frames, commits })
    }

    /// Whether a frame, or the header of a log with frames, is damaged.
    pub(super) fn has_damage(&self) -> bool {
        self.first_damaged() < self.frames.len()
            || (!self.is_header_whole && !self.frames.is_empty())
    }

    fn first_damaged(&self) -> usize {
        let damaged = self.frames.iter().position(|frame| frame.state != State::Whole);
        damaged.unwrap_or(self.frames.len())
    }
}

impl Frame {
    /// The number of pages in the database after the commit that this frame ends. Returns `None` if
    /// the frame ends no commit or is damaged.
    pub(super) fn committed_pages(&self) -> Option<u32> {
        let is_known = self.state != State::Damaged && self.pages_after_commit > 0;
        is_known.then_some(self.pages_after_commit)
    }

    /// Corrects the frame if a single flipped bit explains the difference between the stored
    /// checksums and the computed ones, `sum`. If several bits would explain it, which happens for
    /// the upper bits of a word, the frame stays damaged.
    fn correct(&mut self, head: &[u8], sum: Checksum, stored: Checksum, is_big_endian: bool) {
        let mut bytes = head.get(..COVERED).unwrap_or_default().to_vec();
        bytes.extend(&self.page);
        let different = (stored[0] ^ sum[0]).count_ones() + (stored[1] ^ sum[1]).count_ones();
        if different == 1 {
            // The bit was flipped in the stored checksum.
            self.state = State::Corrected;
            return;
        }
        let [want_first, want_second] =
            [stored[0].wrapping_sub(sum[0]), stored[1].wrapping_sub(sum[1])];
        // How much both checksums grow if the first or the second word of a pair grows by one. The
        // loop goes from the last pair of words to the first.
        let (mut first, mut second): (Checksum, Checksum) = ([1, 1], [0, 1]);
        let mut possible = Vec::new();
        for pair in (0..bytes.len() / 8).rev() {
            for (place, adds) in [(pair * 8, first), (pair * 8 + 4, second)] {
                let value = word_of(&bytes, place, is_big_endian);
                for bit in 0..32_u32 {
                    let power = 1_u32 << bit;
                    let change = if value & power == 0 { power } else { power.wrapping_neg() };
                    if change.wrapping_mul(adds[0]) == want_first
                        && change.wrapping_mul(adds[1]) == want_second
                    {
                        possible.push((place, value ^ power));
                    }
                }
            }
            first = next_pair(first);
            second = next_pair(second);
        }
        if let [(place, new)] = possible.as_slice() {
            let new = if is_big_endian { new.to_be_bytes() } else { new.to_le_bytes() };
            if let Some(old) = bytes.get_mut(*place..place.saturating_add(4)) {
                old.copy_from_slice(&new);
            }
            self.page_number = word(&bytes, 0);
            self.pages_after_commit = word(&bytes, 4);
            self.page = bytes.split_off(COVERED);
            self.state = State::Corrected;
        }
    }
}

fn up_to_last_commit(frames: &[Frame]) -> &[Frame] {
    let is_commit = |frame: &Frame| frame.state != State::Damaged && frame.pages_after_commit > 0;
    let count = frames.iter().rposition(is_commit).map_or(0, |last| last.saturating_add(1));
    frames.get(..count).unwrap_or_default()
}

/// The header of a log, as far as it could be read.
struct Header {
    is_whole: bool,
    is_big_endian: bool,
    page_size: u32,
    salts: Option<[u32; 2]>,
    /// The checksums that the first frame may continue.
    starts: Vec<Checksum>,
}

impl Header {
    fn parse(bytes: &[u8; LOG_HEADER]) -> Self {
        let with_flipped_bit = |bit: usize| {
            let mut bytes = *bytes;
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            bytes
        };
        if let Some(header) = Self::checked(bytes) {
            return header;
        }
        let corrected = (0..LOG_HEADER * 8).map(with_flipped_bit).find_map(|it| Self::checked(&it));
        corrected.map_or(
            // The header cannot be corrected, but frames can still be checked against each other.
            Self {
                is_whole: false,
                is_big_endian: word(bytes, 0) & 1 == 1,
                page_size: DEFAULT_PAGE_SIZE,
                salts: None,
                starts: vec![[word(bytes, 24), word(bytes, 28)]],
            },
            |header| Self { is_whole: false, ..header },
        )
    }

    fn checked(bytes: &[u8; LOG_HEADER]) -> Option<Self> {
        let (magic, page_size) = (word(bytes, 0), word(bytes, 8));
        let is_known = magic & !1 == MAGIC
            && page_size.is_power_of_two()
            && (512..=65_536).contains(&page_size);
        let stored = [word(bytes, 24), word(bytes, 28)];
        let is_big_endian = magic & 1 == 1;
        let sum = add([0, 0], bytes.get(..24)?, is_big_endian);
        let salts = Some([word(bytes, 16), word(bytes, 20)]);
        (is_known && sum == stored).then(|| Self {
            is_whole: true,
            is_big_endian,
            page_size,
            salts,
            starts: vec![stored],
        })
    }

    fn sum_of_frame(&self, start: Checksum, head: &[u8], page: &[u8]) -> Checksum {
        let sum = add(start, head.get(..COVERED).unwrap_or_default(), self.is_big_endian);
        add(sum, page, self.is_big_endian)
    }
}

/// Whether two pairs of salts differ by a few flipped bits at most. SQLite chooses a new random
/// salt for each log, so the salts of two logs almost always differ by more.
fn is_similar(known: [u32; 2], found: [u32; 2]) -> bool {
    let [first, second] = [known[0] ^ found[0], known[1] ^ found[1]];
    first.count_ones() + second.count_ones() <= 4
}

const fn next_pair([first, second]: Checksum) -> Checksum {
    let sum = first.wrapping_add(second);
    [sum, sum.wrapping_add(second)]
}

fn add([mut first, mut second]: Checksum, bytes: &[u8], is_big_endian: bool) -> Checksum {
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word_of(pair, 0, is_big_endian)).wrapping_add(second);
        second = second.wrapping_add(word_of(pair, 4, is_big_endian)).wrapping_add(first);
    }
    [first, second]
}

fn word(bytes: &[u8], at: usize) -> u32 {
    word_of(bytes, at, true)
}

fn word_of(bytes: &[u8], at: usize, is_big_endian: bool) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}
