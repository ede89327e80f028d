//! A scratch folder for the data of a trial. It is removed when the trial is over.

use std::io;
use std::path::{Path, PathBuf};

use midcourse::DataDir;
use uuid::Uuid;

pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates an empty folder, readable by its owner only.
    pub(super) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("midcourse-doctor-{}", Uuid::now_v7()));
        let path = std::path::absolute(path)?;
        DataDir::at(&path).create(&path)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it: the folder is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
