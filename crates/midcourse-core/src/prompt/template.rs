//! Prompt templates (sections and providers), and prompts (a template with the values that its
//! sections use).

use std::any::Any;
use std::sync::Arc;

use compact_str::CompactString;
use minijinja::value::Serde;
use serde::Serialize;

use super::section::{RenderedPrompt, Sections};
use super::{
    DeliveryPolicy, FeedbackProviderConfig, Filesystem, GuidanceProviderConfig, PromptResources,
};
use crate::message::{GuidanceInjection, GuidanceKey, InvalidGuidance};

/// Why a prompt cannot be built or rendered.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPrompt {
    /// The namespace, key or name of the prompt is invalid.
    #[error(transparent)]
    Name(#[from] InvalidGuidance),
    /// A section is not a valid template.
    #[error("section {section:?}: {error}")]
    Section {
        /// Key of the section.
        section: String,
        /// The template error.
        error: minijinja::Error,
    },
    /// Two sections have the same key.
    #[error("duplicate section key {0:?}; give each section its own")]
    DuplicateSection(String),
    /// Two feedback providers, or two guidance providers, have the same name.
    #[error("duplicate provider name {0:?}; give each provider its own")]
    DuplicateProvider(String),
    /// A section that does not use guidance follows a section that uses guidance.
    #[error(
        "section {0:?} does not use `guidance` but follows a section that does; move it up, so that \
         guidance comes last"
    )]
    BehindGuidance(String),
    /// The values for the sections cannot be serialized to JSON.
    #[error("invalid prompt values: {0}")]
    Values(serde_json::Error),
    /// Minijinja could not render a section.
    #[error("cannot render the prompt: {0}")]
    Render(minijinja::Error),
}

/// A prompt without values: its sections, providers and delivery policy.
#[derive(Debug, Default)]
pub struct PromptTemplate {
    ns: CompactString,
    key: CompactString,
    name: CompactString,
    sections: Sections,
    feedback_providers: Vec<FeedbackProviderConfig>,
    guidance_providers: Vec<GuidanceProviderConfig>,
    delivery: DeliveryPolicy,
    resources: PromptResources,
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

    /// Sets the name; `ns:key` by default. A session counts tool calls and feedback separately for
    /// each prompt name.
    pub fn with_name(mut self, name: &str) -> Result<Self, InvalidPrompt> {
        self.name = GuidanceKey::try_from(name)?.as_str().into();
        Ok(self)
    }

    /// Adds a section: a minijinja template. A section that uses the variable `guidance` gets the
    /// guidance for [`PreRender`](crate::DecisionPoint::PreRender), and every section after it has
    /// to use `guidance` too.
    pub fn with_section(mut self, key: &str, source: &str) -> Result<Self, InvalidPrompt> {
        if self.sections.has(key) {
            return Err(InvalidPrompt::DuplicateSection(key.to_owned()));
        }
        match self.sections.push(key, source) {
            Ok(true) => Ok(self),
            Ok(false) => Err(InvalidPrompt::BehindGuidance(key.to_owned())),
            Err(error) => Err(InvalidPrompt::Section { section: key.to_owned(), error }),
        }
    }

    /// Adds a feedback provider. Providers are evaluated in the order in which they were added.
    ///
    /// A second feedback provider with the same name is an error, because a session keeps the time
    /// of each provider's latest feedback under the provider's name.
    pub fn with_feedback_provider(
        mut self,
        provider: FeedbackProviderConfig,
    ) -> Result<Self, InvalidPrompt> {
        if self.feedback_providers.iter().any(|known| known.id == provider.id) {
            return Err(InvalidPrompt::DuplicateProvider(provider.name().to_owned()));
        }
        self.feedback_providers.push(provider);
        Ok(self)
    }

    /// Adds a guidance provider, which is evaluated at every decision point that its configuration
    /// allows.
    ///
    /// A second guidance provider with the same name is an error, because a session counts the
    /// deliveries of each provider under the provider's name.
    pub fn with_guidance_provider(
        mut self,
        provider: GuidanceProviderConfig,
    ) -> Result<Self, InvalidPrompt> {
        if self.guidance_providers.iter().any(|known| known.id == provider.id) {
            return Err(InvalidPrompt::DuplicateProvider(provider.name().to_owned()));
        }
        self.guidance_providers.push(provider);
        Ok(self)
    }

