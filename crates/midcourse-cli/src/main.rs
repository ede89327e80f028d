//! The `midcourse` command: keeps unattended LLM agents on course.

use std::process::ExitCode;

fn main() -> ExitCode {
    midcourse_cli::commands::run()
}
