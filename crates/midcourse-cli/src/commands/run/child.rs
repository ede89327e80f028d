//! The command that is run: started, waited for, and handed every signal that it would have got.
//!
//! It stays in our process group, so whatever the terminal sends goes to it directly, and to
//! everything that it starts. What somebody sends to us alone is passed on. When it stops at a
//! terminal, we stop, so that the shell sees it; when it is killed, we die of the same signal. What
//! was ignored when we were started stays ignored, for it too.

use std::io;
use std::process::{Command, ExitCode};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// Of this signal.
    Signal(i32),
    /// Nobody can say how.
    Unknown,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::Unknown => f.write_str("how it ended is not known"),
        }
    }
}

impl Ended {
    /// Ends this process in the same way, as far as that can be done.
    pub(crate) fn pass_on(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Unknown => ExitCode::FAILURE,
            Self::Signal(signal) => {
                die_of(signal);
                // Whoever waits for us reads it as a shell reads it.
                ExitCode::from(u8::try_from(signal).unwrap_or(127).saturating_add(128))
            }
        }
    }
}

#[cfg(unix)]
fn die_of(signal: i32) {
    use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
    // The core file, if one is wanted, is the command's.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}

#[cfg(not(unix))]
fn die_of(_: i32) {}

/// Starts the command and waits until it has ended. An error is that it could not be started.
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

    let passed_on = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGTSTP];
    let ignored = ignored();
    let heard = passed_on.into_iter().filter(|signal| !ignored.contains(signal));
    // Listening before the command is there: a signal that comes now must not kill us without it.
    // Listening for the end of children, too: where that is ignored, nobody is told how they ended.
    let mut signals = SignalsInfo::<WithOrigin>::new(heard.chain([SIGCHLD]))?;
    let listening = signals.handle();
    let child = command.spawn()?;
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Ok(Ended::Unknown);
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let passing = {
        let is_over = Arc::clone(&is_over);
        move || {
            for Origin { signal, cause, process, .. } in &mut signals {
                // The terminal has told the command itself. What the command sends, it sends to
                // its whole group.
                let is_its_own = process.is_some_and(|sender| comes_from(sender.pid, pid));
                let is_told = cause == Cause::Kernel || is_its_own || signal == SIGCHLD;
                let signal = Signal::from_named_raw(signal).filter(|_| !is_told);
                if let Some(signal) = signal.filter(|_| !is_over.load(Ordering::SeqCst)) {
                    // It may just have ended.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    };
    // Without the thread the command still runs; only what is sent to us alone is not passed on.
    let _ = std::thread::Builder::new().spawn(passing);
    let ended = wait_for(pid);
    // The process id may belong to somebody else from here on.
    is_over.store(true, Ordering::SeqCst);
    listening.close();
    Ok(ended)
}

/// Whether a process is this one, or was started by it, at whatever remove.
#[cfg(unix)]
fn comes_from(mut process: i32, ancestor: rustix::process::Pid) -> bool {
    const GENERATIONS: usize = 16;
    for _ in 0..GENERATIONS {
        if process == ancestor.as_raw_nonzero().get() {
            return true;
        }
        // Behind the name, which may hold anything: the state, then the parent. Where the system
        // does not show it, only the command itself is known.
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
                if status.stopped() && has_the_terminal() {
                    // The shell waits for us, so we stop with it; it wakes us both. Elsewhere
                    // nobody would wake us.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
        }
    }
}

/// Whether we are what the user works with at a terminal.
#[cfg(unix)]
fn has_the_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let front = terminal.and_then(|terminal| Ok(rustix::termios::tcgetpgrp(terminal)?));
    front.is_ok_and(|front| front == rustix::process::getpgrp())
}

/// The signals that whoever started us wants ignored, as `nohup` does.
#[cfg(unix)]
fn ignored() -> Vec<i32> {
    // Where the system does not show it, none.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask & (1_u64 << (signal - 1)) != 0).collect()
}

/// Starts the command and waits until it has ended. An error is that it could not be started.
#[cfg(not(unix))]
pub(crate) fn run(command: &mut Command) -> io::Result<Ended> {
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Ended::Code(code))
}
