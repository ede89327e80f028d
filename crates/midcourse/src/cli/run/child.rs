//! The command that is run: started, waited for, and handed every signal that it would have got.
//!
//! It stays in our process group, so whatever the terminal sends goes to it directly, and to
//! everything that it starts. What somebody sends to us alone is passed on. When it stops, we
//! stop, so that the shell sees it; when it is killed, we die of the same signal.

use std::io;
use std::process::{Command, ExitCode};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// Of this signal.
    Signal(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

impl Ended {
    /// Ends this process in the same way, as far as that can be done.
    pub(in crate::cli) fn pass_on(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
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

/// Starts the command and waits until it has ended.
#[cfg(unix)]
pub(in crate::cli) fn run(command: &mut Command) -> io::Result<Ended> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
    use signal_hook::consts::{
        SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    };
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::WithOrigin;
    use signal_hook::low_level::siginfo::{Cause, Origin};

    // Before the command is there: a signal that comes now must not kill us without it.
    let heard = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP];
    let mut signals = SignalsInfo::<WithOrigin>::new(heard)?;
    let listening = signals.handle();
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let passing = {
        let is_over = Arc::clone(&is_over);
        move || {
            for Origin { signal, cause, .. } in &mut signals {
                // The terminal has told the command itself; that it stops we hear from it.
                let is_told = cause == Cause::Kernel || signal == SIGTSTP;
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
    let ended = loop {
        match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Err(Errno::INTR) | Ok(None) => {}
            Err(error) => return Err(error.into()),
            Ok(Some((_, status))) => {
                if let Some(code) = status.exit_status() {
                    break Ended::Code(u8::try_from(code).unwrap_or(1));
                }
                if let Some(signal) = status.terminating_signal() {
                    break Ended::Signal(signal);
                }
                if status.stopped() {
                    // The shell waits for us, so we stop with it; it wakes us both.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
        }
    };
    // The process id may belong to somebody else from here on.
    is_over.store(true, Ordering::SeqCst);
    listening.close();
    Ok(ended)
}

/// Starts the command and waits until it has ended.
#[cfg(not(unix))]
pub(in crate::cli) fn run(command: &mut Command) -> io::Result<Ended> {
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Ended::Code(code))
}
