//! midcourse as a library: the durable trajectory and the way into it.
//!
//! The command `midcourse` is built on this crate, and so is every plugin that records in-process.
//! The engine itself is `midcourse-core`; nothing here judges, and nothing there touches a disk.

mod redact;

pub use redact::{InvalidPrefix, Redacted, Redaction, SecretShape, SecretShapes};
