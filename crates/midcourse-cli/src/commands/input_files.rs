//! Finds the input files of a command: files named directly, and files inside named directories.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Extensions of the files that are read in a directory of session files.
const SESSION_EXTENSIONS: [&str; 6] = ["db", "eval", "json", "jsonl", "ndjson", "traj"];

/// A file that a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// Whether the file was found in a directory. Otherwise the user named it.
    pub(super) is_in_directory: bool,
}

impl InputFile {
    pub(super) fn len(&self) -> u64 {
        self.path.metadata().map_or(0, |metadata| metadata.len())
    }
}

/// Returns the files that `paths` names. A directory stands for all files with an extension of
/// session files inside it, at any depth, sorted by path.
pub(super) fn find_session_files(paths: &[PathBuf]) -> Result<Vec<InputFile>> {
    let mut files = Vec::new();
    for path in paths {
        let context = || format!("cannot read {}", path.display());
        if path != Path::new("-") && path.metadata().with_context(context)?.is_dir() {
            let mut found = Vec::new();
            search(path, &SESSION_EXTENSIONS, &mut found).with_context(context)?;
            files.extend(found.into_iter().map(|path| InputFile { path, is_in_directory: true }));
        } else {
            files.push(InputFile { path: path.clone(), is_in_directory: false });
        }
    }
    Ok(files)
}

/// Returns the files that `paths` names. A directory stands for all files with this extension
/// inside it, at any depth, sorted by path.
pub(super) fn find_files(paths: &[PathBuf], extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let context = || format!("cannot read {}", path.display());
        if path.metadata().with_context(context)?.is_dir() {
            search(path, &[extension], &mut files).with_context(context)?;
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn search(directory: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> std::io::Result<()> {
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
        let has_extension = || {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| extensions.contains(&extension))
        };
        if is_directory {
            search(&path, extensions, files)?;
        } else if has_extension() && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
