//! A disk that can lose power: records what a real process does to its files, and constructs the
//! folders that a power cut could have left. Also a disk that is full, broken or read-only.
//!
//! A kill cannot show a missing sync, because the kernel still holds what was not synced. So the
//! process runs with `shim.c` preloaded, which logs every change, name, sync and acknowledgement
//! in one order over all threads and processes; [`model`] knows what of that was durable at each
//! point. What the shim cannot see (raw system calls as rustix makes them, C's stdio, writable
//! memory maps) is found out: the log must explain the folder that the process left.
//!
//! ```ignore
//! let disk = Disk::new();
//! disk.run_child("disk::self_tests::append_lines");
//! for state in disk.crash_states(Sample::at_most(400), 7) {
//!     let folder = state.materialise();
//!     // open what is in `folder`; everything in `state.acked()` must be there
//! }
//! ```

mod chance;
mod crash;
mod faults;
mod file;
mod image;
mod log;
mod model;
mod self_tests;
mod sqlite_tests;

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::OnceLock;
use std::{env, str};

use tempfile::TempDir;

pub(crate) use crash::{CrashState, CrashStates, Sample};
pub(crate) use faults::Fault;
pub(crate) use log::Entry;

use file::Survival;
use image::Image;
use model::Model;

/// A folder whose changes are recorded, as long as they are made through [`Disk::record`].
pub(crate) struct Disk {
    home: TempDir,
    /// The folder before anything was recorded.
    start: Model,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new() -> Self {
        Self::holding(&Image::default())
    }

    /// The disk of a crash state, all of it durable: for a power cut during the recovery from one.
    pub(crate) fn after(state: &CrashState) -> Self {
        Self::holding(state.image())
    }

    fn holding(image: &Image) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir(&root).unwrap();
        image.write(&root);
        for name in ["log", "acks", "faults"] {
            File::create(home.path().join(name)).unwrap();
        }
        Self { start: Model::of_folder(&root), home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    /// The recorded folder. Change it only through recorded processes.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// Lets the command, and what it starts, be recorded.
    ///
    /// Do not kill it: between an effect and its entry that would leave a log that does not
    /// explain the folder. The state in which everything survived is what a kill leaves.
    pub(crate) fn record<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", shim())
            .env("DISK_ROOT", self.root())
            .env("DISK_LOG", self.path("log"))
            .env("DISK_ACKS", self.path("acks"))
            .env("DISK_FAULTS", self.path("faults"))
            .env("DISK_FAULT_COUNTS", self.path("fault_counts"))
    }

    /// A file in which every line is an acknowledgement, to be a recorded command's output.
    pub(crate) fn acks(&self) -> File {
        OpenOptions::new().append(true).open(self.path("acks")).unwrap()
    }

    /// A recorded process that runs one test of this binary, given by its full name. The test
    /// should be ignored otherwise, and begin with [`recorded_root`].
    pub(crate) fn child(&self, test: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        self.record(&mut command);
        command
    }

    /// Runs a [`Disk::child`] to its end, which must be a success.
    pub(crate) fn run_child(&self, test: &str) {
        let output = self.child(test).output().unwrap();
        assert_ran(test, &output);
    }

    /// The disk has these faults from now on, and no others. Processes that run notice at once.
    pub(crate) fn inject(&self, faults: &[Fault]) {
        assert!(faults.len() <= 16, "the shim knows sixteen faults at once");
        let log = self.locked_log();
        let lines: String = faults.iter().map(Fault::line).collect();
        fs::write(self.path("faults"), lines).unwrap();
        fs::write(self.path("fault_counts"), "").unwrap();
        drop(log);
    }

    /// The disk has no faults from now on.
    pub(crate) fn heal(&self) {
        self.inject(&[]);
    }

    /// While this is open, no recorded process changes anything.
    fn locked_log(&self) -> File {
        let log = File::open(self.path("log")).unwrap();
        log.lock().unwrap();
        log
    }

    /// What was recorded so far.
    ///
    /// Fails if that does not explain what is in the folder: then something was changed in a way
    /// that the shim does not see, and no crash state would mean anything.
    pub(crate) fn log(&self) -> Vec<Entry> {
        let locked = self.locked_log();
        let entries = log::parse(&fs::read(self.path("log")).unwrap());
        let found = Image::read(&self.root());
        drop(locked);
        let mut model = self.start.clone();
        entries.iter().for_each(|entry| model.apply(entry));
        let unexplained = model.after_power_cut(Survival::Everything).differences(&found);
        assert!(unexplained.is_empty(), "changed without being recorded: {unexplained:?}");
        entries
    }

    /// Disks that a power cut could have left, at points of what was recorded so far. The same
    /// log and seed give the same states.
    pub(crate) fn crash_states(&self, sample: Sample, seed: u64) -> CrashStates {
        CrashStates::new(self.start.clone(), self.log(), sample, seed)
    }
}

/// Checks that a [`Disk::child`] ran its test, and that it passed.
pub(crate) fn assert_ran(test: &str, output: &Output) {
    let (shown, errors) = (str::from_utf8(&output.stdout), str::from_utf8(&output.stderr));
    let ran = output.status.success() && shown.is_ok_and(|shown| shown.contains("1 passed"));
    assert!(ran, "{test}: {}\n{}\n{}", output.status, shown.unwrap(), errors.unwrap());
}

/// In a [`Disk::child`]: the recorded folder. There is none in a test that was run by itself.
pub(crate) fn recorded_root() -> Option<PathBuf> {
    env::var_os("DISK_ROOT").map(PathBuf::from)
}

/// In a [`Disk::child`]: promises that what this line stands for survives a power cut from now on.
pub(crate) fn ack(line: &str) {
    let path = env::var_os("DISK_ACKS").unwrap();
    let mut acks = OpenOptions::new().append(true).open(path).unwrap();
    acks.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The compiled shim; compiled once for each version of its source.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        include_str!("disk/shim.c").hash(&mut hasher);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = folder.join(format!("disk_shim_{:016x}.so", hasher.finish()));
        if !library.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/disk/shim.c");
            // Another test process may be at it too: each compiles its own, the last one stays.
            let mine = folder.join(format!("disk_shim_{}.so", process::id()));
            let compiler = env::var_os("CC").unwrap_or("cc".into());
            let output = Command::new(compiler)
                .args(["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-Wall", "-o"])
                .args([mine.as_path(), Path::new(source)])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::rename(mine, &library).unwrap();
        }
        library
    })
}
