//! Finds the processes of one use of `midcourse run` (a launch): those that inherited the
//! environment variable with its id.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::run_settings::LAUNCH_VARIABLE;

/// Whether processes of a launch are running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Some,
    None,
    /// This system does not list the variables of processes.
    Unknown,
}

/// Looks for processes with the variables of this launch, except for this process itself.
pub(crate) fn find(launch_id: &str) -> Found {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Found::Unknown };
    let wanted = format!("{LAUNCH_VARIABLE}={launch_id}");
    let this = std::process::id().to_string();
    let mut is_listed = false;
    for process in processes.flatten() {
        let name = process.file_name();
        if !name.as_bytes().iter().all(u8::is_ascii_digit) || name == OsStr::new(&this) {
            continue;
        }
        is_listed = true;
        // Processes of other users cannot be read, and do not belong to the launch.
        let variables = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            return Found::Some;
        }
    }
    if is_listed { Found::None } else { Found::Unknown }
}
