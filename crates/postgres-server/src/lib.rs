//! A real Postgres in a temporary folder, on a socket of its own, for tests and benchmarks.
//!
//! The programs of Postgres are found on `PATH` or where Debian installs them. Where there are none,
//! [`Server::start`] says so and returns `None`, and the test ends. A server ends with the process that
//! started it, however that ends.

#![expect(clippy::expect_used, reason = "a test that cannot start its server fails")]

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The role that owns everything. Connections over the socket need no password.
pub const OWNER: &str = "owner";

/// Postgres does not run as root; then it runs as `nobody`.
const NOBODY: u32 = 65_534;

/// A temporary folder that the user the server runs as can read, whatever `TMPDIR` is.
pub fn folder_for_server() -> TempDir {
    // That user cannot enter a private temporary folder of root.
    let parent = if is_root() { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("mcpg").tempdir_in(parent);
    let folder = folder.expect("a temporary folder");
    give_to_server(folder.path());
    folder
}

/// Gives a file to the user that the server runs as, for files that no one else may read.
pub fn give_to_server(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("chown");
    }
}

const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A server. It is stopped, and its data removed, on drop.
pub struct Server {
    programs: PathBuf,
    folder: TempDir,
    /// Removes the folder when this process ends without dropping the server, as tests do.
    _cleaner: Child,
    options: Vec<String>,
    child: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl Server {
    /// Starts a server that answers. `options` are settings, such as `fsync=off`, and override those
    /// that a test server has, such as `listen_addresses=`.
    pub fn start(options: &[&str]) -> Option<Self> {
        let Some(programs) = find_programs() else {
            // Past the capture of the test runner, so that a skipped test is seen.
            let _ = std::io::stderr().write_all(
                b"skipped: there is no Postgres on this machine (install Debian's postgresql)\n",
            );
            return None;
        };
        let folder = folder_for_server();
        let cleaner = cleaner(folder.path());
        let data = folder.path().join("data");
        let made = as_server_user(&programs.join("initdb"))
            .args(["--auth=trust", "--no-sync", "--no-instructions", "--encoding=UTF8"])
            .args(["--locale=C.UTF-8", "--username", OWNER, "--pgdata"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let server = Self {
            programs,
            folder,
            _cleaner: cleaner,
            options,
            child: Mutex::new(None),
            databases: 0.into(),
        };
        server.restart();
        Some(server)
    }

    /// Starts the server again after it was killed, and waits until it answers.
    pub fn restart(&self) {
        let folder = self.folder.path();
        let mut command = as_server_user(Path::new("/bin/sh"));
        // The shell stops the server when its input ends, which it does when this process ends.
        let script = "\"$@\" & server=$!; echo $server > \"$0\"; \
                      (cat > /dev/null; kill -INT $server 2>/dev/null) <&3 & wait $server";
        command.args(["-c", &format!("exec 3<&0; {script}")]).arg(folder.join("pid"));
        command.arg(self.programs.join("postgres")).arg("-D").arg(folder.join("data"));
        command.args(["-c", "listen_addresses=", "-c", "max_connections=60", "-k"]).arg(folder);
        for option in &self.options {
            command.args(["-c", option]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
        let log = log.expect("the log file opens");
        let begun = Instant::now();
        let mut child = self.child.lock().expect("not poisoned");
        loop {
            assert!(begun.elapsed() < START_TIMEOUT, "Postgres does not start: {}", self.log());
            let shell = command
                .stdin(Stdio::piped())
                .stdout(log.try_clone().expect("a copy of the log file"))
                .stderr(log.try_clone().expect("a copy of the log file"))
                .spawn();
            let shell = child.insert(shell.expect("the server starts"));
            // It ends at once while processes of a killed server are still there.
            while shell.try_wait().is_ok_and(|ended| ended.is_none()) {
                assert!(
                    begun.elapsed() < START_TIMEOUT,
                    "Postgres does not answer: {}",
                    self.log()
                );
                if self.is_ready() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> bool {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-U", OWNER, "-d", "postgres", "-p", self.port(), "-h"]);
        ready.arg(self.folder.path());
        ready.status().is_ok_and(|status| status.success())
    }

    /// Kills the server with SIGKILL, and waits until it is gone.
    pub fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.path().join("pid")).unwrap_or_default();
        if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // Also after `restart` panicked: a second panic, in `drop`, would hide what it said.
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut shell) = child.take() {
            let _ = shell.wait();
        }
    }

    /// Creates a database and returns its name.
    pub fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("db{number}");
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// The address of a database for a role.
    pub fn url(&self, database: &str, role: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{folder}:{}/{database}", self.port())
    }

    /// Runs SQL as the owner and returns what `psql` prints.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", OWNER, "-d", database])
            .args(["-p", self.port(), "-c", sql, "-h"])
            .arg(self.folder.path())
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The port, which is also a part of the name of the socket.
    pub fn port(&self) -> &str {
        let mut ports = self.options.iter().filter_map(|option| option.strip_prefix("port="));
        ports.next_back().unwrap_or("5432")
    }

    /// The path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// The folder of the server, which its user may write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a process that removes a folder once its input ends and no server uses the folder.
fn cleaner(folder: &Path) -> Child {
    let script = "cat > /dev/null; n=0; while [ -e \"$0/data/postmaster.pid\" ] && [ $n -lt 100 ]; \
                  do sleep 0.1; n=$((n + 1)); done; rm -rf \"$0\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).arg(folder).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the shell starts")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    command
}

/// The folder with the newest programs of Postgres.
fn find_programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        version.and_then(|version| version.parse::<u32>().ok())
    });
    folders.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder| {
        ["postgres", "initdb", "psql"].iter().all(|program| folder.join(program).is_file())
    })
}
