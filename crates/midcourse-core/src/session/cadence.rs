//! Cadence: when each provider last delivered a message to the agent.
//!
//! Each provider has its own time. If all providers shared one time, then of two providers with the
//! same trigger, such as "every five calls", only the first would ever deliver: its message would
//! restart the wait for both. For feedback, there is one time per provider and prompt.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::ProviderName;
use crate::time::Timestamp;

/// The maximum length of each of the two lists in `Cadence`. If a list gets longer, the entry with
/// the oldest delivery is dropped.
const MAX_PROVIDERS: usize = 64;

/// How often a guidance provider has delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// How many messages of the provider were delivered in the run.
    pub total: u64,
    /// Number of the turn in which the latest message was delivered, counted over the whole run.
    pub turn: u64,
    /// How many messages of the provider were delivered in the turn `turn`.
    pub in_turn: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cadence {
    /// The latest feedback of each provider on each prompt: the provider, the number of the prompt,
    /// the time, and how many tool calls the run had made on that prompt by then. The entry with
    /// the most recent feedback is last.
    feedback: VecDeque<(ProviderId, u8, Timestamp, u64)>,
    /// How often each provider has delivered guidance. The entry with the most recent guidance is
    /// last.
    guidance: VecDeque<(ProviderId, Fired)>,
}

/// Identifies a provider by a digest of its name. Two names that look the same in messages, where
/// unsafe characters are removed, have the same digest.
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
        // If the host's clock was set back, the time of the previous delivery is kept.
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

    /// How many tool calls the run had made on a prompt when it last received feedback there, from
    /// any provider; 0 if it has received none there.
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
