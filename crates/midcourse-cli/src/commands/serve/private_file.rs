//! Reads files with secrets: the people file and the key of a certificate. A file that other users
//! could read or change is refused.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The size limit of such a file. A people file of this size has thousands of entries.
const MAX_LEN: u64 = 1024 * 1024;

/// The text of a file with secrets.
pub(super) fn read(path: &Path) -> Result<String> {
    let place = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {}", place()))?;
    let found = file.metadata().with_context(|| format!("cannot read {}", place()))?;
    ensure!(found.is_file(), "{} is not a regular file", place());
    check_permissions(&found, path)?;
    let mut text = String::new();
    file.take(MAX_LEN + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", place()))?;
    ensure!(
        u64::try_from(text.len()).is_ok_and(|len| len <= MAX_LEN),
        "{} is longer than 1 MiB",
        place()
    );
    Ok(text)
}

/// The file may be readable by its group, because a service often gets its secrets that way.
#[cfg(unix)]
fn check_permissions(found: &std::fs::Metadata, path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    const FORBIDDEN: u32 = 0o026;
    ensure!(
        found.mode() & FORBIDDEN == 0,
        "other users can read or change {} (mode {:o}); run `chmod 600 {}`",
        path.display(),
        found.mode() & 0o777,
        path.display()
    );
    let user = rustix::process::geteuid().as_raw();
    ensure!(
        found.uid() == 0 || found.uid() == user,
        "{} belongs to another user; run `chown {user} {}`",
        path.display(),
        path.display()
    );
    Ok(())
}

#[cfg(not(unix))]
fn check_permissions(_: &std::fs::Metadata, _: &Path) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_or_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.toml");
        std::fs::write(&path, "text").unwrap();
        let read_with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        assert_eq!(read_with(0o600).unwrap(), "text");
        assert_eq!(read_with(0o640).unwrap(), "text");
        for mode in [0o644, 0o660, 0o602, 0o666] {
            let error = read_with(mode).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        assert!(read(folder.path()).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.toml");
        std::fs::write(&path, "x".repeat(1024 * 1024 + 1)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("1 MiB"));
    }
}
