//! Prompts: what a run works on, and what is plugged into it.
//!
//! A [`PromptTemplate`] names sections and providers; a [`Prompt`] binds it to values and renders
//! it. The traits of providers, their settings and the contexts they see are here too: a template
//! holds providers, and a provider's context holds the prompt. Rendering twice with the same input
//! gives the same bytes, and guidance is at the end: it changes no byte before it.

mod delivery;
mod feedback_context;
mod feedback_provider;
mod guidance_context;
mod guidance_provider;
mod resources;
mod section;
mod template;
mod trigger;

pub use delivery::{Asked, DeliveryPolicy, FeedbackPolicy, GuidanceSelection};
pub use feedback_context::FeedbackContext;
pub use feedback_provider::{FeedbackProvider, FeedbackProviderConfig};
pub use guidance_context::GuidanceContext;
pub use guidance_provider::{GuidanceLimits, GuidanceProvider, GuidanceProviderConfig};
pub use resources::{Filesystem, Resources};
pub use section::RenderedPrompt;
pub use template::{InvalidPrompt, Prompt, PromptTemplate};
pub use trigger::{FeedbackTrigger, InvalidTrigger};
