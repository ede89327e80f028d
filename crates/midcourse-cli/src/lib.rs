//! The parts of the `midcourse` command. Not a public API: only `main.rs` and this package's tests
//! use it.

pub mod apis;
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
