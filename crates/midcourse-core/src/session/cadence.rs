//! Cadence: when each provider last delivered.
//!
//! Each provider is timed on its own: if all shared one time, the second of two providers with the
//! same trigger would never be due. For feedback, the time is also kept per prompt.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::ProviderName;
use crate::time::Timestamp;

/// The maximum number of providers whose latest delivery is remembered; beyond that, the one that
/// delivered longest ago is forgotten.
const MAX_PROVIDERS: usize = 64;

/// How often a guidance provider has delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// Number of deliveries in the run.
    pub total: u64,
    /// Number of the turn of the latest delivery.
    pub turn: u64,
    /// Number of deliveries in that turn.
    pub in_turn: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cadence {
    /// Provider, number of the prompt, and time and call number of the provider's latest delivery.
    /// The most recent delivery is last.
    feedback: VecDeque<(ProviderId, u8, Timestamp, u64)>,
    /// One entry per provider, ordered by the latest delivery, the most recent last.
    guidance: VecDeque<(ProviderId, Fired)>,
}

/// Identifies a provider by a digest of its name, in the form that messages show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ProviderId(Digest);

impl ProviderId {
    pub(crate) fn of(name: &str) -> Self {
        Self(Digest::of(ProviderName::of(name).as_str().as_bytes()))
    }
}

impl Cadence {
    pub(super) fn record_feedback(
        &mut self,
        provider: ProviderId,
        prompt: u8,
        at: Timestamp,
        call: u64,
    ) {
        // The host's clock may step back, but the time of the latest delivery does not.
        let at = self.last_feedback(provider, prompt).map_or(at, |(before, _)| before.max(at));
        self.feedback.retain(|(known, of, ..)| (*known, *of) != (provider, prompt));
        if self.feedback.len() == MAX_PROVIDERS {
            self.feedback.pop_front();
        }
        self.feedback.push_back((provider, prompt, at, call));
    }

    pub(super) fn last_feedback(
        &self,
        provider: ProviderId,
        prompt: u8,
    ) -> Option<(Timestamp, u64)> {
        let mut known = self.feedback.iter();
        known
            .find(|(known, of, ..)| (*known, *of) == (provider, prompt))
            .map(|(.., at, call)| (*at, *call))
    }

    /// Number of calls on a prompt at the time when any provider last delivered on it.
    pub(super) fn last_feedback_call(&self, prompt: u8) -> u64 {
        let on_prompt = self.feedback.iter().filter(|(_, of, ..)| *of == prompt);
        on_prompt.map(|(.., call)| *call).max().unwrap_or(0)
    }

    pub(super) fn record_guidance(&mut self, provider: ProviderId, turn: u64) {
        let mut fired = self.fired(provider);
        self.guidance.retain(|(known, _)| *known != provider);
        fired.in_turn = if fired.total > 0 && fired.turn == turn { fired.in_turn + 1 } else { 1 };
        fired.total += 1;
        fired.turn = turn;
        if self.guidance.len() == MAX_PROVIDERS {
            self.guidance.pop_front();
        }
        self.guidance.push_back((provider, fired));
    }

    pub(super) fn fired(&self, provider: ProviderId) -> Fired {
        let mut known = self.guidance.iter();
        known.find(|(known, _)| *known == provider).map_or_else(Fired::default, |(_, fired)| *fired)
    }
}
