//! A simulated disk: it records what a real process does to its files, and constructs the folders
//! that a power cut could have left. Tests can also make the disk full, broken or read-only.
//!
//! Killing a process does not reveal a missing sync, because the kernel still writes the unsynced
//! data. The recorded process therefore runs with the library `shim.c` preloaded. The shim logs, in
//! one order for all threads and processes, every write, every change of a file name, every sync,
//! and every acknowledgement (a line that the process writes when some data must survive a power
//! cut). From this log `model` computes which data was durable at each point.
//!
//! The shim cannot see raw system calls (as rustix makes them), C's stdio and writable memory maps.
//! So that no change goes unnoticed, [`Disk::log`] replays the log and fails if the result differs
//! from the real folder.
//!
//! ```ignore
//! let disk = Disk::new();
//! disk.run_child("power::append_lines");
//! for state in disk.crash_states(Sample::at_most(400), 7) {
//!     let folder = state.materialise();
//!     // open the files in `folder`; everything in `state.acked()` must be there
//! }
//! ```

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod crash;
mod faults;
mod file;
mod image;
mod log;
mod model;
mod rng;

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::OnceLock;
use std::{env, str};

use tempfile::TempDir;

pub use crash::{CrashState, CrashStates, Sample};
pub use faults::Fault;
pub use log::Entry;

use file::Survival;
use image::Image;
use model::Model;

/// A folder that records the changes made by commands under [`Disk::record`].
pub struct Disk {
    folder: TempDir,
    /// The content of the root folder before the first recorded change.
    initial: Model,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::with_content(&Image::default())
    }

    /// A disk with the content that survived a power cut. A test can run the recovery on this disk
    /// and cut the power a second time.
    pub fn after(state: &CrashState) -> Self {
        Self::with_content(state.image())
    }

    fn with_content(image: &Image) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        image.write(&root);
        for name in ["log", "acks", "faults"] {
            File::create(folder.path().join(name)).unwrap();
        }
        Self { initial: Model::of_folder(&root), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The recorded folder. Change it only through recorded processes.
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// Records the changes of this command and of the processes that it starts.
    ///
    /// Do not kill these processes: a change that one just made could then be missing in the log.
    /// To test what a kill leaves, use the crash state in which every change survived.
    pub fn record<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let is_static = cfg!(target_feature = "crt-static");
        assert!(
            !is_static,
            "a static binary does not load the shim; set RUSTFLAGS=-Ctarget-feature=-crt-static \
             for this test, as ./check does",
        );
        command
            .env("LD_PRELOAD", shim())
            .env("DISK_ROOT", self.root())
            .env("DISK_LOG", self.path("log"))
            .env("DISK_ACKS", self.path("acks"))
            .env("DISK_FAULTS", self.path("faults"))
            .env("DISK_FAULT_COUNTS", self.path("fault_counts"))
    }

    /// The file to which acknowledgements are written, one per line. A test can pass this file to a
    /// recorded command as its standard output; then each line that the command prints is an
    /// acknowledgement.
    pub fn acks(&self) -> File {
        OpenOptions::new().append(true).open(self.path("acks")).unwrap()
    }

    /// A recorded process that runs one test of this binary, given by its full name. The test
    /// should have `#[ignore]` and start with [`recorded_root`].
    pub fn child(&self, test: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        self.record(&mut command);
        command
    }

    /// Runs a [`Disk::child`], which must succeed.
    pub fn run_child(&self, test: &str) {
        let output = self.child(test).output().unwrap();
        assert_passed(test, &output);
    }

    /// Replaces the faults of the disk, with immediate effect on running processes.
    pub fn inject(&self, faults: &[Fault]) {
        assert!(faults.len() <= 16, "the shim supports at most sixteen faults");
        let log = self.locked_log();
        let lines: String = faults.iter().map(Fault::line).collect();
        fs::write(self.path("faults"), lines).unwrap();
        fs::write(self.path("fault_counts"), "").unwrap();
        drop(log);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.inject(&[]);
    }

    /// Locks the log: until the file is dropped, no recorded process changes anything.
    fn locked_log(&self) -> File {
        let log = File::open(self.path("log")).unwrap();
        log.lock().unwrap();
        log
    }

    /// The changes recorded so far.
    ///
    /// Fails if replaying these changes does not give the real content of the folder. In that case
    /// the shim missed a change, and the crash states would be wrong.
    pub fn log(&self) -> Vec<Entry> {
        let locked = self.locked_log();
        let entries = log::parse(&fs::read(self.path("log")).unwrap());
        let found = Image::read(&self.root());
        drop(locked);
        let mut model = self.initial.clone();
        entries.iter().for_each(|entry| model.apply(entry));
        let unrecorded = model.after_power_cut(Survival::Everything).differences(&found);
        assert!(unrecorded.is_empty(), "changed without being recorded: {unrecorded:?}");
        entries
    }

    /// The disks that a power cut at some point of the log could have left. The same log and seed
    /// give the same states.
    pub fn crash_states(&self, sample: Sample, seed: u64) -> CrashStates {
        CrashStates::new(self.initial.clone(), self.log(), sample, seed)
    }
}

/// Asserts that a [`Disk::child`] ran its test and that the test passed.
pub fn assert_passed(test: &str, output: &Output) {
    let (stdout, stderr) = (str::from_utf8(&output.stdout), str::from_utf8(&output.stderr));
    let passed = output.status.success() && stdout.is_ok_and(|text| text.contains("1 passed"));
    assert!(passed, "{test}: {}\n{}\n{}", output.status, stdout.unwrap(), stderr.unwrap());
}

/// The recorded folder, when called in a [`Disk::child`]; `None` if the test was started directly.
pub fn recorded_root() -> Option<PathBuf> {
    env::var_os("DISK_ROOT").map(PathBuf::from)
}

/// Called in a [`Disk::child`] to acknowledge `line`: the data it stands for must survive a power
/// cut from now on.
pub fn ack(line: &str) {
    let path = env::var_os("DISK_ACKS").unwrap();
    let mut acks = OpenOptions::new().append(true).open(path).unwrap();
    acks.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The path of the compiled shim, which is compiled only if its source has changed.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        include_str!("shim.c").hash(&mut hasher);
        let program = env::current_exe().unwrap();
        let folder = program.parent().unwrap();
        let library = folder.join(format!("disk_shim_{:016x}.so", hasher.finish()));
        if !library.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shim.c");
            // Several test processes may compile at the same time, so each compiles to a file of
            // its own and renames the file when it is complete.
            let own = folder.join(format!("disk_shim_{}.so", process::id()));
            let compiler = env::var_os("CC").unwrap_or("cc".into());
            let output = Command::new(compiler)
                .args(["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-Wall", "-o"])
                .args([own.as_path(), Path::new(source)])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::rename(own, &library).unwrap();
        }
        library
    })
}
