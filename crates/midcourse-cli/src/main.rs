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
mod formats;
mod handoff;
mod hosts;
mod log;
#[cfg(feature = "proxy")]
mod proxy;
mod run_settings;
mod scenario;
mod shell;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
