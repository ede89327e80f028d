//! Reads configuration files safely. A path that midcourse finds by itself may lead to a pipe, a
//! folder or a huge file; then reading fails at once and does not block. A file is read only once,
//! so that the bytes that are parsed are the bytes that were compared with the user's approval.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

/// Maximum length of a configuration file, in bytes.
pub(super) const MAX_FILE_LEN: u64 = 1024 * 1024;

const FILE_NAME: &str = "midcourse.toml";

/// Reads a file that the user named on the command line, which may be a pipe.
pub(super) fn read_named(path: &Path) -> io::Result<String> {
    read_text(File::open(path)?)
}

/// Reads a file that midcourse found by itself; `None` if it does not exist.
pub(super) fn read_found(path: &Path) -> io::Result<Option<String>> {
    match path.metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(not_a_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // Do not block if the file was replaced by a pipe after the check above: opening a pipe waits
    // for a writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default(),
    );
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(not_a_file());
    }
    read_text(file).map(Some)
}

fn not_a_file() -> io::Error {
    io::Error::other("it is not a file")
}

fn read_text(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_LEN + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE_LEN {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not valid UTF-8"))
}

/// A project's configuration file: its path and the text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectFile {
    path: PathBuf,
    text: String,
}

impl ProjectFile {
    /// Finds the configuration file for a working directory: in the directory itself or in the
    /// nearest parent that has one, up to the root of the repository. Outside a repository, only
    /// the directory itself is searched.
    pub(crate) fn find(cwd: &Path) -> Option<PathBuf> {
        let cwd = cwd.canonicalize().ok()?;
        let root = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&cwd);
        Self::above(&cwd).find(|file| file.starts_with(root))
    }

    /// The configuration files of the repositories that contain a working directory, nearest first.
    /// More than one repository contains it if a repository is in a folder of another.
    pub(super) fn find_all(cwd: &Path) -> Vec<PathBuf> {
        let Ok(cwd) = cwd.canonicalize() else { return Vec::new() };
        let root = cwd.ancestors().filter(|folder| folder.join(".git").exists()).last();
        let root = root.unwrap_or(&cwd);
        Self::above(&cwd).filter(|file| file.starts_with(root)).collect()
    }

    fn above(cwd: &Path) -> impl Iterator<Item = PathBuf> {
        cwd.ancestors().map(|folder| folder.join(FILE_NAME)).filter(|file| file.exists())
    }

    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            read_found(path).and_then(|text| text.ok_or_else(|| io::ErrorKind::NotFound.into()));
        let path = real_path(path);
        match text {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => Err(ConfigError::unreadable(&path, error)),
        }
    }

    /// The path of the file, with symlinks in its folder resolved. If the file itself is a symlink,
    /// it is not resolved: otherwise a project could link to a file that was approved elsewhere.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        Config::parse(&self.text).map_err(|problem| ConfigError::invalid(&self.path, problem))
    }
}

/// Resolves symlinks in the path's folder, so that paths can be compared. The file need not exist.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parts = path.parent().zip(path.file_name());
    parts.and_then(|(folder, name)| Some(folder.canonicalize().ok()?.join(name))).unwrap_or(path)
}
