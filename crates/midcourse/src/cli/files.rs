//! The files that a person means: those named, and those in the folders named.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The files that were meant, folders opened up: what ends so in them, in order.
pub(super) fn find(paths: &[PathBuf], ending: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let about = || format!("{} cannot be read", path.display());
        if path.metadata().with_context(about)?.is_dir() {
            search(path, ending, &mut files).with_context(about)?;
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn search(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    entries.sort_unstable();
    for path in entries {
        if path.is_dir() {
            search(&path, ending, files)?;
        } else if path.extension().is_some_and(|end| end == ending) {
            files.push(path);
        }
    }
    Ok(())
}
