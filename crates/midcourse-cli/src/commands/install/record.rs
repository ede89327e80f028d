//! What an installation remembers: the file as it was before, and how it was afterwards. With it,
//! `midcourse uninstall` puts back the same bytes if nobody else has changed the file.
//!
//! It is in the data directory and not beside the settings file, because a copy in a project could be
//! committed. A saved original is never overwritten: its name contains the hash of its content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use midcourse::DataDir;
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::user_file::UserFile;

const FILE_NAME: &str = "install.json";

/// The folder of the data directory with one folder per installation.
const FOLDER: &str = "installed";

#[derive(Debug, Default, Serialize, Deserialize)]
struct RecordWire {
    /// The file that was changed, for people who read this file.
    file: PathBuf,
    /// The name of the saved original; `None` if there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original: Option<String>,
    /// The hash of the file with midcourse's hooks; `None` if somebody else changed the file before
    /// midcourse changed it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installed: Option<String>,
    /// Folders that were created for the file, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    created_folders: Vec<PathBuf>,
}

/// The record of one installation.
#[derive(Debug)]
pub(in crate::commands) struct Record {
    folder: PathBuf,
    wire: RecordWire,
    original: Option<Vec<u8>>,
}

impl Record {
    /// The record of an installation, in the data directory `home` that the installed command names;
    /// `None` if there is none that can be used.
    pub(in crate::commands) fn find(target: &Target, home: Option<&str>) -> Option<Self> {
        let data_dir = match home {
            Some(home) => DataDir::at(home),
            None => DataDir::of_user().ok()?,
        };
        Self::load(&Self::folder(&data_dir, target))
    }

    /// The folder for the record of this file.
    fn folder(data_dir: &DataDir, target: &Target) -> PathBuf {
        let hash = blake3::hash(target.path.as_os_str().as_encoded_bytes()).to_hex();
        let name = format!("{}-{}", target.host.name(), hash.get(..16).unwrap_or_default());
        data_dir.path().join(FOLDER).join(name)
    }

    fn load(folder: &Path) -> Option<Self> {
        let wire: RecordWire =
            serde_json::from_slice(&fs::read(folder.join(FILE_NAME)).ok()?).ok()?;
        let original = match &wire.original {
            Some(name) => Some(fs::read(folder.join(name)).ok()?),
            None => None,
        };
        Some(Self { folder: folder.to_owned(), wire, original })
    }

    /// The file before the installation; `None` if there was none.
    pub(in crate::commands) fn original(&self) -> Option<&[u8]> {
        self.original.as_deref()
    }

    /// The path of the saved original.
    pub(in crate::commands) fn original_path(&self) -> Option<PathBuf> {
        self.wire.original.as_ref().map(|name| self.folder.join(name))
    }

    /// Whether these are the bytes that the installation wrote.
    pub(in crate::commands) fn is_as_installed(&self, content: &[u8]) -> bool {
        self.wire.installed.as_deref() == Some(hash(content).as_str())
    }

    pub(in crate::commands) fn created_folders(&self) -> &[PathBuf] {
        &self.wire.created_folders
    }

    /// Saves what the file is now, before `installed` takes its place. `previous` is the record of an
    /// installation whose hooks are still in the file: its original counts.
    pub(in crate::commands) fn save(
        data_dir: &DataDir,
        target: &Target,
        now: Option<&[u8]>,
        installed: &[u8],
        previous: Option<Self>,
    ) -> Result<Self> {
        let folder = Self::folder(data_dir, target);
        let mut old_folder = None;
        let record = match previous {
            Some(previous) => {
                let is_exact = now.is_some_and(|now| previous.is_as_installed(now));
                let installed = is_exact.then(|| hash(installed));
                old_folder = Some(previous.folder).filter(|old| *old != folder);
                let wire = RecordWire { installed, ..previous.wire };
                Self { folder: folder.clone(), wire, original: previous.original }
            }
            None => {
                let name = |content: &[u8]| {
                    format!("original-{}", hash(content).get(..16).unwrap_or_default())
                };
                let wire = RecordWire {
                    file: target.path.clone(),
                    original: now.map(name),
                    installed: Some(hash(installed)),
                    created_folders: Vec::new(),
                };
                Self { folder: folder.clone(), wire, original: now.map(<[u8]>::to_vec) }
            }
        };
        let context = || format!("cannot save the original in {}", folder.display());
        data_dir.create(&folder).with_context(context)?;
        if let (Some(original), Some(path)) = (&record.original, record.original_path())
            && !path.exists()
        {
            write(&path, original).with_context(context)?;
        }
        record.write().with_context(context)?;
        if let Some(old) = old_folder.and_then(|folder| Self::load(&folder)) {
            old.remove(true);
        }
        Ok(record)
    }

    /// Remembers which folders were created for the file.
    pub(in crate::commands) fn add_folders(&mut self, folders: Vec<PathBuf>) -> Result<()> {
        if !folders.is_empty() {
            self.wire.created_folders = folders;
            self.write()?;
        }
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(&self.wire)?;
        json.push(b'\n');
        write(&self.folder.join(FILE_NAME), &json)
    }

    /// Forgets the installation. The saved original is deleted only if `with_original` is set.
    pub(in crate::commands) fn remove(&self, with_original: bool) {
        // What remains does no harm: a later installation replaces it.
        let _ = fs::remove_file(self.folder.join(FILE_NAME));
        if let Some(path) = self.original_path().filter(|_| with_original) {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Writes a file that only its owner can read, because settings may contain keys.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    UserFile::read(path)?.replace(content)?;
    restrict(path)?;
    Ok(())
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}
