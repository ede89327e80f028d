//! Ids for tool calls of hosts whose hooks report none. A file per run has the calls that began: the
//! end of a call gets the id of the latest open call of the same tool with the same arguments, so
//! parallel and repeated calls stay distinct. If hooks are installed twice, with different commands,
//! both report an event with the same time, and it gets one id. Equal calls that begin at the same
//! time have one id each, because the same hook command reports both.
//!
//! Hooks of one run may run at the same time, so the file is locked while it is changed. Without the
//! file, a call gets an id of its own, and its start and end are not connected.

use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use midcourse::{DataDir, now};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::hosts::UnnamedCall;

/// How the ids begin.
pub(in crate::commands) const NUMBERED_CALL: &str = "call-";

/// How long a hook waits for another hook of the same run to change the file.
const LOCK_TIMEOUT: Duration = Duration::from_millis(300);

const RETRY_INTERVAL: Duration = Duration::from_micros(500);

/// Maximum number of calls in the file. The oldest call is dropped first.
const MAX_CALLS: usize = 256;

/// After this time, the file of a run without a recorded end is removed.
const RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Calls {
    /// How many calls the run has had.
    count: u64,
    calls: Vec<Call>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Call {
    id: String,
    kind: u64,
    started: Option<Reported>,
    ended: Option<Reported>,
}

/// The start or the end of a call.
#[derive(Debug, Serialize, Deserialize)]
struct Reported {
    /// When it happened, as the host writes it.
    time: String,
    /// The hook commands that reported it.
    by: Vec<u64>,
}

/// The id of the call that `call` reports.
pub(super) fn assign(data_dir: Option<&DataDir>, run: &str, call: &UnnamedCall) -> String {
    let mut reporter = DefaultHasher::new();
    std::env::args_os().collect::<Vec<_>>().hash(&mut reporter);
    assign_within(LOCK_TIMEOUT, data_dir, run, call, reporter.finish())
}

/// `reporter` identifies the command of the hook.
fn assign_within(
    timeout: Duration,
    data_dir: Option<&DataDir>,
    run: &str,
    call: &UnnamedCall,
    reporter: u64,
) -> String {
    let assign = || -> std::io::Result<String> {
        let data_dir = data_dir.ok_or(std::io::ErrorKind::NotFound)?;
        let path = file(data_dir, run).ok_or(std::io::ErrorKind::InvalidInput)?;
        let folder = path.parent().unwrap_or(data_dir.path());
        data_dir.create(folder)?;
        let mut file = lock(&path, timeout)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        if text.is_empty() {
            remove_old(folder);
        }
        let mut calls: Calls = serde_json::from_slice(&text).unwrap_or_default();
        let id = calls.assign(call, reporter);
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(&calls)?)?;
        Ok(id)
    };
    assign().unwrap_or_else(|_| format!("{NUMBERED_CALL}{}", Uuid::now_v7()))
}

/// Removes the file of a run that has ended. Ids contain the time of the call, so a resumed run does
/// not use them again.
pub(super) fn forget(data_dir: &DataDir, run: &str) {
    if let Some(path) = file(data_dir, run) {
        // It may not exist.
        let _ = std::fs::remove_file(path);
    }
}

/// The path of a run's file; `None` if the run's id cannot be a file name.
fn file(data_dir: &DataDir, run: &str) -> Option<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = !run.is_empty() && run.len() <= 128 && run.bytes().all(is_plain);
    is_name.then(|| data_dir.path().join("calls").join(format!("{run}.json")))
}

