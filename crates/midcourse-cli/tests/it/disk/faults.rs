//! What the recorded process may be told about its disk: full, broken, read-only, or lying.
//!
//! A fault is a line of a file the shim reads at every operation, so a test can break and heal
//! the disk while the process lives. Operations are counted over all processes, from the moment
//! the faults were set.

/// One kind of failure on some of the files.
///
/// It holds for the paths (relative to the root) that match its glob, where `*` also matches
/// slashes. In a sync a folder's path ends in a slash, and the root's is `./`; so `*/` means the
/// syncs of folders.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// `w` for writes and changes of length, `s` for syncs, `n` for opening to write, creating,
    /// renaming, linking and removing.
    kinds: &'static str,
    /// Zero does the operation by half: a short write, a sync that says it was done.
    errno: u32,
    first: u64,
    times: u64,
    glob: String,
}

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const EROFS: u32 = 30;

impl Fault {
    fn of(kinds: &'static str, errno: u32) -> Self {
        Self { kinds, errno, first: 1, times: u64::MAX, glob: "*".to_owned() }
    }

    /// Writes fail: the disk is full.
    pub(crate) fn no_space() -> Self {
        Self::of("w", ENOSPC)
    }

    /// A write takes only half of what it is given, and says so.
    pub(crate) fn short_write() -> Self {
        Self::of("w", 0)
    }

    /// Syncs fail. What they should have made durable stays in doubt, even after a later sync.
    pub(crate) fn sync_error() -> Self {
        Self::of("s", EIO)
    }

    /// Nothing can be written, created, renamed or removed.
    pub(crate) fn read_only() -> Self {
        Self::of("wn", EROFS)
    }

    /// Syncs succeed and do nothing: the program with its syncs taken out.
    pub(crate) fn dropped_sync() -> Self {
        Self::of("s", 0)
    }

    /// From the `first`-th matching operation on, counted from one.
    pub(crate) fn from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// For so many operations only.
    pub(crate) fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Only for the paths that match.
    pub(crate) fn on(self, glob: &str) -> Self {
        assert!(!glob.contains(char::is_whitespace) && glob.len() < 256, "no glob: {glob}");
        Self { glob: glob.to_owned(), ..self }
    }

    pub(super) fn line(&self) -> String {
        let Self { kinds, errno, first, times, glob } = self;
        format!("{kinds} {errno} {first} {times} {glob}\n")
    }
}
