//! Looking at text without believing it: excerpts, canonical arguments, stripped forms, error
//! signatures, likeness, and names that are safe to say.
//!
//! All of it is hand-written byte scanning: compiling regular expressions costs a fresh hook
//! process more than everything else it does. Nothing here fails on any input.

mod answer;
mod bounded;
mod byte;
mod canonical;
mod command;
mod error;
mod excerpt;
mod failure;
mod likeness;
mod name;
mod phrases;
mod scan;
mod speech;
mod token;
mod words;

pub(crate) use answer::AnswerView;
pub use bounded::{InvalidText, Text};
pub(crate) use canonical::{ArgsView, write_canonical, write_without_layout};
pub(crate) use command::CommandView;
pub use error::{ErrorClass, ErrorSignature};
pub use excerpt::{EXCERPT_MAX_BYTES, Excerpt};
pub use failure::looks_failed;
pub(crate) use failure::says_failing_exit;
pub use likeness::likeness;
pub(crate) use likeness::likeness_of_change;
pub use name::{SAFE_NAME_MAX, SafeName};
pub(crate) use scan::strip_volatile;
pub(crate) use speech::{asks_to_repeat, is_announcement, is_chant};
