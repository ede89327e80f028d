//! Prompts: what a run works on, and what is plugged into it.
//!
//! A [`PromptTemplate`] names sections and providers; a [`Prompt`] binds it to values and renders
//! it. Rendering twice with the same input gives the same bytes. Guidance of the point before
//! rendering has its place at the end: it can change no byte that stands before it.

mod resources;
mod section;
mod template;

pub use resources::{Filesystem, Resources};
pub use section::RenderedPrompt;
pub use template::{DeliveryPolicy, InvalidPrompt, Prompt, PromptTemplate};
