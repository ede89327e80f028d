//! Runs a command and measures its time and memory.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command without its output. Returns the time taken and the peak memory in KiB.
pub(crate) fn measured(command: &mut Command) -> (Duration, u64) {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        if let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
            most = kib.unwrap_or(most);
        }
        thread::sleep(Duration::from_millis(5));
    }
    (begun.elapsed(), most)
}
