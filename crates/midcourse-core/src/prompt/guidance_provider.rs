//! The trait of guidance providers, and how a provider is added to a prompt.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::GuidanceContext;
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, DecisionPoint, DecisionPoints, GuidanceInjection};
use crate::session::ProviderId;
use crate::threshold::{InvalidThreshold, at_least_one};

/// Decides at decision points whether the agent should get guidance, and writes the guidance.
///
/// An implementation must depend on the context alone: no clock, no disk, no state of its own. A
/// replay of the run then gives the same guidance. If an implementation returns an error or panics,
/// it is skipped and reported, and the other providers still run.
pub trait GuidanceProvider: Send + Sync {
    /// Name of the provider in records and reports. It must be unique among the guidance providers
    /// of a prompt.
    fn name(&self) -> &str;

    /// Category of the provider's guidance. If several pieces of guidance of one category apply at
    /// a decision point, the agent gets only one: the piece with the lowest priority number.
    fn category(&self) -> &str;

    /// Whether guidance applies now. This should be fast, because it is called at every decision
    /// point.
    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError>;

    /// Makes the guidance. Called only if [`Self::classify`] found that guidance applies, with
    /// enough confidence.
    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError>;
}

macro_rules! guide_through_a_pointer {
    ($($pointer:ident),*) => {$(
        impl<T: GuidanceProvider + ?Sized> GuidanceProvider for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn category(&self) -> &str {
                (**self).category()
            }

            fn classify(
                &self,
                context: &GuidanceContext<'_>,
            ) -> Result<ClassificationResult, ProviderError> {
                (**self).classify(context)
            }

            fn provide(
                &self,
                context: &GuidanceContext<'_>,
            ) -> Result<GuidanceInjection, ProviderError> {
                (**self).provide(context)
            }
        }
    )*};
}

guide_through_a_pointer!(Box, Arc);

/// How often a guidance provider may deliver, and how confident it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidanceLimits {
    /// The maximum number of deliveries in one turn.
    pub max_per_turn: NonZeroU32,
    /// For this many turns after a delivery, the provider does not deliver again.
    pub cooldown_turns: u32,
    /// The maximum number of deliveries in one run; `None` for no limit.
    pub max_fires_per_session: Option<NonZeroU32>,
    /// The provider delivers only if its classifier is at least this confident.
    pub min_confidence: Confidence,
}

impl Default for GuidanceLimits {
    /// Three deliveries per turn, at a confidence of at least one half, with no cooldown and no
    /// limit per run.
    fn default() -> Self {
        Self {
            max_per_turn: NonZeroU32::MIN.saturating_add(2),
            cooldown_turns: 0,
            max_fires_per_session: None,
            min_confidence: Confidence::HALF,
        }
    }
}

/// A guidance provider of a prompt, with how often and at which decision points it may deliver.
///
/// ```
/// use midcourse_core::{DecisionPoint, DiagnosticSignalProvider, GuidanceProviderConfig};
///
/// let config = GuidanceProviderConfig::new(DiagnosticSignalProvider::new(3)?)
///     .with_max_per_turn(1)?
///     .with_min_confidence(0.7)?
///     .with_points([DecisionPoint::PreToolExecution]);
/// assert_eq!((config.max_per_turn(), config.min_confidence()), (1, 0.7));
/// # Ok::<(), midcourse_core::InvalidThreshold>(())
/// ```
pub struct GuidanceProviderConfig {
    pub(crate) provider: Box<dyn GuidanceProvider>,
    pub(super) id: ProviderId,
    /// How often the provider may deliver, and how confident it has to be.
    pub limits: GuidanceLimits,
    /// Decision points at which the provider may deliver.
    pub points: DecisionPoints,
}

impl GuidanceProviderConfig {
    /// A provider that has the default limits and may deliver at every decision point.
    pub fn new(provider: impl GuidanceProvider + 'static) -> Self {
        Self {
            id: ProviderId::of(provider.name()),
            provider: Box::new(provider),
            limits: GuidanceLimits::default(),
            points: DecisionPoints::ALL,
        }
    }

    /// Sets the maximum number of deliveries in one turn; 3 by default. 0 is an error.
    pub fn with_max_per_turn(mut self, deliveries: u32) -> Result<Self, InvalidThreshold> {
        self.limits.max_per_turn = at_least_one(deliveries)?;
        Ok(self)
    }

    /// Sets the lowest confidence with which the provider delivers, from 0 to 1; by default 0.5.
    pub fn with_min_confidence(mut self, confidence: f64) -> Result<Self, InvalidThreshold> {
        self.limits.min_confidence = confidence.try_into()?;
        Ok(self)
    }

    /// Sets for how many turns after a delivery the provider does not deliver again; by default 0.
    #[must_use]
    pub const fn with_cooldown_turns(mut self, turns: u32) -> Self {
        self.limits.cooldown_turns = turns;
        self
    }

    /// Sets the maximum number of deliveries in one run; by default there is no limit. 0 is an
    /// error.
    pub fn with_max_fires_per_session(mut self, deliveries: u32) -> Result<Self, InvalidThreshold> {
        self.limits.max_fires_per_session = Some(at_least_one(deliveries)?);
        Ok(self)
    }

    /// Sets all limits at once.
    #[must_use]
    pub const fn with_limits(mut self, limits: GuidanceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the decision points at which the provider may deliver; by default all of them.
    #[must_use]
    pub fn with_points(mut self, points: impl IntoIterator<Item = DecisionPoint>) -> Self {
        self.points = DecisionPoints::of(points);
        self
    }

    /// Name of the provider in records and reports.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// The provider itself, without its limits.
    pub fn provider(&self) -> &dyn GuidanceProvider {
        &*self.provider
    }

    /// The maximum number of deliveries in one turn.
    pub const fn max_per_turn(&self) -> u32 {
        self.limits.max_per_turn.get()
    }

    /// Lowest confidence with which the provider delivers, from 0 to 1.
    pub const fn min_confidence(&self) -> f64 {
        self.limits.min_confidence.value()
    }

    /// Whether the limits on the number of deliveries allow another delivery now. The limit on the
    /// confidence is checked later, after the classifier has run.
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
