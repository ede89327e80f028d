//! The log of hooks and proxies: what went wrong, one line each, since nobody reads their standard
//! error.
//!
//! It is in the home folder; where that cannot be written, in the user's folder for caches. It is
//! kept short: a long one becomes `hook.log.old`, and the one before that goes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use midcourse::{DataDir, now};

use crate::terminal::sanitized;

/// Where a new log is begun, in bytes.
const LENGTH_MAX: u64 = 1024 * 1024;

/// The longest line, in characters.
const LINE_MAX: usize = 500;

/// A log, and who writes to it.
pub(crate) struct Log {
    files: Vec<PathBuf>,
    who: String,
}

impl Log {
    /// The log of a home.
    pub(crate) fn new(home: Option<&DataDir>, who: &str) -> Self {
        let home = home.map(DataDir::log_file);
        let cache = dirs::cache_dir().map(|folder| folder.join("midcourse").join("hook.log"));
        Self { files: home.into_iter().chain(cache).collect(), who: who.to_owned() }
    }

    /// The file that something was written to not longer ago than this.
    pub(crate) fn written_within(&self, length: Duration) -> Option<&Path> {
        let is_new = |file: &&PathBuf| {
            let modified = file.metadata().and_then(|found| found.modified());
            modified.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago <= length))
        };
        self.files.iter().find(is_new).map(PathBuf::as_path)
    }

    /// Writes a line where it can be written. If it cannot, there is nobody left to tell.
    pub(crate) fn write(&self, what: &str) {
        let at = i64::try_from(now().unix_ms()).ok();
        let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        let words: String = sanitized(what).chars().take(LINE_MAX).collect();
        let line = format!("{at:.3} {}: {}\n", sanitized(&self.who), words.replace('\n', " "));
        let _ = self.files.iter().find(|file| append(file, &line).is_ok());
    }
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    if file.metadata().is_ok_and(|found| found.len() > LENGTH_MAX) {
        // Another process may be faster: then there is a short one already.
        let _ = fs::rename(file, file.with_extension("log.old"));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(line.as_bytes())
}
