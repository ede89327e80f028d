//! Parsers for the text formats in which midcourse reads runs: one module per format.
//!
//! The parsers do not use the modules for hosts and configuration, and they do not open the store.

pub(crate) mod atif;
mod chat_message;
mod elements;
pub(crate) mod events;
pub(crate) mod inspect;
pub(crate) mod intercode;
pub(crate) mod mini_swe_agent;
pub(crate) mod openai_chat;
pub(crate) mod otel;
pub(crate) mod records;
pub(crate) mod swe_agent;
pub(crate) mod tau_bench;
mod transcript;
pub(crate) mod who_and_when;

#[cfg(test)]
mod tests;
