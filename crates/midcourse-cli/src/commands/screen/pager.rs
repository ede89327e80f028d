//! Starts the user's pager and writes to it.
//!
//! While the pager runs, Ctrl-C belongs to it, as with git: midcourse must not end before the pager,
//! or the shell and the pager would read from the terminal at the same time.

use std::io::{self, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(super) struct Pager {
    child: Child,
    /// `None` once the pager has got everything.
    input: Option<BufWriter<ChildStdin>>,
}

impl Pager {
    /// Starts `$PAGER`, or `less` if the variable is not set. Returns `None` if the user wants no
    /// pager (`PAGER` is empty or `cat`), or if it cannot be started.
    pub(super) fn start() -> Option<Self> {
        let mut command = match std::env::var("PAGER") {
            Ok(named) if matches!(named.trim(), "" | "cat") => return None,
            Ok(named) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &named]);
                shell
            }
            Err(_) => Command::new("less"),
        };
        if std::env::var_os("LESS").is_none() {
            // Quit if everything fits on one screen, show colours, and leave the text on the screen.
            command.env("LESS", "FRX");
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = child.stdin.take().map(BufWriter::new);
        // A handler, not `SIG_IGN`: the pager would inherit the latter.
        let seen = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, seen);
        Some(Self { child, input })
    }

    fn input(&mut self) -> io::Result<&mut BufWriter<ChildStdin>> {
        self.input.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input()?.flush()
    }
}

impl Drop for Pager {
    /// Closes the pager's input and waits until the user leaves it.
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
