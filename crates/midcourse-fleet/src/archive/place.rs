//! Where archives are: a folder, or a place in an object store.

use std::fs::{DirBuilder, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    GetResultPayload, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload,
};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use super::error::ArchiveError;
use super::manifest::FileInfo;
use super::s3;

/// The folder of the manifests.
const MANIFESTS: &str = "manifests";

/// Longer files are uploaded in several requests, each of this size.
const UPLOAD_BYTES: usize = 16 * 1024 * 1024;

/// Manifests longer than this are not read.
const MAX_MANIFEST_BYTES: u64 = 256 * 1024 * 1024;

/// A folder or a place in an object store, with archives in it.
#[derive(Debug)]
pub struct ArchivePlace {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
    name: String,
    /// Where temporary files are made.
    scratch: PathBuf,
}

impl ArchivePlace {
    /// The place with this address: a folder, or `s3://bucket/prefix`.
    pub fn open(address: &str) -> Result<Self, ArchiveError> {
        if Self::is_in_object_store(address) {
            let (store, prefix) = s3::connect(address)?;
            return Self::new(store, prefix, address.to_owned(), std::env::temp_dir());
        }
        let folder = PathBuf::from(address);
        let failed = |error| ArchiveError::place(format!("cannot open {address}"), &error);
        // Files are synced, so that a manifest never names one that is not on the disk.
        let store = LocalFileSystem::new_with_prefix(&folder).map_err(failed)?.with_fsync(true);
        Self::new(Arc::new(store), Path::default(), address.to_owned(), folder)
    }

    /// Like [`Self::open`], but makes the folder if it does not exist. Nobody but the user can read a
    /// folder that this function has made.
    pub fn create(address: &str) -> Result<Self, ArchiveError> {
        if !Self::is_in_object_store(address) {
            let failed = |error| ArchiveError::File(address.to_owned(), error);
            let mut folder = DirBuilder::new();
            folder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
            folder.create(address).map_err(failed)?;
        }
        Self::open(address)
    }

    /// A place in an object store of the caller.
    pub fn in_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, ArchiveError> {
        let invalid = |_| ArchiveError::Address(prefix.to_owned());
        let prefix = Path::parse(prefix).map_err(invalid)?;
        let name = store.to_string();
        Self::new(store, prefix, name, std::env::temp_dir())
    }

    fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        name: String,
        scratch: PathBuf,
    ) -> Result<Self, ArchiveError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ArchiveError::File(name.clone(), error))?;
        Ok(Self { store, prefix, runtime, name, scratch })
    }

    /// Whether an address is one of an object store, and not a folder.
    pub fn is_in_object_store(address: &str) -> bool {
        s3::parse(address).is_some()
    }

    /// The address, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file that does not outlive the process.
    pub(super) fn temporary_file(&self) -> Result<File, ArchiveError> {
        tempfile::tempfile_in(&self.scratch)
            .map_err(|error| ArchiveError::File(self.scratch.display().to_string(), error))
    }

    fn path(&self, name: &str) -> Result<Path, ArchiveError> {
        let below = Path::parse(name);
        let below = below.map_err(|_| ArchiveError::damaged(format!("invalid path `{name}`")))?;
        Ok(self.prefix.parts().chain(below.parts()).collect())
    }

    fn failed(&self, what: &str, name: &str) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let what = format!("cannot {what} {name} in {}", self.name);
        move |error| ArchiveError::place(what, &error)
    }

    /// Writes a manifest. All files that it names must have been written.
    pub(super) fn put_manifest(&self, id: &str, json: Vec<u8>) -> Result<String, ArchiveError> {
        let name = format!("{MANIFESTS}/{id}.json");
        let path = self.path(&name)?;
        let put = self.store.put(&path, PutPayload::from(json));
        self.runtime.block_on(put).map_err(self.failed("write", &name))?;
        Ok(name)
    }

    /// Copies a temporary file to the place. It appears there when it is complete.
    pub(super) fn put_file(&self, name: &str, file: &mut File) -> Result<(), ArchiveError> {
        let path = self.path(name)?;
        file.seek(SeekFrom::Start(0)).map_err(ArchiveError::temporary)?;
        let first = next_piece(file)?;
        if first.len() < UPLOAD_BYTES {
            let put = self.store.put(&path, PutPayload::from(first));
            self.runtime.block_on(put).map_err(self.failed("write", name))?;
            return Ok(());
        }
        let upload = self.runtime.block_on(self.store.put_multipart(&path));
        let mut upload = upload.map_err(self.failed("write", name))?;
        let result = self.upload(name, &mut *upload, first, file);
        if result.is_err() {
            let _ = self.runtime.block_on(upload.abort());
        }
        result
    }

    fn upload(
        &self,
        name: &str,
        upload: &mut dyn MultipartUpload,
        first: Bytes,
        file: &mut File,
    ) -> Result<(), ArchiveError> {
        let mut piece = first;
        while !piece.is_empty() {
            let put = upload.put_part(PutPayload::from(piece));
            self.runtime.block_on(put).map_err(self.failed("write", name))?;
            piece = next_piece(file)?;
        }
        self.runtime.block_on(upload.complete()).map_err(self.failed("write", name))?;
        Ok(())
    }

    /// Deletes a file that no manifest names. Ignores errors: the file is not part of any archive.
    pub(super) fn delete(&self, name: &str) {
        if let Ok(path) = self.path(name) {
            let _ = self.runtime.block_on(self.store.delete(&path));
        }
    }

    /// The names and the content of all manifests, the oldest archive first.
    pub(super) fn manifests(&self) -> Result<Vec<(String, Bytes)>, ArchiveError> {
        let folder = self.path(MANIFESTS)?;
        let list = self.store.list(Some(&folder)).try_collect::<Vec<_>>();
        let mut found = self.runtime.block_on(list).map_err(self.failed("list", MANIFESTS))?;
        found.retain(|file| file.location.extension() == Some("json"));
        found.sort_by(|a, b| a.location.cmp(&b.location));
        let read = found.into_iter().map(|file| {
            let name = format!("{MANIFESTS}/{}", file.location.filename().unwrap_or_default());
            if file.size > MAX_MANIFEST_BYTES {
                return Err(ArchiveError::damaged(format!("{name} is too long for a manifest")));
            }
            let bytes = self
                .runtime
                .block_on(async { self.store.get(&file.location).await?.bytes().await });
            Ok((name.clone(), bytes.map_err(self.failed("read", &name))?))
        });
        read.collect()
    }

    /// Opens a file of an archive, after its size and hash were compared with those in the manifest.
    pub(super) fn open_file(&self, info: &FileInfo) -> Result<File, ArchiveError> {
        let path = self.path(&info.path)?;
        let found = self.runtime.block_on(self.store.get(&path));
        let found = found.map_err(|error| match error {
            object_store::Error::NotFound { .. } => {
                ArchiveError::damaged(format!("the file {} is missing", info.path))
            }
            error => self.failed("read", &info.path)(error),
        })?;
        let size = found.meta.size;
        if size != info.bytes {
            let what = format!("{} has {size} bytes instead of {}", info.path, info.bytes);
            return Err(ArchiveError::damaged(what));
        }
        let mut hash = Sha256::new();
        let mut file = match found.payload {
            GetResultPayload::File(mut file, _) => {
                hash_file(&mut file, &mut hash)
                    .map_err(|error| ArchiveError::File(info.path.clone(), error))?;
                file
            }
            GetResultPayload::Stream(mut stream) => {
                let mut file = self.temporary_file()?;
                while let Some(piece) = self
                    .runtime
                    .block_on(stream.try_next())
                    .map_err(self.failed("read", &info.path))?
                {
                    hash.update(&piece);
                    file.write_all(&piece).map_err(ArchiveError::temporary)?;
                }
                file
            }
        };
        if hex(&hash.finalize()) != info.sha256 {
            let what = format!("{} was changed: its hash is not that of the manifest", info.path);
            return Err(ArchiveError::damaged(what));
        }
        file.seek(SeekFrom::Start(0)).map_err(ArchiveError::temporary)?;
        Ok(file)
    }
}

/// The next bytes of a file: [`UPLOAD_BYTES`], or fewer at its end.
fn next_piece(file: &mut File) -> Result<Bytes, ArchiveError> {
    let mut piece = Vec::new();
    let limit = u64::try_from(UPLOAD_BYTES).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut piece).map_err(ArchiveError::temporary)?;
    Ok(piece.into())
}

fn hash_file(file: &mut File, hash: &mut Sha256) -> std::io::Result<()> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        match buffer.get(..read) {
            Some(piece) if !piece.is_empty() => hash.update(piece),
            _ => return Ok(()),
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
