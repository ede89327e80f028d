//! Runs another program with a time limit and collects its output.

use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of bytes that are kept of each output.
const MAX_OUTPUT: u64 = 1 << 20;

/// The pause between two looks at a process that has closed its output and not ended yet.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Finished {
    /// The exit code; `None` if a signal ended the program.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) took: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("it cannot be started: {0}")]
    Start(std::io::Error),
    #[error("it did not end within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Runs a program with this standard input. If it takes longer than `limit`, kills it and the
/// programs that it has started.
pub(super) fn run(
    command: &mut Command,
    input: Vec<u8>,
    limit: Duration,
) -> Result<Finished, ProcessError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let begun = Instant::now();
    let mut child = command.spawn().map_err(ProcessError::Start)?;
    if let Some(mut pipe) = child.stdin.take() {
        // In a thread, because the program may not read all of it. An error shows in what the program
        // prints.
        let _ = thread::Builder::new().spawn(move || pipe.write_all(&input));
    }
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let left = || limit.saturating_sub(begun.elapsed());
    let outputs = stdout.recv_timeout(left()).and_then(|stdout| {
        let stderr = stderr.recv_timeout(left())?;
        Ok((stdout, stderr))
    });
    while let Ok((stdout, stderr)) = &outputs {
        if let Ok(Some(status)) = child.try_wait() {
            let (stdout, stderr) = (stdout.clone(), stderr.clone());
            return Ok(Finished { code: status.code(), stdout, stderr, took: begun.elapsed() });
        }
        if left().is_zero() {
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    kill(&mut child);
    Err(ProcessError::Timeout(limit))
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
            // A program that cannot write would wait for ever.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = sender.send(bytes);
    };
    // Without the thread, the receiver finds the channel closed.
    let _ = thread::Builder::new().spawn(read);
    receiver
}

fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{ProcessError, run};

    fn sh(script: &str, limit: Duration) -> Result<super::Finished, ProcessError> {
        run(Command::new("sh").args(["-c", script]), b"in".to_vec(), limit)
    }

    #[test]
    fn output_and_exit_code_are_collected() {
        let finished = sh("cat; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!(finished.code, Some(3));
        assert_eq!((finished.stdout, finished.stderr), (b"in".to_vec(), b"err\n".to_vec()));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_children() {
        let hangs = sh("sleep 600 & sleep 600", Duration::from_millis(50));
        assert!(matches!(hangs, Err(ProcessError::Timeout(_))));
        let missing = run(&mut Command::new("/no/such/program"), Vec::new(), Duration::ZERO);
        assert!(matches!(missing, Err(ProcessError::Start(_))));
    }
}
