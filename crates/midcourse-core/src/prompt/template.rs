//! The template and the prompt that binds it to values.

use std::any::Any;
use std::sync::Arc;

use compact_str::CompactString;
use minijinja::value::Serde;
use serde::Serialize;

use super::resources::Resources;
use super::section::{RenderedPrompt, Sections};
use super::{DeliveryPolicy, FeedbackProviderConfig, GuidanceProviderConfig};
use crate::message::{GuidanceInjection, GuidanceKey, InvalidGuidance};

/// A prompt that cannot be built or rendered.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPrompt {
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] InvalidGuidance),
    /// A section that does not parse or render.
    #[error("section {section:?}: {error}")]
    Section {
        /// Its key.
        section: String,
        /// What is wrong with it.
        error: minijinja::Error,
    },
    /// Two sections of one key.
    #[error("there are two sections {0:?}: give each its own key")]
    Twice(String),
    /// A section that guidance would move.
    #[error(
        "section {0:?} stands behind one that uses `guidance`: put it before, so that guidance \
         changes nothing that was rendered before it"
    )]
    BehindGuidance(String),
    /// Values that cannot be put into a template.
    #[error("the values of the prompt: {0}")]
    Values(serde_json::Error),
    /// A template that does not render.
    #[error("the prompt does not render: {0}")]
    Render(minijinja::Error),
}

/// What a run works on: sections, and who may speak.
#[derive(Debug, Default)]
pub struct PromptTemplate {
    ns: CompactString,
    key: CompactString,
    name: CompactString,
    sections: Sections,
    feedback_providers: Vec<FeedbackProviderConfig>,
    guidance_providers: Vec<GuidanceProviderConfig>,
    delivery: DeliveryPolicy,
    resources: Resources,
}

impl PromptTemplate {
    /// A template without sections and providers, named `ns:key`.
    pub fn new(ns: &str, key: &str) -> Result<Self, InvalidPrompt> {
        let (ns, key) = (GuidanceKey::try_from(ns)?, GuidanceKey::try_from(key)?);
        Ok(Self {
            name: format!("{}:{}", ns.as_str(), key.as_str()).into(),
            ns: ns.as_str().into(),
            key: key.as_str().into(),
            ..Self::default()
        })
    }

    /// The same under another name; the name scopes what is counted and said.
    pub fn with_name(mut self, name: &str) -> Result<Self, InvalidPrompt> {
        self.name = GuidanceKey::try_from(name)?.as_str().into();
        Ok(self)
    }

    /// Adds a section: a minijinja template. One that uses `guidance` gets the guidance of the
    /// point before rendering, and only such sections may follow it.
    pub fn with_section(mut self, key: &str, source: &str) -> Result<Self, InvalidPrompt> {
        if self.sections.has(key) {
            return Err(InvalidPrompt::Twice(key.to_owned()));
        }
        match self.sections.push(key, source) {
            Ok(true) => Ok(self),
            Ok(false) => Err(InvalidPrompt::BehindGuidance(key.to_owned())),
            Err(error) => Err(InvalidPrompt::Section { section: key.to_owned(), error }),
        }
    }

    /// Adds a feedback provider behind those declared so far.
    #[must_use]
    pub fn with_feedback_provider(mut self, provider: FeedbackProviderConfig) -> Self {
        self.feedback_providers.push(provider);
        self
    }

    /// Adds a guidance provider behind those declared so far.
    #[must_use]
    pub fn with_guidance_provider(mut self, provider: GuidanceProviderConfig) -> Self {
        self.guidance_providers.push(provider);
        self
    }

    /// Says how much is said.
    #[must_use]
    pub const fn with_delivery(mut self, delivery: DeliveryPolicy) -> Self {
        self.delivery = delivery;
        self
    }

    /// Lends a thing to the providers.
    #[must_use]
    pub fn with_resource<T: Any + Send + Sync>(mut self, resource: T) -> Self {
        self.resources.insert(resource);
        self
    }
}

/// A template bound to values.
#[derive(Debug, Clone)]
pub struct Prompt {
    template: Arc<PromptTemplate>,
    values: minijinja::Value,
}

impl Prompt {
    /// A prompt whose sections need no values.
    pub fn new(template: impl Into<Arc<PromptTemplate>>) -> Self {
        Self { template: template.into(), values: minijinja::Value::UNDEFINED }
    }

    /// A prompt whose sections see the fields of `values`.
    pub fn bind(
        template: impl Into<Arc<PromptTemplate>>,
        values: &impl Serialize,
    ) -> Result<Self, InvalidPrompt> {
        // By way of JSON, whose maps are ordered: a hash map would render in another order each
        // time.
        let ordered = serde_json::to_value(values).map_err(InvalidPrompt::Values)?;
        let values = minijinja::Value::from(Serde(ordered));
        Ok(Self { template: template.into(), values })
    }

    /// Renders the sections, and the guidance of the point before rendering.
    pub fn render(&self, guidance: &[GuidanceInjection]) -> Result<RenderedPrompt, InvalidPrompt> {
        self.template.sections.render(&self.values, guidance).map_err(InvalidPrompt::Render)
    }

    /// The namespace.
    pub fn ns(&self) -> &str {
        &self.template.ns
    }

    /// The key within the namespace.
    pub fn key(&self) -> &str {
        &self.template.key
    }

    /// The name, which scopes what is counted and said.
    pub fn name(&self) -> &str {
        &self.template.name
    }

    /// The feedback providers, observers included, in the order of declaration.
    pub fn feedback_providers(&self) -> &[FeedbackProviderConfig] {
        &self.template.feedback_providers
    }

    /// The feedback providers that were declared as observers.
    pub fn observers(&self) -> impl Iterator<Item = &FeedbackProviderConfig> {
        self.template.feedback_providers.iter().filter(|config| config.is_observer())
    }

    /// The guidance providers, in the order of declaration.
    pub fn guidance_providers(&self) -> &[GuidanceProviderConfig] {
        &self.template.guidance_providers
    }

    /// How much is said.
    pub fn delivery(&self) -> &DeliveryPolicy {
        &self.template.delivery
    }

    /// What is lent to the providers.
    pub fn resources(&self) -> &Resources {
        &self.template.resources
    }
}
