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
    let mut entries: Vec<(PathBuf, bool)> = std::fs::read_dir(folder)?
        .map(|entry| {
            let entry = entry?;
            // A link to a folder may lead round in a circle.
            Ok((entry.path(), entry.file_type()?.is_dir()))
        })
        .collect::<std::io::Result<_>>()?;
    entries.sort_unstable();
    for (path, is_folder) in entries {
        if is_folder {
            search(&path, ending, files)?;
        } else if path.extension().is_some_and(|end| end == ending) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
