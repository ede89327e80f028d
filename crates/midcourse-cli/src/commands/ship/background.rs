//! Ships in the background while an agent runs, if the user's configuration asks for it (`[ship]`).
//!
//! A separate process does it. Nobody waits for it, and it ends when nothing was recorded for a while.
//! If one is running for this store already, another one ends at once.

use std::io;
use std::process::{Command, Stdio};

use midcourse::DataDir;

use crate::config::users_ship;

/// After this time without a new record, the process ends. The next session starts another one.
const IDLE: &str = "10m";

/// Starts to ship if `[ship]` names a fleet. Ignores errors: the next session tries it again, and
/// `midcourse ship` ships whatever is left.
pub(in crate::commands) fn start(data_dir: &DataDir) {
    if users_ship(data_dir).is_ok_and(|ship| ship.to.is_some()) {
        let _ = spawn(data_dir);
    }
}

fn spawn(data_dir: &DataDir) -> io::Result<()> {
    let mut ship = Command::new(std::env::current_exe()?);
    ship.args(["ship", "--until-idle", IDLE, "--log"]);
    ship.env("MIDCOURSE_HOME", data_dir.path()).current_dir("/");
    ship.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Use a separate process group, so that signals from the terminal do not reach the process.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut ship, 0);
    ship.spawn().map(drop)
}
