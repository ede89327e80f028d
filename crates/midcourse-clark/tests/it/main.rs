//! The plugin in clark-agent's own loop, with a scripted model and a real store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

mod calls;
mod child;
mod events;
mod faults;
mod messages;
mod records;
mod retries;
mod runs;
mod script;
mod sink;
mod tidy;
mod wire;
