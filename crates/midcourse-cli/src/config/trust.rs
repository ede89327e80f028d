//! Which projects' files the user has approved: by where they lie and by what exactly they say. Any
//! change of a file ends its approval.
//!
//! The list is one small file in the home folder, replaced as a whole under a lock. A list that
//! cannot be read approves nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file::{self, ProjectFile};
use midcourse::{DataDir, sync_folder};

/// The form of the list.
const VERSION: u32 = 1;

/// The files that are approved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trusted {
    /// By their places, the hashes of what they said.
    files: BTreeMap<String, String>,
}

/// How an approved file stands today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// It says what it said.
    Holds,
    /// It says something else, and does not count.
    Changed,
    /// It is not there, or cannot be read.
    Gone,
}

/// The list of approved files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The system does not let us.
    #[error("the list of approved files, {file}: {error}")]
    Unusable {
        /// The list.
        file: String,
        /// Why not.
        error: io::Error,
    },
    /// It is not what was written.
    #[error(
        "the list of approved files, {file}, cannot be understood ({why}): remove it and approve \
         the files again"
    )]
    Damaged {
        /// The list.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A list is text, and so is what stands in it.
    #[error("{0} has a path that is not text in UTF-8, and cannot be approved")]
    StrangePath(String),
    /// The list would be too long to be read again.
    #[error(
        "too many files are approved: take some approvals back with `midcourse trust --revoke`"
    )]
    TooMany,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedWire {
    version: u32,
    files: BTreeMap<String, String>,
}

impl Trusted {
    /// Reads the list; there need not be one.
    pub fn read(home: &DataDir) -> Result<Self, TrustError> {
        let path = home.trusted_file();
        let damaged = |why: String| TrustError::Damaged { file: path.display().to_string(), why };
        let Some(text) = file::found(&path).map_err(|error| unusable(&path, error))? else {
            return Ok(Self::default());
        };
        let wire: TrustedWire =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if wire.version != VERSION {
            return Err(damaged(format!("its version is {}, not {VERSION}", wire.version)));
        }
        Ok(Self { files: wire.files })
    }

    /// Whether this file, saying what it says, is approved.
    pub fn has(&self, file: &ProjectFile) -> bool {
        self.hash_of(file).is_some_and(|approved| *approved == hash(file))
    }

    /// Whether it is approved, whatever it said then.
    pub(super) fn knows(&self, file: &ProjectFile) -> bool {
        self.hash_of(file).is_some()
    }

    fn hash_of(&self, file: &ProjectFile) -> Option<&String> {
        self.files.get(file.path().to_str()?)
    }

    /// The approved files by their places, and how each stands today.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Approval)> {
        self.files.iter().map(|(path, approved)| {
            let approval = match ProjectFile::read(Path::new(path)) {
                Ok(file) if *approved == hash(&file) => Approval::Holds,
                Ok(_) => Approval::Changed,
                Err(_) => Approval::Gone,
            };
            (Path::new(path), approval)
        })
    }

    /// Approves a file as it was read.
    pub fn approve(home: &DataDir, file: &ProjectFile) -> Result<(), TrustError> {
        let path = file.path().to_str().map(ToOwned::to_owned);
        let path =
            path.ok_or_else(|| TrustError::StrangePath(file.path().display().to_string()))?;
        change(home, |files| files.insert(path, hash(file))).map(drop)
    }

    /// Takes an approval back; says whether there was one.
    pub fn revoke(home: &DataDir, path: &Path) -> Result<bool, TrustError> {
        let place = file::place_of(path);
        let Some(place) = place.to_str() else { return Ok(false) };
        change(home, |files| files.remove(place)).map(|approved| approved.is_some())
    }
}

fn hash(file: &ProjectFile) -> String {
    blake3::hash(file.text().as_bytes()).to_hex().to_string()
}

fn unusable(path: &Path, error: io::Error) -> TrustError {
    TrustError::Unusable { file: path.display().to_string(), error }
}

/// Changes the list as it is now: nobody else changes it meanwhile, and whoever reads it finds the
/// old one or the new one.
fn change<T>(
    home: &DataDir,
    change: impl FnOnce(&mut BTreeMap<String, String>) -> T,
) -> Result<T, TrustError> {
    let path = home.trusted_file();
    let failed = |error| unusable(&path, error);
    home.create(home.path()).map_err(failed)?;
    // The list itself is replaced, so the lock is held on a file that stays.
    let lock = open_own(&path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut files = Trusted::read(home)?.files;
    let before = files.clone();
    let changed = change(&mut files);
    if files != before {
        let wire = TrustedWire { version: VERSION, files };
        let json = serde_json::to_vec_pretty(&wire).map_err(|error| failed(error.into()))?;
        if u64::try_from(json.len()).unwrap_or(u64::MAX) > file::LENGTH_MAX {
            return Err(TrustError::TooMany);
        }
        replace(&path, &json).map_err(failed)?;
    }
    Ok(changed)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let mut new = open_own(&unfinished)?;
    // One that died may have left something.
    new.set_len(0)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// A file for its owner only.
fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
