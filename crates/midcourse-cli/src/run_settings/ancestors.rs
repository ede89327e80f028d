//! Tells whether a process started this one, directly or through other processes.

/// More generations are not followed.
#[cfg(target_os = "linux")]
const MAX_GENERATIONS: usize = 64;

/// Whether the process with this id is this process, its parent, the parent of its parent, and so on.
#[cfg(target_os = "linux")]
pub(super) fn is_ancestor(process: u32) -> bool {
    let mut current = std::process::id();
    for _ in 0..MAX_GENERATIONS {
        if current == process {
            return true;
        }
        match parent(current) {
            Some(parent) if parent > 1 => current = parent,
            _ => return false,
        }
    }
    false
}

/// The parent's id is the second field after the program's name, which is in parentheses and may
/// contain any characters.
#[cfg(target_os = "linux")]
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Other systems do not show the ancestors of a process in files. There, the process has to exist.
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) fn is_ancestor(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    id.is_some_and(|id| rustix::process::test_kill_process(id).is_ok())
}

#[cfg(not(unix))]
pub(super) fn is_ancestor(_: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::is_ancestor;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_processes_above_this_one_are_ancestors() {
        assert!(is_ancestor(std::process::id()));
        assert!(is_ancestor(std::os::unix::process::parent_id()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!is_ancestor(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_ancestor(0));
    }
}
