//! Tests of the library's public API.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

mod concurrency;
mod events;
mod monitor;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod power;
mod run_copy;
mod seed_names;
mod tidy;
