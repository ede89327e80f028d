//! What a guidance provider is, and how it is put on a prompt.

use std::num::NonZeroU32;

use super::GuidanceContext;
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, DecisionPoints, GuidanceInjection};
use crate::session::ProviderId;

/// Has something to say at decision points.
///
/// An implementation depends on the context alone: no clock, no disk, no state of its own. It may
/// fail or panic; then it is skipped and reported, and the others still speak.
pub trait GuidanceProvider: Send + Sync {
    /// What it is called in the record.
    fn name(&self) -> &str;

    /// The category of what it says; of one category only the best is said.
    fn category(&self) -> &str;

    /// Whether it applies now.
    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError>;

    /// What it has to say.
    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError>;
}

/// A provider, and how often and where it may speak.
pub struct GuidanceProviderConfig {
    pub(crate) provider: Box<dyn GuidanceProvider>,
    id: ProviderId,
    /// How often in one turn.
    pub max_per_turn: NonZeroU32,
    /// How sure it has to be.
    pub min_confidence: Confidence,
    /// Turns it stays silent after it spoke.
    pub cooldown_turns: u32,
    /// How often in one run.
    pub max_fires_per_session: Option<NonZeroU32>,
    /// Where.
    pub points: DecisionPoints,
}

impl GuidanceProviderConfig {
    /// Asks `provider` at every point: up to three times a turn, if it is at least half sure.
    pub fn new(provider: impl GuidanceProvider + 'static) -> Self {
        Self {
            id: ProviderId::of(provider.name()),
            provider: Box::new(provider),
            max_per_turn: NonZeroU32::MIN.saturating_add(2),
            min_confidence: Confidence::HALF,
            cooldown_turns: 0,
            max_fires_per_session: None,
            points: DecisionPoints::ALL,
        }
    }

    /// What the provider is called.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// Whether the provider may speak now, as far as counts go.
    pub(crate) fn may_fire(&self, context: &GuidanceContext<'_>) -> bool {
        let fired = context.session().fired_by(self.id);
        if fired.total == 0 {
            return true;
        }
        let turns_since = context.turn_count().saturating_sub(fired.turn);
        let rested = if turns_since == 0 {
            self.cooldown_turns == 0 && fired.in_turn < self.max_per_turn.get()
        } else {
            turns_since > u64::from(self.cooldown_turns)
        };
        let is_left =
            self.max_fires_per_session.is_none_or(|max| fired.total < u64::from(max.get()));
        rested && is_left
    }
}

impl std::fmt::Debug for GuidanceProviderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuidanceProviderConfig")
            .field("provider", &self.provider.name())
            .field("max_per_turn", &self.max_per_turn)
            .field("min_confidence", &self.min_confidence)
            .field("cooldown_turns", &self.cooldown_turns)
            .field("max_fires_per_session", &self.max_fires_per_session)
            .field("points", &self.points)
            .finish()
    }
}
