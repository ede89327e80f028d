//! When a feedback provider is due: after a number of calls, after a time, or when a file appears.
//!
//! Calls and time are counted from the latest feedback of the same provider, separately for each
//! prompt that the run uses. If they were counted from the latest feedback of any provider, then of
//! two providers with the same trigger only the first would run: its feedback would restart the
//! count for both.

use std::num::NonZeroU32;

use compact_str::CompactString;

use super::FeedbackContext;
use crate::session::ProviderId;
use crate::time::{InvalidSeconds, Seconds};

/// The conditions under which a provider is due. One condition that is met is enough; without
/// conditions, the provider is never due.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeedbackTrigger {
    every_n_calls: Option<NonZeroU32>,
    every_n_seconds: Option<Seconds>,
    on_file_created: Option<CompactString>,
}

impl FeedbackTrigger {
    /// A trigger without conditions, which is never due.
    pub fn never() -> Self {
        Self::default()
    }

    /// Due once the agent has made this many tool calls since the provider's latest feedback or, if
    /// there was none, since the prompt was first used. 0 is an error.
    pub fn every_n_calls(calls: u32) -> Result<Self, InvalidTrigger> {
        let calls = NonZeroU32::new(calls).ok_or(InvalidTrigger::ZeroCalls)?;
        Ok(Self { every_n_calls: Some(calls), ..Self::default() })
    }

    /// Due this long after the provider's latest feedback, and right away if there was none.
    pub fn every_n_seconds(seconds: f64) -> Result<Self, InvalidTrigger> {
        Ok(Self { every_n_seconds: Some(Seconds::try_from(seconds)?), ..Self::default() })
    }

    /// Due when a file with this path, or with this name in any folder, was created and the
    /// provider has not delivered feedback since. An empty path is an error.
    pub fn on_file_created(path: &str) -> Result<Self, InvalidTrigger> {
        if path.is_empty() {
            return Err(InvalidTrigger::EmptyPath);
        }
        Ok(Self { on_file_created: Some(path.into()), ..Self::default() })
    }

    /// Due if `self` or `other` is due. If both have a condition of the same kind, such as a number
    /// of calls, only the condition of `other` counts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            every_n_calls: other.every_n_calls.or(self.every_n_calls),
            every_n_seconds: other.every_n_seconds.or(self.every_n_seconds),
            on_file_created: other.on_file_created.or(self.on_file_created),
        }
    }

    /// The path or name of the file whose creation makes the provider due; `None` if no file does.
    pub fn file(&self) -> Option<&str> {
        self.on_file_created.as_deref()
    }

    pub(crate) fn is_due(&self, context: &FeedbackContext<'_>, provider: ProviderId) -> bool {
        let last = context.last_delivery(provider);
        let by_calls = self.every_n_calls.is_some_and(|n| {
            let before = last.map_or(0, |(_, call)| call);
            // What is due after each call is also due with a request that has no tool result.
            let is_always = n.get() == 1 && !context.has_result();
            is_always || context.tool_call_count().saturating_sub(before) >= u64::from(n.get())
        });
        let by_time = self.every_n_seconds.is_some_and(|interval| {
            last.is_none_or(|(at, _)| context.now().since(at) >= interval.duration())
        });
        let by_file =
            self.file().is_some_and(|file| context.session().has_unannounced_file(provider, file));
        by_calls || by_time || by_file
    }
}

/// The error for an invalid trigger.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidTrigger {
    /// A trigger every 0 calls.
    #[error("a trigger every 0 calls is not possible; use 1 or more, or leave it out")]
    ZeroCalls,
    /// A number of seconds that is zero, negative, infinite or NaN.
    #[error(transparent)]
    Seconds(#[from] InvalidSeconds),
    /// A trigger on a file without a name.
    #[error("a trigger on a file is missing the file; give its name or path")]
    EmptyPath,
}
