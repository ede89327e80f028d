//! The content of a folder as a value, which can be read from a real folder or written to one.
//!
//! SQLite's shared-memory files (`*-shm`) are left out, because SQLite builds them again after a
//! power cut.

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
        let read_content = |(path, status): (PathBuf, Metadata)| {
            let content = match status.is_dir() {
                true => Content::Folder,
                false => Content::File(fs::read(root.join(&path)).unwrap()),
            };
            (path, content)
        };
        Self(walk(root).into_iter().map(read_content).collect())
    }

    /// Writes the content to an existing folder.
    pub(super) fn write(&self, root: &Path) {
        // The map is sorted by path, so a folder is created before its files are written.
        for (path, content) in &self.0 {
            match content {
                Content::Folder => fs::create_dir(root.join(path)).unwrap(),
                Content::File(bytes) => fs::write(root.join(path), bytes).unwrap(),
            }
        }
    }

    /// The paths at which two images differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<PathBuf> {
        let paths = self.0.keys().chain(other.0.keys());
        let mut differing: Vec<PathBuf> =
            paths.filter(|path| self.0.get(*path) != other.0.get(*path)).cloned().collect();
        differing.dedup();
        differing
    }
}

/// All files and folders below `root` with their relative paths. A folder comes before everything
/// inside it.
pub(super) fn walk(root: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found: Vec<(PathBuf, Metadata)> = Vec::new();
    let mut unvisited = vec![PathBuf::new()];
    while let Some(folder) = unvisited.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (path, status) = (folder.join(entry.file_name()), entry.metadata().unwrap());
            if status.is_dir() {
                unvisited.push(path.clone());
            }
            if !path.as_os_str().as_encoded_bytes().ends_with(b"-shm") {
                found.push((path, status));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}
