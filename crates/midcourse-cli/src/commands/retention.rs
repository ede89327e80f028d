//! Removes old runs automatically, if the user's configuration asks for it (`[retention]`).
//!
//! A separate process, `midcourse prune`, does the work. Nobody waits for it, so neither the agent
//! nor its user is delayed. It is started at most once a day: by the hook at the end of a session,
//! or at the end of `midcourse run`.

use std::fs::{self, File};
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use midcourse::DataDir;

use crate::config::{Retention, users_retention};

/// Time between two removals.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Starts the removal of old runs if it is due. Ignores errors: a later call tries again.
pub(super) fn start(data_dir: &DataDir) {
    let retention = users_retention(data_dir);
    if retention != Retention::default() && is_due(data_dir) {
        let _ = spawn(data_dir, retention);
    }
}

/// Whether the last removal began at least [`INTERVAL`] ago. If so, updates the file whose
/// modification time says when the last removal began.
fn is_due(data_dir: &DataDir) -> bool {
    let file = data_dir.path().join("pruned");
    let last = fs::metadata(&file).and_then(|file| file.modified()).ok();
    let is_recent = last.and_then(|at| at.elapsed().ok()).is_some_and(|age| age < INTERVAL);
    !is_recent && File::create(file).is_ok()
}

fn spawn(data_dir: &DataDir, retention: Retention) -> io::Result<()> {
    let mut prune = Command::new(std::env::current_exe()?);
    prune.args(["prune", "--yes", "--json"]);
    if let Some(age) = retention.max_age {
        prune.args(["--older-than", &format!("{}s", age.as_secs())]);
    }
    if let Some(size) = retention.max_size {
        prune.args(["--max-size", &format!("{}MB", size / 1_000_000)]);
    }
    prune.env("MIDCOURSE_HOME", data_dir.path());
    prune.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Use a separate process group, so that signals from the terminal do not reach the process.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut prune, 0);
    prune.spawn().map(drop)
}
