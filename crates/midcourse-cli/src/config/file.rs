//! Reading files that may be anything: a pipe, a folder, something huge. Nothing here hangs on what
//! was found, and what is parsed is what was read, once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

/// The longest file that is read.
pub(super) const LENGTH_MAX: u64 = 1024 * 1024;

/// What a configuration is called where it is looked for.
const FILE_NAME: &str = "midcourse.toml";

/// The text of a file that the user named, which may be a pipe.
pub(super) fn named(path: &Path) -> io::Result<String> {
    text_of(File::open(path)?)
}

/// The text of a file that lay there; nothing, if there is none.
pub(super) fn found(path: &Path) -> io::Result<Option<String>> {
    match path.metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(no_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // Somebody may have put a pipe there since, and opening one waits for its other end.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default(),
    );
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    text_of(file).map(Some)
}

fn no_file() -> io::Error {
    io::Error::other("it is not a file")
}

fn text_of(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LENGTH_MAX {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// A project's file as it was read: where it lies, and what exactly it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    path: PathBuf,
    text: String,
}

impl ProjectFile {
    /// The file of the project that a folder belongs to: in the folder or the nearest one above that
    /// has one, up to the root of the repository; without a repository in the folder alone.
    pub fn find(folder: &Path) -> Option<PathBuf> {
        let folder = folder.canonicalize().ok()?;
        let mut nearest = None;
        for above in folder.ancestors() {
            if nearest.is_none() {
                nearest = Some(above.join(FILE_NAME)).filter(|file| file.exists());
            }
            if above.join(".git").exists() {
                return nearest;
            }
        }
        nearest.filter(|file| file.parent() == Some(&folder))
    }

    /// Reads a file of which nobody knows what it is.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = found(path).and_then(|text| text.ok_or_else(|| io::ErrorKind::NotFound.into()));
        let path = place_of(path);
        match text {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => Err(ConfigError::unreadable(&path, error)),
        }
    }

    /// Where it lies: the real folder, and the file's name in it. Were the file a link that counted
    /// by what it points to, it could be turned to what was approved for somewhere else.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says, as a configuration.
    pub fn config(&self) -> Result<Config, ConfigError> {
        Config::parse(&self.text).map_err(|problem| ConfigError::invalid(&self.path, problem))
    }
}

/// Where a file lies, whatever way was taken to it. It need not exist.
pub(super) fn place_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let place = path.parent().zip(path.file_name());
    place.and_then(|(folder, name)| Some(folder.canonicalize().ok()?.join(name))).unwrap_or(path)
}
