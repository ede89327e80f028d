//! The list of project configuration files that the user approved. An approval is for a path and
//! the hash of the file's bytes, so the approval is invalid as soon as the file changes.
//!
//! The list is a JSON file in the data directory. A process that changes the list takes a lock and
//! replaces the JSON file atomically. If the list cannot be read, no file counts as approved.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file::{self, ProjectFile};
use midcourse::{DataDir, sync_folder};

/// Version of the file format of the list of approved files.
const VERSION: u32 = 1;

/// The configuration files that the user has approved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trusted {
    /// Path → hash of the approved bytes.
    files: BTreeMap<String, String>,
}

/// Whether the approval of a file is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    Valid,
    /// The file has changed since the approval and is not used.
    Changed,
    /// The file does not exist or cannot be read.
    Missing,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("cannot use the list of approved files, {file}: {error}")]
    Unusable { file: String, error: io::Error },
    #[error(
        "the list of approved files, {file}, is damaged ({why}); remove it and approve the files \
         again"
    )]
    Damaged { file: String, why: String },
    #[error("cannot approve {0}: its path is not valid UTF-8")]
    PathNotUtf8(String),
    #[error("too many approved files; revoke some with `midcourse trust --revoke FILE`")]
    TooMany,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedWire {
    version: u32,
    files: BTreeMap<String, String>,
}

impl Trusted {
    /// Reads the list. If the file is missing, the list is empty.
    pub(crate) fn read(data_dir: &DataDir) -> Result<Self, TrustError> {
        let path = data_dir.trusted_file();
        let damaged = |why: String| TrustError::Damaged { file: path.display().to_string(), why };
        let Some(text) = file::read_found(&path).map_err(|error| unusable(&path, error))? else {
            return Ok(Self::default());
        };
        let wire: TrustedWire =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if wire.version != VERSION {
            return Err(damaged(format!("it has version {}, expected {VERSION}", wire.version)));
        }
        Ok(Self { files: wire.files })
    }

    /// Whether the user approved this file as it is now.
    pub(crate) fn has(&self, file: &ProjectFile) -> bool {
        self.hash_of(file).is_some_and(|approved| *approved == hash(file))
    }

    /// Whether the user approved a file at this path, even if it has changed since.
    pub(super) fn knows(&self, file: &ProjectFile) -> bool {
        self.hash_of(file).is_some()
    }

    fn hash_of(&self, file: &ProjectFile) -> Option<&String> {
        self.files.get(file.path().to_str()?)
    }

    /// All approved files, and whether each approval is still valid.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, Approval)> {
        self.files.iter().map(|(path, approved)| {
            let approval = match ProjectFile::read(Path::new(path)) {
                Ok(file) if *approved == hash(&file) => Approval::Valid,
                Ok(_) => Approval::Changed,
                Err(_) => Approval::Missing,
            };
            (Path::new(path), approval)
        })
    }

    /// Approves a file with the bytes that were read into `file`. The approval is valid only while
    /// the file on disk has these bytes.
    pub(crate) fn approve(data_dir: &DataDir, file: &ProjectFile) -> Result<(), TrustError> {
        let path = file.path().to_str().map(ToOwned::to_owned);
        let path =
            path.ok_or_else(|| TrustError::PathNotUtf8(file.path().display().to_string()))?;
        change(data_dir, |files| files.insert(path, hash(file))).map(drop)
    }

    /// Removes an approval; returns whether there was one.
    pub(crate) fn revoke(data_dir: &DataDir, path: &Path) -> Result<bool, TrustError> {
        let path = file::real_path(path);
        let Some(path) = path.to_str() else { return Ok(false) };
        change(data_dir, |files| files.remove(path)).map(|approved| approved.is_some())
    }
}

fn hash(file: &ProjectFile) -> String {
    blake3::hash(file.text().as_bytes()).to_hex().to_string()
}

fn unusable(path: &Path, error: io::Error) -> TrustError {
    TrustError::Unusable { file: path.display().to_string(), error }
}

/// Reads, changes and writes the list under a lock. Readers need no lock: they see either the old
/// list or the new one.
fn change<T>(
    data_dir: &DataDir,
    change: impl FnOnce(&mut BTreeMap<String, String>) -> T,
) -> Result<T, TrustError> {
    let path = data_dir.trusted_file();
    let failed = |error| unusable(&path, error);
    data_dir.create(data_dir.path()).map_err(failed)?;
    // The lock is a separate file, because the list itself is replaced by renaming.
    let lock = open_private(&path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut files = Trusted::read(data_dir)?.files;
    let before = files.clone();
    let changed = change(&mut files);
    if files != before {
        let wire = TrustedWire { version: VERSION, files };
        let json = serde_json::to_vec_pretty(&wire).map_err(|error| failed(error.into()))?;
        if u64::try_from(json.len()).unwrap_or(u64::MAX) > file::MAX_FILE_LEN {
            return Err(TrustError::TooMany);
        }
        replace(&path, &json).map_err(failed)?;
    }
    Ok(changed)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut new = open_private(&temporary)?;
    // Empty the temporary file: a process that was killed may have left it behind with content.
    new.set_len(0)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Opens a file that only its owner may read or write.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use midcourse::DataDir;

    use super::{ProjectFile, Trusted};

    #[test]
    fn concurrent_approvals_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("data"));
        let files = (0..24).map(|number| {
            let project = folder.path().join(format!("{number}"));
            fs::create_dir(&project).unwrap();
            let file = project.join("midcourse.toml");
            fs::write(&file, format!("[budget]\ncalls = 1{number}")).unwrap();
            ProjectFile::read(&file).unwrap()
        });
        let files: Vec<ProjectFile> = files.collect();
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(|| {
                    Trusted::approve(&data_dir, file).unwrap();
                    // While other threads write, a reader finds a complete list.
                    assert!(Trusted::read(&data_dir).unwrap().has(file));
                });
            }
        });
        assert_eq!(Trusted::read(&data_dir).unwrap().files().count(), files.len());
    }
}
