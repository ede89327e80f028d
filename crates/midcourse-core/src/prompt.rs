//! Prompts, the traits of providers, and the contexts that providers see.
//!
//! A [`PromptTemplate`] has text sections and providers. A [`Prompt`] is a template with values for
//! its variables, and renders the text. The provider traits and contexts are in this module too,
//! because a template contains providers and a provider's context contains the prompt. Rendering
//! the same input always gives the same bytes. Guidance comes at the end, so that the bytes before
//! it stay the same and the model's prompt cache stays valid.

mod collected;
mod delivery;
mod feedback_context;
mod feedback_provider;
mod guidance_context;
mod guidance_provider;
mod resources;
mod section;
mod template;
mod trigger;

pub use collected::Collected;
pub use delivery::{DeliveryPolicy, FeedbackPolicy, GuidanceSelection};
pub use feedback_context::FeedbackContext;
pub use feedback_provider::{FeedbackProvider, FeedbackProviderConfig};
pub use guidance_context::GuidanceContext;
pub use guidance_provider::{GuidanceLimits, GuidanceProvider, GuidanceProviderConfig};
pub use resources::{Filesystem, MissingResource, PromptResources};
pub use section::RenderedPrompt;
pub use template::{InvalidPrompt, Prompt, PromptTemplate};
pub use trigger::{FeedbackTrigger, InvalidTrigger};
