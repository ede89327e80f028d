//! Tests of the library's public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod monitor;
mod seed_names;
mod tidy;
