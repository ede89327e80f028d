//! The viewer: what `midcourse ui` shows in a browser.

pub(crate) mod data;
