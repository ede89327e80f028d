//! A folder with everything in it, as a value: read from a real one, or written to one.
//!
//! SQLite's `-shm` files are left out on both sides: they hold no durable state.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// The files and folders below a folder, by relative path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Image(pub(super) BTreeMap<PathBuf, Content>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Folder,
    File(Vec<u8>),
}

impl Image {
    pub(super) fn read(root: &Path) -> Self {
        let read = |(path, status): (PathBuf, Metadata)| {
            let content = match status.is_dir() {
                true => Content::Folder,
                false => Content::File(fs::read(root.join(&path)).unwrap()),
            };
            (path, content)
        };
        Self(walk(root).into_iter().map(read).collect())
    }

    /// Writes all of it into an existing folder.
    pub(super) fn write(&self, root: &Path) {
        // A folder sorts before what is in it.
        for (path, content) in &self.0 {
            match content {
                Content::Folder => fs::create_dir(root.join(path)).unwrap(),
                Content::File(bytes) => fs::write(root.join(path), bytes).unwrap(),
            }
        }
    }

    /// The paths at which the two differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<PathBuf> {
        let paths = self.0.keys().chain(other.0.keys());
        let mut differing: Vec<PathBuf> =
            paths.filter(|path| self.0.get(*path) != other.0.get(*path)).cloned().collect();
        differing.dedup();
        differing
    }
}

/// Everything below a folder by relative path, each folder before what is in it.
pub(super) fn walk(root: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found: Vec<(PathBuf, Metadata)> = Vec::new();
    let mut unread = vec![PathBuf::new()];
    while let Some(folder) = unread.pop() {
        for item in fs::read_dir(root.join(&folder)).unwrap() {
            let item = item.unwrap();
            let (path, status) = (folder.join(item.file_name()), item.metadata().unwrap());
            if status.is_dir() {
                unread.push(path.clone());
            }
            if !path.as_os_str().as_encoded_bytes().ends_with(b"-shm") {
                found.push((path, status));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}
