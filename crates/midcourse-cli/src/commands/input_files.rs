//! Finds the input files of a command: files named directly, and files inside named directories.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Returns the files that `paths` names. A directory stands for all files with this extension
/// inside it, at any depth, sorted by path.
pub(super) fn find_files(paths: &[PathBuf], extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let context = || format!("cannot read {}", path.display());
        if path.metadata().with_context(context)?.is_dir() {
            search(path, extension, &mut files).with_context(context)?;
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn search(directory: &Path, extension: &str, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<(PathBuf, bool)> = std::fs::read_dir(directory)?
        .map(|entry| {
            let entry = entry?;
            // `file_type` does not follow symbolic links. A link to a directory is not searched,
            // because links may form a cycle.
            Ok((entry.path(), entry.file_type()?.is_dir()))
        })
        .collect::<std::io::Result<_>>()?;
    entries.sort_unstable();
    for (path, is_directory) in entries {
        if is_directory {
            search(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
