//! The log of the file operations of recorded processes, in the order in which they took effect.
//!
//! `shim.c` writes the entries, and [`super::model`] replays them. Of the system calls that failed,
//! only syncs have an entry (`SyncFailed`), and these change no content. So replaying all entries
//! gives the real content of the folder. Files are identified by inode number. The kernel may use
//! the number of a deleted file again; a `Create` entry always means a new file.

use std::fmt;

/// One recorded operation. Paths are relative to the disk's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Create { path: String, inode: u64 },
    MakeFolder { path: String, inode: u64 },
    Link { path: String, inode: u64 },
    Rename { from: String, to: String },
    Unlink { path: String },
    Write { path: String, inode: u64, offset: usize, data: Vec<u8> },
    Resize { path: String, inode: u64, length: usize },
    Sync { path: String, inode: u64 },
    SyncFailed { path: String, inode: u64 },
    Ack { data: Vec<u8> },
}

impl Entry {
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncFailed { .. })
    }

    pub fn is_ack(&self) -> bool {
        matches!(self, Self::Ack { .. })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, .. } => write!(f, "create {path}"),
            Self::MakeFolder { path, .. } => write!(f, "mkdir {path}"),
            Self::Link { path, .. } => write!(f, "link {path}"),
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Unlink { path } => write!(f, "unlink {path}"),
            Self::Write { path, offset, data, .. } => {
                write!(f, "write {path} at {offset}, {} bytes", data.len())
            }
            Self::Resize { path, length, .. } => write!(f, "resize {path} to {length}"),
            Self::Sync { path, .. } => write!(f, "sync {path}"),
            Self::SyncFailed { path, .. } => write!(f, "failed sync {path}"),
            Self::Ack { data } => write!(f, "ack {}", String::from_utf8_lossy(data).trim_end()),
        }
    }
}

/// Reads a whole log. Panics at an operation that the model cannot replay, such as a symbolic link.
pub(super) fn parse(bytes: &[u8]) -> Vec<Entry> {
    let mut reader = Reader(bytes);
    let mut entries = Vec::new();
    while !reader.0.is_empty() {
        entries.push(reader.entry());
    }
    entries
}

/// The bytes of the log that were not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, length: usize) -> &[u8] {
        let (bytes, rest) = self.0.split_at_checked(length).unwrap();
        self.0 = rest;
        bytes
    }

    fn number(&mut self) -> u64 {
        u64::from_ne_bytes(self.bytes(8).try_into().unwrap())
    }

    fn length(&mut self) -> usize {
        self.number().try_into().unwrap()
    }

    fn text(&mut self, length: usize) -> String {
        String::from_utf8(self.bytes(length).to_vec()).unwrap()
    }

    fn entry(&mut self) -> Entry {
        let (op, inode, offset) = (self.number(), self.number(), self.length());
        let lengths = (self.length(), self.length(), self.length());
        let (path, other) = (self.text(lengths.0), self.text(lengths.1));
        let data = self.bytes(lengths.2).to_vec();
        match op {
            1 => Entry::Create { path, inode },
            2 => Entry::MakeFolder { path, inode },
            3 => Entry::Link { path, inode },
            4 => Entry::Rename { from: path, to: other },
            5 => Entry::Unlink { path },
            6 => Entry::Write { path, inode, offset, data },
            7 => Entry::Resize { path, inode, length: offset },
            8 => Entry::Sync { path, inode },
            9 => Entry::SyncFailed { path, inode },
            10 => Entry::Ack { data },
            _ => unreachable!("the disk model does not support {other} on {path}"),
        }
    }
}
