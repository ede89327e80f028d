//! Tests of the crate's public API.

#![cfg_attr(
    feature = "archive",
    expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test that cannot continue fails"
    )
)]

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_import;
#[cfg(feature = "archive")]
mod random_store;
mod tidy;
