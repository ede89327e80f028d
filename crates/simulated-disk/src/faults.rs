//! Faults that a test can inject into the simulated disk: it is full, broken, slow or read-only, or
//! it ignores syncs.
//!
//! A fault is one line of a file that `shim.c` reads at every operation, so a test can break and
//! repair the disk while the recorded process runs. A fault can begin at the n-th operation; the
//! count starts when the test sets the faults and includes the operations of all processes.

/// A failure of certain operations on certain files.
///
/// The fault applies to the paths (relative to the root) that match its glob; `*` also matches
/// slashes. When a folder is synced, its path ends in a slash, and the path of the root is `./`, so
/// `*/` matches all syncs of folders.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Letters for the operations that fail. `w`: writing and changing the length; `s`: syncing;
    /// `n`: opening for writing, creating, renaming, linking and removing.
    kinds: &'static str,
    /// The error number that the operation reports. With zero the operation reports success, but a
    /// write stores only half of the data, and a sync does nothing.
    errno: u32,
    /// Which of the matching operations is the first that fails, counted from 1.
    first: u64,
    /// How many matching operations fail, from `first` on.
    times: u64,
    glob: String,
}

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const EROFS: u32 = 30;

/// Stands for an operation that is slow. `shim.c` knows this number.
const SLOW: u32 = 9999;

impl Fault {
    fn new(kinds: &'static str, errno: u32) -> Self {
        Self { kinds, errno, first: 1, times: u64::MAX, glob: "*".to_owned() }
    }

    /// Writing and changing the length fail, because the disk is full.
    pub fn no_space() -> Self {
        Self::new("w", ENOSPC)
    }

    /// Writes store only the first half of the data, and report that length.
    pub fn short_write() -> Self {
        Self::new("w", 0)
    }

    /// Syncs fail. The data may be lost in a power cut even if a later sync succeeds.
    pub fn sync_error() -> Self {
        Self::new("s", EIO)
    }

    /// Syncs take longer than a hook may take, and then succeed.
    pub fn slow_sync() -> Self {
        Self::new("s", SLOW)
    }

    /// Nothing can be written, created, renamed or removed.
    pub fn read_only() -> Self {
        Self::new("wn", EROFS)
    }

    /// Syncs report success and do nothing, as if the program never synced.
    pub fn dropped_sync() -> Self {
        Self::new("s", 0)
    }

    /// Lets the first `first - 1` matching operations succeed. The default is that none succeeds.
    pub fn from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// Applies the fault to at most this many matching operations. The default is no limit.
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Applies the fault only to paths that match this glob. The default is `*`, all paths.
    pub fn on(self, glob: &str) -> Self {
        assert!(!glob.contains(char::is_whitespace) && glob.len() < 256, "invalid glob: {glob}");
        Self { glob: glob.to_owned(), ..self }
    }

    /// The fault as a line in the file that `shim.c` reads.
    pub(super) fn line(&self) -> String {
        let Self { kinds, errno, first, times, glob } = self;
        format!("{kinds} {errno} {first} {times} {glob}\n")
    }
}
