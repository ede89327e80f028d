//! The log file of hooks and proxies, `hook.log`, with one line per problem. These processes need a
//! log file because users do not see their standard error.
//!
//! The log is in the data directory, or in the user's cache folder if the data directory is not
//! writable. A log longer than 1 MiB is renamed to `hook.log.old`, which replaces an older file of
//! that name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use midcourse::{DataDir, now};

use crate::terminal::sanitized;

/// If the log file has more bytes than this, it is renamed to `….log.old`, and a new one is begun.
const MAX_LOG_LEN: u64 = 1024 * 1024;

const MAX_LINE_CHARS: usize = 500;

#[derive(Clone)]
pub(crate) struct Log {
    /// Where to write the log, in order of preference. The first file that can be written is used.
    files: Vec<PathBuf>,
    writer: String,
}

impl Log {
    /// The log of a data directory; without one, the log in the user's cache folder. Each line
    /// names the `writer`, such as `proxy` or the host whose hook writes the line.
    pub(crate) fn new(data_dir: Option<&DataDir>, writer: &str) -> Self {
        let main = data_dir.map(DataDir::log_file);
        let cache = dirs::cache_dir().map(|folder| folder.join("midcourse").join("hook.log"));
        Self { files: main.into_iter().chain(cache).collect(), writer: writer.to_owned() }
    }

    /// The log `run.log`, beside `hook.log`. It contains what `midcourse run` tells the user about
    /// the command while it runs, if that cannot be shown on the terminal. Its lines need not be
    /// problems.
    #[cfg_attr(not(all(unix, feature = "proxy")), expect(dead_code, reason = "for the proxy"))]
    pub(crate) fn of_notices(data_dir: &DataDir) -> Self {
        let files = vec![data_dir.log_file().with_file_name("run.log")];
        Self { files, writer: "run".to_owned() }
    }

    /// The path of the log file, if any process wrote to the file within the last `time`.
    pub(crate) fn written_within(&self, time: Duration) -> Option<&Path> {
        let is_recent = |file: &&PathBuf| {
            let modified = file.metadata().and_then(|found| found.modified());
            modified.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago <= time))
        };
        self.files.iter().find(is_recent).map(PathBuf::as_path)
    }

    /// The lines that any process wrote within the last `time`, oldest first, each with its file.
    pub(crate) fn lines_within(&self, time: Duration) -> Vec<(&Path, String)> {
        let first = i64::try_from(now().unix_ms().saturating_sub(millis(time))).unwrap_or_default();
        let is_recent = |line: &&str| {
            let at = line.split_once(' ').and_then(|(at, _)| at.parse::<jiff::Timestamp>().ok());
            at.is_some_and(|at| at.as_millisecond() >= first)
        };
        let mut lines = Vec::new();
        for file in &self.files {
            let bytes = fs::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let recent = text.lines().filter(is_recent);
            lines.extend(recent.map(|line| (file.as_path(), line.to_owned())));
        }
        lines
    }

    /// Writes a line to the first of `files` that can be written. If none can be written, the line
    /// is lost: there is nowhere to report the error.
    pub(crate) fn write(&self, message: &str) {
        let at = i64::try_from(now().unix_ms()).ok();
        let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        let message: String = sanitized(message).chars().take(MAX_LINE_CHARS).collect();
        let line = format!("{at:.3} {}: {}\n", sanitized(&self.writer), message.replace('\n', " "));
        let _ = self.files.iter().find(|file| append(file, &line).is_ok());
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    if file.metadata().is_ok_and(|found| found.len() > MAX_LOG_LEN) {
        // Ignore an error: another process may have just renamed the file.
        let _ = fs::rename(file, file.with_extension("log.old"));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use midcourse::DataDir;

    use super::Log;

    #[test]
    fn only_recent_lines_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path());
        fs::write(data_dir.log_file(), "2020-01-01T00:00:00.000Z codex: old\nno time\n").unwrap();
        let mut log = Log::new(Some(&data_dir), "codex");
        log.files.truncate(1);
        log.write("the store is locked");
        let lines = log.lines_within(Duration::from_secs(3_600));
        let [(file, line)] = lines.try_into().unwrap();
        assert_eq!(file, data_dir.log_file());
        assert!(line.ends_with("codex: the store is locked"), "{line}");
    }
}
