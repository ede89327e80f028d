//! Tests of the store and the command with real files, real processes and failing disks.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod anchor;
mod archive;
mod archive_command;
mod atif;
mod backtest;
mod backup;
mod captures;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod clients;
mod command;
mod config;
mod contract;
mod daily_commands;
mod damage;
mod delete;
#[cfg(unix)]
mod doctor;
mod effect;
mod eval;
mod event_format;
mod events;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod faults;
#[cfg(all(unix, feature = "fleet"))]
mod fleet;
mod hook;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod hook_faults;
mod install;
mod json_output;
mod kill;
mod label;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(target_os = "linux")]
mod proxy;
mod recorder;
mod redact;
mod repair;
mod report;
#[cfg(unix)]
mod run_command;
mod run_table;
mod runs_command;
mod secrets;
#[cfg(feature = "serve")]
mod serve;
mod session_files;
mod sessions;
mod state_machine;
mod statusline;
mod store;
mod strange_stores;
mod summaries;
mod tidy;
mod trust;
#[cfg(feature = "ui")]
mod ui;
mod verdicts;
