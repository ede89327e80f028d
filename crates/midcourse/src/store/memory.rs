//! The memory folder: copies of events that a disk has not taken yet, in a filesystem that is kept in
//! memory.
//!
//! A process that has to end while the disk does not respond leaves its event here, and so does one
//! whose disk is full or read-only. The next process that can write stores these events. They do not
//! survive a restart of the machine. Only Linux has a fixed place for such files.

use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

use crate::data_dir::DataDir;

const ROOT: &str = "/dev/shm";

/// The memory folder has at most this many files and bytes, because they take memory from the agent.
const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The memory folder of a data directory, if it exists.
pub(super) fn folder(data_dir: &DataDir) -> Option<PathBuf> {
    let [user, folder] = paths(data_dir)?;
    (is_private(&user) && is_private(&folder)).then_some(folder)
}

/// The memory folder of a data directory, which is created if necessary; `None` if it cannot be
/// used, or has no space for `bytes` more bytes.
pub(super) fn with_space(data_dir: &DataDir, bytes: usize) -> Option<PathBuf> {
    for folder in paths(data_dir)? {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // It may exist. Whether it is the user's own is checked below.
        let _ = builder.create(folder);
    }
    let folder = folder(data_dir)?;
    let lengths = fs::read_dir(&folder).ok()?.map(|file| file.ok()?.metadata().ok());
    let lengths: Vec<u64> = lengths.flatten().map(|found| found.len()).collect();
    let used = lengths.iter().sum::<u64>().saturating_add(u64::try_from(bytes).ok()?);
    (lengths.len() < MAX_FILES && used <= MAX_BYTES).then_some(folder)
}

/// Removes the folder if it is empty.
pub(super) fn clean_up(data_dir: &DataDir) {
    if let Some([_, folder]) = paths(data_dir) {
        let _ = fs::remove_dir(folder);
    }
}

/// The folder of this user, and in it the folder of the data directory.
#[cfg(target_os = "linux")]
fn paths(data_dir: &DataDir) -> Option<[PathBuf; 2]> {
    let path = std::path::absolute(data_dir.path()).ok()?;
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    let user = Path::new(ROOT).join(format!("midcourse-{}", rustix::process::geteuid().as_raw()));
    let folder = user.join(hash.get(..16)?);
    Some([user, folder])
}

#[cfg(not(target_os = "linux"))]
fn paths(_: &DataDir) -> Option<[PathBuf; 2]> {
    None
}

/// Whether this is a folder of this user that nobody else can read or change. Everybody may create
/// folders in the root, and links.
#[cfg(unix)]
fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> bool {
    false
}
