//! Checks a data directory and its store: writable, readable, whole, and nothing waiting or lost.

use std::path::Path;
use std::time::Duration;

use midcourse::{Backlog, DataDir, Store};

use super::finding::{Area, Finding};
use super::folder;
use crate::display::one_line;
use crate::log::Log;

/// How many of the latest runs are verified. `midcourse verify` checks all of them.
const RUNS: usize = 20;

/// Less free disk space than this is worth a warning.
const MIN_FREE_BYTES: u64 = 1 << 30;

const LOG_AGE: Duration = Duration::from_secs(24 * 3_600);

/// Maximum number of characters that are shown of a line of the log.
const SHOWN_CHARS: usize = 200;

pub(super) fn check(data_dir: &DataDir) -> Area {
    let path = data_dir.path();
    let mut findings = vec![folder::check(path)];
    if let Some(filesystem) = data_dir.network_filesystem() {
        findings.push(Finding::warning(
            "filesystem",
            format!("{} is on a network filesystem ({filesystem})", path.display()),
            "set MIDCOURSE_HOME to a directory on a local disk: on this one, locks may fail and \
             records may be lost",
        ));
    }
    findings.extend(free_space(path));
    findings.extend(store(data_dir));
    findings.extend(backlog(data_dir));
    findings.push(log(data_dir));
    Area::new("store", format!("Store ({})", path.display()), findings)
}

fn free_space(path: &Path) -> Option<Finding> {
    #[cfg(unix)]
    {
        let existing = path.ancestors().find(|above| above.exists())?;
        let found = rustix::fs::statvfs(existing).ok()?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        Some(if free < MIN_FREE_BYTES {
            Finding::warning(
                "disk",
                format!("only {} are free", size(free)),
                "free some space, or remove old runs with `midcourse prune --older-than 30d`",
            )
        } else {
            Finding::ok("disk", format!("{} are free", size(free)))
        })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

fn store(data_dir: &DataDir) -> Vec<Finding> {
    const CHECK: &str = "store";
    // Opening the store would finish the work of another command.
    if data_dir.store_file().with_extension("db.replacing").exists() {
        return vec![Finding::warning(
            CHECK,
            "`midcourse restore` or `midcourse repair` is at work, or was interrupted",
            "if it is not running, `midcourse list` finishes its work",
        )];
    }
    let store = match Store::open_read_only(data_dir) {
        Ok(Some(store)) => store,
        Ok(None) => {
            return vec![Finding::note(
                CHECK,
                "nothing is recorded yet",
                "start your agent, or try `midcourse demo`",
            )];
        }
        Err(error) => return vec![Finding::problem(CHECK, error.to_string(), error.hint())],
    };
    let bytes = |path: &Path| path.metadata().map_or(0, |found| found.len());
    let file = data_dir.store_file();
    let mut log = file.clone().into_os_string();
    log.push("-wal");
    let counted = store.schema_version().and_then(|version| Ok((version, store.run_count()?)));
    let opened = match counted {
        Err(error) => return vec![Finding::problem(CHECK, error.to_string(), error.hint())],
        Ok((version, runs)) => Finding::ok(
            CHECK,
            format!(
                "schema {version}, {runs} runs, {}; write-ahead log {}",
                size(bytes(&file)),
                size(bytes(Path::new(&log)))
            ),
        ),
    };
    let mut findings = vec![opened];
    findings.extend(latest_runs(&store));
    findings
}

/// Verifies the latest runs and counts their gap markers.
fn latest_runs(store: &Store) -> Vec<Finding> {
    const CHECK: &str = "runs";
    let (mut damage, mut gaps) = (Vec::new(), 0_usize);
    let runs = match store.runs(RUNS) {
        Ok(runs) => runs,
        Err(error) => return vec![Finding::problem(CHECK, error.to_string(), error.hint())],
    };
    for run in &runs {
        match store.verify_run(&run.run_id) {
            Ok(found) => damage.extend(found.iter().map(ToString::to_string)),
            Err(error) => damage.push(format!("{}: {error}", run.run_id)),
        }
        let found = store.records_of(run.run_id.as_str(), &["gap"]);
        gaps = gaps.saturating_add(found.map_or(0, |records| records.len()));
    }
    let count = runs.len();
    let mut findings = Vec::new();
    match damage.as_slice() {
        [] => findings.push(Finding::ok(CHECK, format!("the latest {count} runs are whole"))),
        [first, ..] => findings.push(Finding::problem(
            CHECK,
            format!(
                "the latest {count} runs have {} defects, such as: {}",
                damage.len(),
                one_line(first, SHOWN_CHARS)
            ),
            "`midcourse verify` lists the damage, `midcourse repair` saves what is whole, and \
             `midcourse restore` reads a backup",
        )),
    }
    if gaps > 0 {
        findings.push(Finding::note(
            "gaps",
            format!("the latest {count} runs have {gaps} gap markers: events were lost there"),
            "see `hook.log` for the time; `midcourse show RUN` shows where",
        ));
    }
    findings
}

fn backlog(data_dir: &DataDir) -> Vec<Finding> {
    const CHECK: &str = "spill";
    let folder = data_dir.spill_folder();
    let backlog = match Backlog::of(data_dir) {
        Ok(backlog) => backlog,
        Err(error) => {
            return vec![Finding::problem(
                CHECK,
                format!("cannot read {}: {error}", folder.display()),
                "check who owns the folder",
            )];
        }
    };
    let Backlog { spilled, in_memory, unreadable, lost } = backlog;
    let mut findings = Vec::new();
    if spilled > 0 {
        findings.push(Finding::warning(
            CHECK,
            format!("{spilled} events wait in {}; the store was busy", folder.display()),
            "`midcourse list` stores them, as does the next event",
        ));
    }
    if in_memory > 0 {
        findings.push(Finding::warning(
            CHECK,
            format!("{in_memory} events are in memory only, because the disk could not take them"),
            "free some space, then `midcourse list` stores them; a restart loses them",
        ));
    }
    if unreadable > 0 {
        findings.push(Finding::warning(
            CHECK,
            format!("{unreadable} files in {} could not be read or stored", folder.display()),
            "see the lines about them in `hook.log`; delete the files if you do not need them",
        ));
    }
    if lost > 0 {
        findings.push(Finding::warning(
            "losses",
            format!("{lost} events were lost and no gap marker records it yet"),
            "see `hook.log` for the reason; the next event of the run stores the marker",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "no event waits to be stored, and none is lost"));
    }
    findings
}

fn log(data_dir: &DataDir) -> Finding {
    const CHECK: &str = "log";
    let log = Log::new(Some(data_dir), "doctor");
    let lines = log.lines_within(LOG_AGE);
    let Some((file, last)) = lines.last() else {
        return Finding::ok(CHECK, "hooks reported no trouble in the last 24 hours");
    };
    Finding::warning(
        CHECK,
        format!(
            "hooks reported trouble {} times in the last 24 hours, the last time: {}",
            lines.len(),
            one_line(last, SHOWN_CHARS)
        ),
        format!("read {}", file.display()),
    )
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_a_readable_unit() {
        assert_eq!(size(17), "17 bytes");
        assert_eq!(size(1_536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "17179869183.9 GiB");
    }
}
