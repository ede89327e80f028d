//! Reads and replaces a file that belongs to the user, such as the settings of a coding agent.
//!
//! A replacement is complete or does not happen: the new content goes to a temporary file in the same
//! folder, which is synced and renamed. Mode and owner stay. If the file is a symlink, its target is
//! replaced and the link stays. A file that somebody has changed since it was read is not replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use midcourse::sync_folder;

/// Why a file was not read or replaced. In each case the file is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserFileError {
    #[error("{} is a symlink to a file that does not exist; create that file or remove the link", .0.display())]
    DanglingLink(PathBuf),
    #[error("{} is a folder; move it away, a file has to be there", .0.display())]
    IsFolder(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("{} is read-only; make it writable (chmod u+w), or change it where it comes from", .0.display())]
    ReadOnly(PathBuf),
    #[error("you may not write {}; check its owner and permissions", .0.display())]
    NoPermission(PathBuf),
    #[error("{} was changed by another program just now; try again", .0.display())]
    Changed(PathBuf),
    #[error("cannot {action} {}: {error}", path.display())]
    Io { action: &'static str, path: PathBuf, error: io::Error },
}

/// A file of the user, as it was when it was read.
#[derive(Debug)]
pub(crate) struct UserFile {
    /// Where the file is, behind symlinks.
    target: PathBuf,
    /// `None` if there was no file.
    content: Option<Vec<u8>>,
}

impl UserFile {
    pub(crate) fn read(path: &Path) -> Result<Self, UserFileError> {
        let failed = |error| io_error("read", path, error);
        match fs::symlink_metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { target: path.to_owned(), content: None });
            }
            Err(error) => return Err(failed(error)),
        }
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(UserFileError::DanglingLink(path.to_owned()));
            }
            Err(error) => return Err(failed(error)),
        };
        let found = fs::metadata(&target).map_err(failed)?;
        if found.is_dir() {
            return Err(UserFileError::IsFolder(path.to_owned()));
        }
        if !found.is_file() {
            return Err(UserFileError::NotRegular(path.to_owned()));
        }
        let content = fs::read(&target).map_err(failed)?;
        Ok(Self { target, content: Some(content) })
    }

    pub(crate) fn content(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }

    /// Checks that the file may be changed. A rename could replace a file that its owner has
    /// protected from changes, so this is checked separately.
    pub(crate) fn check_writable(&self) -> Result<(), UserFileError> {
        if self.content.is_none() {
            return Ok(());
        }
        let found = fs::metadata(&self.target);
        if found.is_ok_and(|found| found.permissions().readonly()) {
            return Err(UserFileError::ReadOnly(self.target.clone()));
        }
        let opened = OpenOptions::new().append(true).open(&self.target);
        opened.map(drop).map_err(|error| io_error("write", &self.target, error))
    }

    /// Replaces or creates the file. Returns the folders that had to be created, outermost first.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<Vec<PathBuf>, UserFileError> {
        self.check_writable()?;
        let folder = self.target.parent().unwrap_or_else(|| Path::new("."));
        let created = create_folders(folder)?;
        let name = self.target.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.join(format!(".{name}.midcourse-{}", std::process::id()));
        let result = self.write_and_rename(&temporary, content);
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
            remove_empty_folders(&created);
        }
        result.map(|()| created)
    }

    fn write_and_rename(&self, temporary: &Path, content: &[u8]) -> Result<(), UserFileError> {
        let failed = |error| io_error("write", &self.target, error);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if self.content.is_some() {
            // Nobody else may read the copy before it has the mode of the file.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let mut file = options.open(temporary).map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        if self.content.is_some() {
            keep_owner_and_mode(&self.target, &file).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        self.check_unchanged()?;
        fs::rename(temporary, &self.target).map_err(failed)?;
        let folder = self.target.parent().unwrap_or_else(|| Path::new("."));
        sync_folder(folder).map_err(failed)
    }

    /// Deletes the file.
    pub(crate) fn delete(&self) -> Result<(), UserFileError> {
        self.check_writable()?;
        self.check_unchanged()?;
        fs::remove_file(&self.target).map_err(|error| io_error("delete", &self.target, error))
    }

    fn check_unchanged(&self) -> Result<(), UserFileError> {
        let now = match fs::read(&self.target) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("read", &self.target, error)),
        };
        if now == self.content { Ok(()) } else { Err(UserFileError::Changed(self.target.clone())) }
    }
}

fn io_error(action: &'static str, path: &Path, error: io::Error) -> UserFileError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => UserFileError::NoPermission(path.to_owned()),
        _ => UserFileError::Io { action, path: path.to_owned(), error },
    }
}

/// Creates a folder and those above it. Returns the new ones, outermost first.
fn create_folders(folder: &Path) -> Result<Vec<PathBuf>, UserFileError> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let mut missing: Vec<PathBuf> =
        folder.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(folder).map_err(|error| io_error("create", folder, error))?;
    Ok(missing)
}

/// Removes folders that are empty, innermost first. `folders` has the outermost first.
pub(crate) fn remove_empty_folders(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        // Fails if something is in the folder, which then stays.
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(unix)]
fn keep_owner_and_mode(from: &Path, to: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let (wanted, found) = (fs::metadata(from)?, to.metadata()?);
    if (wanted.uid(), wanted.gid()) != (found.uid(), found.gid()) {
        fchown(to, Some(wanted.uid()), Some(wanted.gid()))?;
    }
    to.set_permissions(wanted.permissions())
}

#[cfg(not(unix))]
fn keep_owner_and_mode(from: &Path, to: &File) -> io::Result<()> {
    to.set_permissions(fs::metadata(from)?.permissions())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::{UserFile, UserFileError};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_symlink_stays_and_the_mode_too() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.json", &link).unwrap();
        let file = UserFile::read(&link).unwrap();
        assert_eq!(file.content(), Some(&b"old"[..]));
        assert!(file.replace(b"new").unwrap().is_empty());
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.json"));
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["link.json", "real.json"]);
    }

    #[test]
    fn a_change_of_another_program_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep/file");
        let file = UserFile::read(&path).unwrap();
        assert_eq!(file.content(), None);
        let created = file.replace(b"first").unwrap();
        assert_eq!(created, [folder.path().join("new"), folder.path().join("new/deep")]);
        let error = file.replace(b"second").unwrap_err();
        assert!(matches!(error, UserFileError::Changed(_)), "{error}");
        let file = UserFile::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(file.replace(b"ours"), Err(UserFileError::Changed(_))));
        assert!(matches!(file.delete(), Err(UserFileError::Changed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(names(path.parent().unwrap()), ["file"], "no temporary file is left");
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        fs::write(path("read-only"), "x").unwrap();
        fs::set_permissions(path("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
        let error = UserFile::read(&path("folder")).unwrap_err();
        assert!(matches!(error, UserFileError::IsFolder(_)), "{error}");
        let error = UserFile::read(&path("dangling")).unwrap_err();
        assert!(matches!(error, UserFileError::DanglingLink(_)), "{error}");
        let file = UserFile::read(&path("read-only")).unwrap();
        let error = file.replace(b"y").unwrap_err();
        assert!(matches!(error, UserFileError::ReadOnly(_)), "{error}");
        assert_eq!(fs::read_to_string(path("read-only")).unwrap(), "x");
        let error = UserFile::read(&path("read-only/below")).unwrap_err();
        assert!(error.to_string().contains("read-only/below"), "{error}");
    }
}