    /// Adds built-in providers. Their names are known to differ, so duplicates are not checked for.
    pub(crate) fn add_built_in(
        &mut self,
        feedback: impl IntoIterator<Item = FeedbackProviderConfig>,
        guidance: impl IntoIterator<Item = GuidanceProviderConfig>,
    ) {
        self.feedback_providers.extend(feedback);
        self.guidance_providers.extend(guidance);
    }

    /// Sets how many messages may be delivered, and how often.
    #[must_use]
    pub const fn with_delivery(mut self, delivery: DeliveryPolicy) -> Self {
        self.delivery = delivery;
        self
    }

    /// Makes a value available to the providers, which look it up by its type. A second value of
    /// the same type replaces the first.
    #[must_use]
    pub fn with_resource<T: Any + Send + Sync>(mut self, resource: T) -> Self {
        self.resources.insert(resource);
        self
    }

    /// Makes a filesystem available to the providers.
    #[must_use]
    pub fn with_filesystem(self, filesystem: impl Filesystem + 'static) -> Self {
        let filesystem: Arc<dyn Filesystem> = Arc::new(filesystem);
        self.with_resource(filesystem)
    }
}

/// A template with the values for its sections.
#[derive(Debug, Clone)]
pub struct Prompt {
    template: Arc<PromptTemplate>,
    values: minijinja::Value,
    name: CompactString,
}

impl Prompt {
    /// A prompt without values, for a template whose sections need none.
    pub fn new(template: impl Into<Arc<PromptTemplate>>) -> Self {
        Self::with_values(template.into(), minijinja::Value::UNDEFINED)
    }

    fn with_values(template: Arc<PromptTemplate>, values: minijinja::Value) -> Self {
        Self { name: template.name.clone(), template, values }
    }

    /// A copy of this prompt under another name.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// A prompt whose sections can use the fields of `values`.
    pub fn bind(
        template: impl Into<Arc<PromptTemplate>>,
        values: &impl Serialize,
    ) -> Result<Self, InvalidPrompt> {
        // The conversion to JSON reports values that cannot be serialized. Without it, minijinja
        // would report them only when the prompt is rendered. The keys of a map may come in any
        // order: minijinja sorts them, so that a hash map always renders the same.
        let ordered = serde_json::to_value(values).map_err(InvalidPrompt::Values)?;
        let values = minijinja::Value::from(Serde(ordered));
        Ok(Self::with_values(template.into(), values))
    }

    /// Renders the sections with this guidance. If no section uses guidance, the guidance is added
    /// after the last section.
    pub fn render(&self, guidance: &[GuidanceInjection]) -> Result<RenderedPrompt, InvalidPrompt> {
        self.template.sections.render(&self.values, guidance).map_err(InvalidPrompt::Render)
    }

    /// Namespace of the template.
    pub fn ns(&self) -> &str {
        &self.template.ns
    }

    /// Key of the template within its namespace.
    pub fn key(&self) -> &str {
        &self.template.key
    }

    /// The name of the prompt; `ns:key` by default. A session counts tool calls and feedback
    /// separately for each prompt name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Feedback providers, including observers, in the order in which they were added.
    pub fn feedback_providers(&self) -> &[FeedbackProviderConfig] {
        &self.template.feedback_providers
    }

    /// The feedback providers that were added as observers.
    pub fn observers(&self) -> impl Iterator<Item = &FeedbackProviderConfig> {
        self.template.feedback_providers.iter().filter(|config| config.is_observer())
    }

    /// Guidance providers, in the order in which they were added.
    pub fn guidance_providers(&self) -> &[GuidanceProviderConfig] {
        &self.template.guidance_providers
    }

    /// How many messages may be delivered, and how often.
    pub fn delivery(&self) -> &DeliveryPolicy {
        &self.template.delivery
    }

    /// Values that are available to the providers.
    pub fn resources(&self) -> &PromptResources {
        &self.template.resources
    }
}
