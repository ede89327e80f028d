//! The command line: what it understands, and how its errors look.
//!
//! Results go to standard output, everything else to standard error. Exit code 0 is success, 1 an
//! error that says what to do, 2 a command line that was not understood.

mod demo;
mod replay;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Keeps unattended LLM agents on course.
///
/// midcourse watches an agent's run and says a short, useful thing at the moment it matters: that
/// the last attempts failed in the same way, that it goes in circles, how much time is left.
#[derive(Parser)]
#[command(name = "midcourse", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what midcourse does: a small agent goes in circles, is told, and recovers.
    ///
    /// The agent really runs commands in a temporary folder. It needs no network and no key.
    Demo,
    /// Say what would have been said about a recorded run.
    ///
    /// The run is either records, one JSON object a line, or text in the notation that bug reports
    /// use, such as `bash make !! error: no rule`. What was said in it before is said anew.
    Replay {
        /// The recorded run; standard input if left out or `-`.
        file: Option<PathBuf>,
        /// Print one JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command line and reports what went wrong.
pub(crate) fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo => demo::run(),
        Command::Replay { file, json } => replay::run(file.as_deref(), json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Whoever read our output has read enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[expect(clippy::print_stderr, reason = "this is where errors are shown")]
fn report(error: &anyhow::Error) {
    eprintln!("midcourse: {error:#}");
}
