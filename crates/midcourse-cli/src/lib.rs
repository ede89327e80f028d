//! The parts of the `midcourse` command. Not a public API: only `main.rs` and this package's tests
//! use it.
#![expect(missing_docs, reason = "private: nothing outside this package depends on it")]

#[cfg_attr(
    not(feature = "proxy"),
    expect(dead_code, unused_imports, reason = "only the proxy parses requests and responses")
)]
mod apis;
pub mod backtest;
mod beside;
mod blocks;
pub mod commands;
pub mod config;
mod display;
pub mod duration;
pub mod formats;
pub mod hosts;
pub mod launch;
mod log;
#[cfg(feature = "proxy")]
mod proxy;
pub mod scenario;
pub mod shell;
mod terminal;
mod terms;
