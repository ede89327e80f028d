//! The trait of guidance providers, and how a provider is added to a prompt.

use std::num::NonZeroU32;

use super::GuidanceContext;
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, DecisionPoints, GuidanceInjection};
use crate::session::ProviderId;

/// Delivers guidance at decision points.
///
/// An implementation depends on the context alone: no clock, no disk, no state of its own. If it
/// returns an error or panics, it is skipped and reported, and the other providers still run.
pub trait GuidanceProvider: Send + Sync {
    /// Name in records and reports.
    fn name(&self) -> &str;

    /// Category of its guidance: of each category, only the most important guidance is delivered.
    fn category(&self) -> &str;

    /// Whether guidance applies now. Cheap: it is called at every decision point.
    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError>;

    /// The guidance. Called only if [`Self::classify`] found it relevant with enough confidence.
    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError>;
}

/// How often a guidance provider may deliver, and how confident it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidanceLimits {
    /// Most deliveries in one turn.
    pub max_per_turn: NonZeroU32,
    /// Turns after a delivery in which the provider stays silent.
    pub cooldown_turns: u32,
    /// Most deliveries in one run.
    pub max_fires_per_session: Option<NonZeroU32>,
    /// Lowest confidence of its classification.
    pub min_confidence: Confidence,
}

impl Default for GuidanceLimits {
    /// Three deliveries per turn, at a confidence of at least one half.
    fn default() -> Self {
        Self {
            max_per_turn: NonZeroU32::MIN.saturating_add(2),
            cooldown_turns: 0,
            max_fires_per_session: None,
            min_confidence: Confidence::HALF,
        }
    }
}

/// A guidance provider on a prompt: how often and at which decision points it may deliver.
pub struct GuidanceProviderConfig {
    pub(crate) provider: Box<dyn GuidanceProvider>,
    id: ProviderId,
    /// How often it may deliver, and how confident it has to be.
    pub limits: GuidanceLimits,
    /// Where it may deliver.
    pub points: DecisionPoints,
}

impl GuidanceProviderConfig {
    /// A provider with the default limits, at every decision point.
    pub fn new(provider: impl GuidanceProvider + 'static) -> Self {
        Self {
            id: ProviderId::of(provider.name()),
            provider: Box::new(provider),
            limits: GuidanceLimits::default(),
            points: DecisionPoints::ALL,
        }
    }

    /// The provider's name.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// Whether the limits on the number of deliveries allow one now.
    pub(crate) fn may_fire(&self, context: &GuidanceContext<'_>) -> bool {
        let GuidanceLimits { max_per_turn, cooldown_turns, max_fires_per_session, .. } =
            self.limits;
        let fired = context.session().fired_by(self.id);
        if fired.total == 0 {
            return true;
        }
        let turns_since = context.turn_count().saturating_sub(fired.turn);
        let has_cooled_down = if turns_since == 0 {
            cooldown_turns == 0 && fired.in_turn < max_per_turn.get()
        } else {
            turns_since > u64::from(cooldown_turns)
        };
        let is_under_limit =
            max_fires_per_session.is_none_or(|max| fired.total < u64::from(max.get()));
        has_cooled_down && is_under_limit
    }
}

impl std::fmt::Debug for GuidanceProviderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuidanceProviderConfig")
            .field("provider", &self.provider.name())
            .field("limits", &self.limits)
            .field("points", &self.points)
            .finish()
    }
}
