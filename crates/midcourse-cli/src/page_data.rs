//! The data behind the viewer's page: plain functions that read the store and return values to
//! serialise as JSON. They know nothing of HTTP. Texts are cut to a length that a page can show; the
//! whole text of a block is found by its pointer.

mod blocks;
mod compare;
mod cut;
mod diff;
mod entry_view;
mod outline;
mod rungs;
mod why;

pub(crate) use compare::compare;
pub(crate) use entry_view::{entries, entry, whole_text};
pub(crate) use outline::{changes, outline};
pub(crate) use rungs::rungs;
pub(crate) use why::why;

#[cfg(test)]
mod tests;
