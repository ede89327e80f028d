//! The key with which markers tell secrets apart.
//!
//! A marker contains a short keyed hash of the secret, so that two texts that differ only in a
//! secret still differ, and the same secret has the same marker everywhere in a store. Nobody
//! without the key can check a guess against the hash. The key is in a file of its own beside the
//! database, so a copy or an export of the records does not contain it. The file is read when the
//! first secret is found: most processes never need it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

const KEY_LEN: usize = 32;

/// The key for the hashes in markers. Without a key, markers have no hash.
#[derive(Clone)]
pub struct MarkerKey(Arc<KeySource>);

struct KeySource {
    /// `None` if the key was given as bytes.
    file: Option<PathBuf>,
    /// `None` if the file can neither be read nor created.
    bytes: OnceLock<Option<[u8; KEY_LEN]>>,
}

impl MarkerKey {
    /// A key that the caller keeps.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(Arc::new(KeySource { file: None, bytes: OnceLock::from(Some(bytes)) }))
    }

    /// The key in a file, which is created with a random key if it does not exist. The file is
    /// opened when the first secret is found. If that fails, markers have no hash.
    pub fn in_file(file: impl Into<PathBuf>) -> Self {
        Self(Arc::new(KeySource { file: Some(file.into()), bytes: OnceLock::new() }))
    }

    /// The keyed hash of a secret; `None` if there is no key.
    pub(super) fn hash(&self, secret: &[u8]) -> Option<blake3::Hash> {
        let read = || self.0.file.as_deref().and_then(|file| read_or_create(file).ok());
        let key = self.0.bytes.get_or_init(read).as_ref()?;
        Some(blake3::keyed_hash(key, secret))
    }
}

impl std::fmt::Debug for MarkerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MarkerKey").field("file", &self.0.file).finish_non_exhaustive()
    }
}

fn read_or_create(file: &Path) -> io::Result<[u8; KEY_LEN]> {
    match read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(file)?,
        done => return done,
    }
    read(file)
}

fn read(file: &Path) -> io::Result<[u8; KEY_LEN]> {
    fs::read(file)?.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Creates the file with a random key. If another process does so at the same time, its key stays.
fn create(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)?;
    }
    let unfinished = file.with_extension(format!("{}.tmp", Uuid::now_v7()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut new = options.open(&unfinished)?;
    // Version 4 UUIDs are random, so this key has 244 random bits.
    let random = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat();
    let written = new.write_all(&random).and_then(|()| new.sync_all());
    // Unlike a rename, a link fails if the file exists. Some filesystems have no links.
    let placed = written.and_then(|()| match fs::hard_link(&unfinished, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => fs::rename(&unfinished, file),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&unfinished);
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_created_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("redaction.key");
        let first = MarkerKey::in_file(&file);
        assert!(!file.exists());
        let hash = first.hash(b"secret").unwrap();
        assert_eq!(MarkerKey::in_file(&file).hash(b"secret"), Some(hash));
        assert_ne!(first.hash(b"other"), Some(hash));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        create(&file).unwrap();
        assert_eq!(MarkerKey::in_file(&file).hash(b"secret"), Some(hash));
    }

    #[test]
    fn stores_have_different_keys() {
        let folder = tempfile::tempdir().unwrap();
        let hash = |name: &str| MarkerKey::in_file(folder.path().join(name)).hash(b"secret");
        assert_ne!(hash("a"), hash("b"));
    }

    #[test]
    fn without_a_readable_key_there_is_no_hash() {
        let folder = tempfile::tempdir().unwrap();
        let short = folder.path().join("short");
        fs::write(&short, b"abc").unwrap();
        assert_eq!(MarkerKey::in_file(&short).hash(b"s"), None);
        assert_eq!(MarkerKey::in_file(short.join("file")).hash(b"s"), None);
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = format!("{:?}", MarkerKey::new([7; KEY_LEN]));
        assert!(!shown.contains('7'), "{shown}");
    }
}
