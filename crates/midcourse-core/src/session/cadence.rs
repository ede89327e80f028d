//! Cadence: when each provider last spoke. Per provider, because the second of two would starve
//! otherwise, and for feedback per prompt.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::SafeName;
use crate::time::Timestamp;

/// Providers whose cadence is kept; beyond it the one that spoke longest ago is forgotten.
const PROVIDERS_MAX: usize = 64;

/// How often a guidance provider has spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// In the whole run.
    pub total: u64,
    /// The turn in which it last spoke.
    pub turn: u64,
    /// In that turn.
    pub in_turn: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cadence {
    /// By provider and prompt, the latest to speak last.
    feedback: VecDeque<(ProviderId, u8, Timestamp, u64)>,
    /// By provider, the latest to speak last.
    guidance: VecDeque<(ProviderId, Fired)>,
}

/// Who a provider is: names that read the same once they are said are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ProviderId(Digest);

impl ProviderId {
    pub(crate) fn of(name: &str) -> Self {
        Self(Digest::of(SafeName::of(name).as_str().as_bytes()))
    }
}

impl Cadence {
    pub(super) fn spoke(&mut self, provider: ProviderId, prompt: u8, at: Timestamp, call: u64) {
        // A clock that stepped back does not make a later word an earlier one.
        let at = self.last_spoke(provider, prompt).map_or(at, |(before, _)| before.max(at));
        self.feedback.retain(|(known, of, ..)| (*known, *of) != (provider, prompt));
        if self.feedback.len() == PROVIDERS_MAX {
            self.feedback.pop_front();
        }
        self.feedback.push_back((provider, prompt, at, call));
    }

    pub(super) fn last_spoke(&self, provider: ProviderId, prompt: u8) -> Option<(Timestamp, u64)> {
        let mut known = self.feedback.iter();
        known
            .find(|(known, of, ..)| (*known, *of) == (provider, prompt))
            .map(|(.., at, call)| (*at, *call))
    }

    /// The call at which anybody last spoke on a prompt.
    pub(super) fn last_call(&self, prompt: u8) -> u64 {
        let on_prompt = self.feedback.iter().filter(|(_, of, ..)| *of == prompt);
        on_prompt.map(|(.., call)| *call).max().unwrap_or(0)
    }

    pub(super) fn fired(&mut self, provider: ProviderId, turn: u64) {
        let mut fired = self.guidance(provider);
        self.guidance.retain(|(known, _)| *known != provider);
        fired.in_turn = if fired.total > 0 && fired.turn == turn { fired.in_turn + 1 } else { 1 };
        fired.total += 1;
        fired.turn = turn;
        if self.guidance.len() == PROVIDERS_MAX {
            self.guidance.pop_front();
        }
        self.guidance.push_back((provider, fired));
    }

    pub(super) fn guidance(&self, provider: ProviderId) -> Fired {
        let mut known = self.guidance.iter();
        known.find(|(known, _)| *known == provider).map_or_else(Fired::default, |(_, fired)| *fired)
    }
}
