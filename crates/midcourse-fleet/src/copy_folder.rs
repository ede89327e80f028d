//! The temporary folders in which copies of runs are kept. A folder is removed when its copy is dropped,
//! or by [`remove_copies`] if the process ends without dropping it. Each process holds a lock on its
//! folders, so the next process can remove the folders of one that was killed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

const PREFIX: &str = "midcourse-copy-";

/// The file that a process has locked as long as it uses a folder.
const LOCK: &str = "lock";

/// The folders of this process.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A private folder that is removed on drop.
pub(crate) struct CopyFolder {
    folder: TempDir,
    _lock: File,
}

impl CopyFolder {
    pub(crate) fn new() -> io::Result<Self> {
        remove_abandoned(&std::env::temp_dir());
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // The file is locked before it gets its name, because other processes remove folders whose lock
        // is free.
        let new = folder.path().join("new");
        let lock = File::create(&new)?;
        lock.lock()?;
        std::fs::rename(new, folder.path().join(LOCK))?;
        folders().push(folder.path().to_owned());
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        folders().retain(|path| path != self.folder.path());
    }
}

/// Removes all copies of this process. They cannot be used afterwards, so the process has to end.
pub fn remove_copies() {
    for folder in folders().drain(..) {
        // If this fails, the next process tries again.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Removes the folders of processes that are gone. Ignores errors: others may remove them too.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_ours
            && let Ok(lock) = File::open(entry.path().join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyFolder, LOCK, PREFIX, remove_abandoned};

    #[test]
    fn only_folders_that_nobody_uses_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = CopyFolder::new_in(parent.path()).unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}abandoned"));
        let beginning = parent.path().join(format!("{PREFIX}beginning"));
        let other = parent.path().join("other");
        for folder in [&abandoned, &beginning, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        for folder in [&abandoned, &other] {
            std::fs::write(folder.join(LOCK), "").unwrap();
        }
        remove_abandoned(parent.path());
        assert!(used.path().is_dir() && beginning.is_dir() && other.is_dir());
        assert!(!abandoned.exists());
        drop(used);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 2);
    }
}
