//! The bytes of one file: those that are durable, and the changes that a power cut may lose.
//!
//! A change (a write or a new length) becomes durable with the next sync of the file. If that sync
//! fails, the change never becomes durable: the kernel then treats the data as written, so later
//! syncs do not write it again.
//!
//! A power cut keeps each change that is not durable completely, in part or not at all. Because a
//! later change can survive while an earlier one is lost, this also simulates disks that write in
//! another order.

use super::rng::CrashRng;

/// The size of a disk sector in bytes. A power cut never leaves a sector half written.
const SECTOR_LEN: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct FileHistory {
    /// The bytes that the file has without the changes in `changes`.
    durable: Vec<u8>,
    /// The oldest change that is not durable and all changes after it, in order. A later change
    /// stays in this list even if it is durable, because it must be applied after the older ones.
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    /// The index of the log entry that made this change.
    entry: usize,
    kind: ChangeKind,
    state: ChangeState,
}

#[derive(Debug, Clone)]
enum ChangeKind {
    Write { offset: usize, data: Vec<u8> },
    Resize { length: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeState {
    Unsynced,
    SyncFailed,
    Durable,
}

/// Which of the changes that are not durable survive a power cut. Durable changes always survive.
pub(super) enum Survival {
    Nothing,
    Everything,
    /// All changes except the write of the log entry with this index.
    AllExcept(usize),
    Random(CrashRng),
}

impl FileHistory {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable: bytes, changes: Vec::new() }
    }

    pub(super) fn write(&mut self, entry: usize, offset: usize, data: Vec<u8>) {
        self.push(entry, ChangeKind::Write { offset, data });
    }

    pub(super) fn resize(&mut self, entry: usize, length: usize) {
        self.push(entry, ChangeKind::Resize { length });
    }

    fn push(&mut self, entry: usize, kind: ChangeKind) {
        self.changes.push(Change { entry, kind, state: ChangeState::Unsynced });
    }

    pub(super) fn sync(&mut self) {
        self.mark_unsynced(ChangeState::Durable);
        let durable =
            self.changes.iter().take_while(|change| change.state == ChangeState::Durable).count();
        for change in self.changes.drain(..durable) {
            change.kind.apply(&mut self.durable);
        }
    }

    pub(super) fn fail_sync(&mut self) {
        self.mark_unsynced(ChangeState::SyncFailed);
    }

    fn mark_unsynced(&mut self, state: ChangeState) {
        for change in &mut self.changes {
            if change.state == ChangeState::Unsynced {
                change.state = state;
            }
        }
    }

    /// The log index of the last write that a power cut could still lose.
    pub(super) fn last_volatile_write(&self) -> Option<usize> {
        let is_volatile_write = |change: &&Change| {
            change.state != ChangeState::Durable && matches!(change.kind, ChangeKind::Write { .. })
        };
        self.changes.iter().rfind(is_volatile_write).map(|change| change.entry)
    }

    /// The bytes after a power cut.
    pub(super) fn after_power_cut(&self, survival: &mut Survival) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.changes {
            match survival {
                _ if change.state == ChangeState::Durable => change.kind.apply(&mut bytes),
                Survival::Nothing => {}
                Survival::AllExcept(entry) if *entry == change.entry => {}
                Survival::Everything | Survival::AllExcept(_) => change.kind.apply(&mut bytes),
                Survival::Random(rng) => change.kind.apply_at_random(&mut bytes, rng),
            }
        }
        bytes
    }
}

impl ChangeKind {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(bytes, *offset, data),
            Self::Resize { length } => bytes.resize(*length, 0),
        }
    }

    /// Applies the change whole, in part or not at all.
    fn apply_at_random(&self, bytes: &mut Vec<u8>, rng: &mut CrashRng) {
        match self {
            Self::Write { offset, data } if rng.is_torn() => tear(bytes, *offset, data, rng),
            _ if rng.is_kept() => self.apply(bytes),
            Self::Write { offset, data } if rng.one_in(4) => {
                extend(bytes, offset + data.len(), rng);
            }
            _ => {}
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[offset..end].copy_from_slice(data);
}

/// Writes only some sectors of `data`. The file may get its new length even if the last sectors are
/// not written.
fn tear(bytes: &mut Vec<u8>, offset: usize, data: &[u8], rng: &mut CrashRng) {
    let end = offset + data.len();
    let mut start = offset;
    while start < end {
        let next = (start / SECTOR_LEN * SECTOR_LEN + SECTOR_LEN).min(end);
        if rng.one_in(2) {
            put(bytes, start, &data[start - offset..next - offset]);
        }
        start = next;
    }
    if rng.one_in(2) {
        extend(bytes, end, rng);
    }
}

/// Makes the file longer without writing the data. The new part is zeros or, one time in four,
/// random bytes, like the old data of a deleted file.
fn extend(bytes: &mut Vec<u8>, end: usize, rng: &mut CrashRng) {
    let is_stale = rng.one_in(4);
    while bytes.len() < end {
        bytes.push(if is_stale { rng.byte() } else { 0 });
    }
}
