//! Connections to the store for the requests of the page. Each request reads on a thread where it may
//! block, with a connection of its own. The number of readers is limited, so that memory does not
//! grow with the number of requests.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use midcourse::{DataDir, Store};
use tokio::sync::Semaphore;

use super::responses::Failure;

/// How many requests read from the store at once; others wait.
pub(super) const MAX_READERS: usize = 4;

pub(super) struct Stores {
    data_dir: Mutex<DataDir>,
    idle: Mutex<Vec<OpenStore>>,
    readers: Semaphore,
}

/// A store, and which file it was when it was opened.
struct OpenStore {
    store: Store,
    file: Option<FileId>,
}

/// Identifies a file. `midcourse restore` and `delete --all` put another file in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    pub(super) fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let about = std::fs::metadata(path).ok()?;
            Some(Self(about.dev(), about.ino()))
        }
        #[cfg(not(unix))]
        path.exists().then_some(Self(0, 0))
    }
}

impl Stores {
    pub(super) fn new(data_dir: DataDir) -> Arc<Self> {
        let readers = Semaphore::new(MAX_READERS);
        Arc::new(Self { data_dir: Mutex::new(data_dir), idle: Mutex::default(), readers })
    }

    pub(super) fn data_dir(&self) -> DataDir {
        self.data_dir.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads from another data directory from now on.
    #[cfg(feature = "fleet")]
    pub(super) fn move_to(&self, data_dir: DataDir) {
        *self.data_dir.lock().unwrap_or_else(PoisonError::into_inner) = data_dir;
    }

    /// Opens the store for reading.
    pub(super) fn open(&self) -> Result<Store> {
        let data_dir = self.data_dir();
        let place = || data_dir.path().display().to_string();
        let store = Store::open_read_only(&data_dir).with_context(place)?;
        store.with_context(|| format!("there is no store in {} any more", place()))
    }

    /// Runs `read` with a store, on a thread where it may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let _permit = self.readers.acquire().await.map_err(|_| Failure::stopping())?;
        let stores = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let open = stores.take()?;
            let result = read(&open.store);
            if result.is_ok() {
                stores.idle().push(open);
            }
            result
        });
        task.await.unwrap_or_else(|_| Err(Failure::stopping()))
    }

    fn take(&self) -> Result<OpenStore> {
        let file = FileId::of(&self.data_dir().store_file());
        let idle = self.idle().pop();
        match idle.filter(|open| open.file == file) {
            Some(open) => Ok(open),
            None => Ok(OpenStore { store: self.open()?, file }),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<OpenStore>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
