//! The `midcourse` command: keeps unattended LLM agents on course.
//!
//! This crate has no public API; other programs use the crate `midcourse`.

#[cfg_attr(
    not(feature = "proxy"),
    expect(dead_code, unused_imports, reason = "only the proxy parses requests and responses")
)]
mod apis;
mod backtest;
mod blocks;
mod commands;
mod config;
mod display;
mod duration;
mod effect;
mod formats;
mod handoff;
mod hosts;
mod input_line;
mod json_edit;
mod log;
#[cfg(feature = "ui")]
mod page_data;
mod percent_encoding;
#[cfg(feature = "proxy")]
mod proxy;
mod run_settings;
mod scenario;
mod session_file;
mod session_format;
mod shell;
mod size;
mod terminal;
mod user_file;

use std::process::ExitCode;

fn main() -> ExitCode {
    ignore_file_size_signal();
    commands::run()
}

/// If a file reaches the limit of file sizes (`ulimit -f`), a signal ends the process by default. With
/// a handler, the write fails with an error instead. Programs that midcourse starts are not affected.
fn ignore_file_size_signal() {
    #[cfg(unix)]
    {
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // Without the handler, midcourse works as long as the limit is not reached.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    }
}