fn lock(path: &Path, timeout: Duration) -> std::io::Result<File> {
    let start = Instant::now();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < timeout => {
                thread::sleep(RETRY_INTERVAL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the files of runs that ended long ago without a report.
fn remove_old(folder: &Path) {
    let limit = u128::from(now().unix_ms()).saturating_sub(RETENTION.as_millis());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|it| it.modified()).ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        if modified.is_some_and(|time| time.as_millis() < limit) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Calls {
    fn assign(&mut self, report: &UnnamedCall, reporter: u64) -> String {
        let UnnamedCall { kind, is_start, ref time } = *report;
        let mut open = None;
        for call in self.calls.iter_mut().filter(|call| call.kind == kind) {
            match if is_start { &mut call.started } else { &mut call.ended } {
                Some(known) if known.time == *time && !known.by.contains(&reporter) => {
                    known.by.push(reporter);
                    return call.id.clone();
                }
                None if !is_start => open = Some(call),
                _ => {}
            }
        }
        let reported = Some(Reported { time: time.clone(), by: vec![reporter] });
        if let Some(call) = open {
            call.ended = reported;
            return call.id.clone();
        }
        self.count = self.count.saturating_add(1);
        let id = format!("{NUMBERED_CALL}{}-{time}", self.count);
        let (started, ended) = if is_start { (reported, None) } else { (None, reported) };
        if self.calls.len() >= MAX_CALLS {
            self.calls.remove(0);
        }
        self.calls.push(Call { id: id.clone(), kind, started, ended });
        id
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use midcourse::DataDir;

    use super::{Calls, MAX_CALLS, assign, assign_within, forget};
    use crate::hosts::UnnamedCall;

    /// Enough for all threads of a test on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn report(kind: u64, is_start: bool, time: &str) -> UnnamedCall {
        UnnamedCall { kind, is_start, time: time.to_owned() }
    }

    #[test]
    fn the_end_of_a_call_gets_the_id_of_its_start() {
        let mut calls = Calls::default();
        let mut by =
            |kind, is_start, time, reporter| calls.assign(&report(kind, is_start, time), reporter);
        let first = by(1, true, "t0", 7);
        assert_eq!(first, "call-1-t0");
        assert_eq!(by(1, true, "t0", 8), first, "a second report of the start");
        let mut id = |kind, is_start, time| by(kind, is_start, time, 7);
        let other = id(2, true, "t0");
        assert_ne!(other, first, "another call at the same time");
        let parallel = id(1, true, "t1");
        assert_ne!(parallel, first, "an equal call in parallel");
        let ends = [id(1, false, "t2"), id(1, false, "t3")];
        assert!(ends.contains(&first) && ends.contains(&parallel), "{ends:?}");
        let again = id(1, true, "t4");
        assert!(again != first && again != parallel, "the same call again");
        assert_eq!(id(1, false, "t5"), again);
        assert_eq!(id(2, false, "t6"), other);
        assert_eq!(id(3, false, "t7"), "call-5-t7", "an end without a start");
    }

    #[test]
    fn equal_calls_at_the_same_time_are_distinct_also_if_reported_twice() {
        let mut calls = Calls::default();
        let mut ids = Vec::new();
        for (is_start, time) in [(true, "t0"), (false, "t1")] {
            for reporter in [7, 7, 8, 8] {
                ids.push(calls.assign(&report(1, is_start, time), reporter));
            }
        }
        let (starts, ends) = ids.split_at(4);
        assert_eq!(starts, ["call-1-t0", "call-2-t0", "call-1-t0", "call-2-t0"]);
        assert_eq!(ends, ["call-2-t0", "call-1-t0", "call-1-t0", "call-2-t0"]);
    }

    #[test]
    fn a_call_that_never_ended_does_not_take_the_end_of_a_later_one() {
        let mut calls = Calls::default();
        calls.assign(&report(1, true, "t0"), 7);
        let later = calls.assign(&report(1, true, "t1"), 7);
        assert_eq!(calls.assign(&report(1, false, "t2"), 7), later);
    }

    #[test]
    fn the_file_is_bounded_and_survives_concurrent_hooks() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Arc::new(DataDir::at(folder.path()));
        let threads = (0..8).map(|thread| {
            let data_dir = Arc::clone(&data_dir);
            std::thread::spawn(move || {
                let reports = (0..4).map(|n| report(1, true, &format!("t{thread}.{n}")));
                let assign = |it| assign_within(PATIENCE, Some(&data_dir), "run-1", &it, 7);
                reports.map(assign).collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut ids: Vec<String> = threads.into_iter().flat_map(|it| it.join().unwrap()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 32, "{ids:?}");
        assert!(ids.iter().any(|id| id.starts_with("call-32-")), "{ids:?}");
        let mut calls = Calls::default();
        for n in 0..=MAX_CALLS {
            calls.assign(&report(1, true, &n.to_string()), 7);
        }
        assert_eq!(calls.calls.len(), MAX_CALLS);
        forget(&data_dir, "run-1");
        assert!(!folder.path().join("calls/run-1.json").exists());
    }

    #[test]
    fn without_a_file_each_report_gets_an_id() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path());
        let call = report(1, true, "t");
        for (data_dir, run) in [(None, "run"), (Some(&data_dir), "../run"), (Some(&data_dir), "")] {
            let ids = [assign(data_dir, run, &call), assign(data_dir, run, &call)];
            assert_ne!(ids[0], ids[1]);
        }
        std::fs::create_dir_all(folder.path().join("calls")).unwrap();
        std::fs::write(folder.path().join("calls/run.json"), "torn {").unwrap();
        assert_eq!(assign(Some(&data_dir), "run", &call), "call-1-t");
    }
}
