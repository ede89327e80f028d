//! Tests of the library's public API.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

mod monitor;
mod run_copy;
mod seed_names;
mod tidy;
