//! The parts of the `midcourse` command. Not a public API: only `main.rs` and this package's tests
//! use it.
#![expect(missing_docs, reason = "private: nothing outside this package depends on it")]

#[cfg_attr(
    not(feature = "proxy"),
    expect(dead_code, unused_imports, reason = "only the proxy parses requests and responses")
)]
mod apis;
pub mod backtest;
mod blocks;
pub mod commands;
mod config;
mod display;
pub mod duration;
pub mod formats;
mod handoff;
mod hosts;
mod log;
#[cfg(feature = "proxy")]
mod proxy;
mod run_settings;
pub mod scenario;
pub mod shell;
mod terminal;
