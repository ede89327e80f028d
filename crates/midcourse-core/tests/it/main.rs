//! Integration tests of the public API, in one binary.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

mod checkpoint;
mod classifiers;
mod conformance;
mod construction;
mod custom;
mod deadline;
mod failure_kinds;
mod faults;
mod feedback;
mod feedback_context;
mod guidance;
mod guidance_context;
mod holdout;
mod launch;
mod messages;
mod model;
mod notation;
mod prompt_scope;
mod prompts;
mod properties;
mod provider_texts;
mod records;
mod replay;
mod session;
mod step;
mod tidy;
mod triggers;
