//! The processor time of processes.

/// The parent of a process, its processor time, and that of its children that have ended.
pub(crate) fn times(pid: u32) -> Option<(u32, f64, f64)> {
    /// Clock ticks per second in `/proc`, on all Linux systems.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    Some((parent, (number(11)? + number(12)?) / TICKS, (number(13)? + number(14)?) / TICKS))
}
