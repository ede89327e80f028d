//! The library as a program uses it.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod monitor;
mod tidy;
