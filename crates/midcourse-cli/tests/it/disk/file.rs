//! One file's bytes: what is surely on the disk, and the changes that may or may not be.
//!
//! A change is settled by the next successful sync of the file. A failed sync leaves the changes
//! before it in doubt for good: the kernel marks their pages clean, so a later sync that succeeds
//! says nothing about them. Changes apply in their order, each whole, in part or not at all; that
//! covers every reordering, since a later one can be there without an earlier one.

use super::chance::Chance;

/// The part of a write that the disk keeps or loses as one.
const SECTOR: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct FileHistory {
    /// The bytes with every change up to the first unsettled one.
    durable: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    /// Its place in the log.
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
    InDoubt,
    Settled,
}

/// Which of the changes that are not settled a power cut leaves.
pub(super) enum Survival {
    Nothing,
    Everything,
    /// All but the write with this place in the log.
    AllBut(usize),
    Random(Chance),
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
        self.mark_unsynced(ChangeState::Settled);
        let settled =
            self.changes.iter().take_while(|change| change.state == ChangeState::Settled).count();
        for change in self.changes.drain(..settled) {
            change.kind.happen(&mut self.durable);
        }
    }

    pub(super) fn fail_sync(&mut self) {
        self.mark_unsynced(ChangeState::InDoubt);
    }

    fn mark_unsynced(&mut self, state: ChangeState) {
        for change in &mut self.changes {
            if change.state == ChangeState::Unsynced {
                change.state = state;
            }
        }
    }

    /// The place in the log of the last write that is not settled.
    pub(super) fn last_unsettled_write(&self) -> Option<usize> {
        let unsettled = |change: &&Change| {
            change.state != ChangeState::Settled && matches!(change.kind, ChangeKind::Write { .. })
        };
        self.changes.iter().rfind(unsettled).map(|change| change.entry)
    }

    /// The bytes a power cut leaves.
    pub(super) fn after_power_cut(&self, survival: &mut Survival) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.changes {
            match survival {
                _ if change.state == ChangeState::Settled => change.kind.happen(&mut bytes),
                Survival::Nothing => {}
                Survival::AllBut(entry) if *entry == change.entry => {}
                Survival::Everything | Survival::AllBut(_) => change.kind.happen(&mut bytes),
                Survival::Random(chance) => change.kind.perhaps_happen(&mut bytes, chance),
            }
        }
        bytes
    }
}

impl ChangeKind {
    fn happen(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(bytes, *offset, data),
            Self::Resize { length } => bytes.resize(*length, 0),
        }
    }

    fn perhaps_happen(&self, bytes: &mut Vec<u8>, chance: &mut Chance) {
        match self {
            Self::Write { offset, data } if chance.tears() => tear(bytes, *offset, data, chance),
            _ if chance.survives() => self.happen(bytes),
            Self::Write { offset, data } if chance.one_in(4) => {
                extend(bytes, offset + data.len(), chance);
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

/// Writes some of the sectors; the file may have got its new length anyway.
fn tear(bytes: &mut Vec<u8>, offset: usize, data: &[u8], chance: &mut Chance) {
    let end = offset + data.len();
    let mut start = offset;
    while start < end {
        let next = (start / SECTOR * SECTOR + SECTOR).min(end);
        if chance.one_in(2) {
            put(bytes, start, &data[start - offset..next - offset]);
        }
        start = next;
    }
    if chance.one_in(2) {
        extend(bytes, end, chance);
    }
}

/// The new length without the data: zeros, or what those blocks held for another file.
fn extend(bytes: &mut Vec<u8>, end: usize, chance: &mut Chance) {
    let stale = chance.one_in(4);
    while bytes.len() < end {
        bytes.push(if stale { chance.byte() } else { 0 });
    }
}
