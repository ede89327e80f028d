//! Starts the command, waits for it, and forwards signals to it.
//!
//! The command stays in the process group of `midcourse run`, so signals from the terminal reach
//! the command and its children directly. Signals sent to `midcourse run` alone are forwarded. When
//! the user suspends the command at a terminal, `midcourse run` suspends itself too, so that the
//! shell notices. When the command is killed by a signal, `midcourse run` dies of the same signal.
//! Signals that were ignored when `midcourse run` started, as with `nohup`, stay ignored.

use std::io;
use std::process::{Command, ExitCode};

/// How the command ended: with an exit code, or killed by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(u8),
    Signal(i32),
    /// The system did not report how the command ended.
    Unknown,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::Unknown => f.write_str("unknown exit code"),
        }
    }
}

impl Ended {
    /// The exit code, as a shell has it: 128 plus the number of the signal that killed the command.
    pub(crate) fn exit_code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code.into()),
            Self::Signal(signal) => signal.checked_add(128),
            Self::Unknown => None,
        }
    }

    /// Makes this process end in the same way as the command. If a signal killed the command, kills
    /// this process with the same signal. Otherwise returns the exit code to exit with.
    pub(crate) fn exit_like(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Unknown => ExitCode::FAILURE,
            Self::Signal(signal) => {
                die_of(signal);
                // This is reached only if the signal did not kill this process. Return the exit
                // code that a shell uses for a command killed by the signal: 128 plus its number.
                ExitCode::from(u8::try_from(signal).unwrap_or(127).saturating_add(128))
            }
        }
    }
}

#[cfg(unix)]
fn die_of(signal: i32) {
    use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
    // The command may have written a core file. Keep this process from writing another one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}

#[cfg(not(unix))]
fn die_of(_: i32) {}

/// Starts the command and waits until it ends. Fails only if the command cannot be started.
#[cfg(unix)]
pub(crate) fn run(command: &mut Command) -> io::Result<Ended> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::{Pid, Signal, kill_process};
    use signal_hook::consts::{
        SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    };
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::WithOrigin;
    use signal_hook::low_level::siginfo::{Cause, Origin};

    let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGTSTP];
    let ignored = ignored();
    let handled = forwarded.into_iter().filter(|signal| !ignored.contains(signal));
    // Install the signal handlers before starting the command. Otherwise a signal that arrives just
    // after the start would end this process and leave the command running. SIGCHLD needs a handler
    // too, because the system does not keep a child's exit code while SIGCHLD is ignored.
    let mut signals = SignalsInfo::<WithOrigin>::new(handled.chain([SIGCHLD]))?;
    let handle = signals.handle();
    let child = command.spawn()?;
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Ok(Ended::Unknown);
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let forward = {
        let is_over = Arc::clone(&is_over);
        move || {
            for Origin { signal, cause, process, .. } in &mut signals {
                // Do not forward signals that the command has received already: the terminal's
                // signals (sent by the kernel) go to every process in the foreground, and a signal
                // that the command itself sent to its process group reaches this process too.
                let is_its_own = process.is_some_and(|sender| is_descendant(sender.pid, pid));
                let has_it = cause == Cause::Kernel || is_its_own || signal == SIGCHLD;
                let signal = Signal::from_named_raw(signal).filter(|_| !has_it);
                if let Some(signal) = signal.filter(|_| !is_over.load(Ordering::SeqCst)) {
                    // This fails if the command has just ended. Then there is nothing to do.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    };
    // If the thread cannot be started, the command runs without forwarded signals.
    let _ = std::thread::Builder::new().spawn(forward);
    let ended = wait_for(pid);
    // Stop forwarding signals: the system may give the command's process id to another process.
    is_over.store(true, Ordering::SeqCst);
    handle.close();
    Ok(ended)
}

/// Whether `process` is `ancestor` itself or one of its descendants. On systems without `/proc`,
/// the descendants are not recognised.
#[cfg(unix)]
fn is_descendant(mut process: i32, ancestor: rustix::process::Pid) -> bool {
    const MAX_GENERATIONS: usize = 16;
    for _ in 0..MAX_GENERATIONS {
        if process == ancestor.as_raw_nonzero().get() {
            return true;
        }
        // The file contains the process name in parentheses, then the state and the parent's id.
        // The name may itself contain spaces and parentheses, so search for the last parenthesis.
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        match parent.and_then(|parent| parent.parse().ok()) {
            Some(parent) if parent > 1 => process = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(unix)]
fn wait_for(pid: rustix::process::Pid) -> Ended {
    use rustix::io::Errno;
    use rustix::process::{Signal, WaitOptions, getpid, kill_process, waitpid};
    loop {
        match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Err(Errno::INTR) | Ok(None) => {}
            Err(_) => return Ended::Unknown,
            Ok(Some((_, status))) => {
                if let Some(code) = status.exit_status() {
                    return Ended::Code(u8::try_from(code).unwrap_or(1));
                }
                if let Some(signal) = status.terminating_signal() {
                    return Ended::Signal(signal);
                }
                if status.stopped() && is_foreground() {
                    // The command was suspended, for example with Ctrl-Z. Suspend this process too,
                    // so that the shell shows its prompt; the shell will continue both processes.
                    // Without a terminal, nothing would continue this process.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
        }
    }
}

/// Whether this process is in the foreground process group of a terminal.
#[cfg(unix)]
fn is_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let front = terminal.and_then(|terminal| Ok(rustix::termios::tcgetpgrp(terminal)?));
    front.is_ok_and(|front| front == rustix::process::getpgrp())
}

/// The signals that were ignored when this process was started, for example by `nohup`.
#[cfg(unix)]
fn ignored() -> Vec<i32> {
    // On systems without /proc the result is empty.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask & (1_u64 << (signal - 1)) != 0).collect()
}

/// Starts the command and waits until it ends. Fails only if the command cannot be started.
#[cfg(not(unix))]
pub(crate) fn run(command: &mut Command) -> io::Result<Ended> {
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Ended::Code(code))
}
