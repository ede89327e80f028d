//! The `midcourse` command: keeps unattended LLM agents on course.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
