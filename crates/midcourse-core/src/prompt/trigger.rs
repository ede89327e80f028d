//! When a feedback provider is due: after so many calls, after so long, or when a file appears.
//!
//! Cadence is kept per provider and prompt. Measured from anybody's last word, two providers with
//! the same cadence would starve the second.

use std::num::NonZeroU32;

use compact_str::CompactString;

use super::FeedbackContext;
use crate::session::ProviderId;
use crate::time::{InvalidSeconds, Seconds};

/// When a provider is due. The conditions are or'd; without any it never is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeedbackTrigger {
    every_n_calls: Option<NonZeroU32>,
    every_n_seconds: Option<Seconds>,
    on_file_created: Option<CompactString>,
}

impl FeedbackTrigger {
    /// Never due.
    pub fn never() -> Self {
        Self::default()
    }

    /// Due when so many calls have passed since it last spoke.
    pub fn every_n_calls(calls: u32) -> Result<Self, InvalidTrigger> {
        let calls = NonZeroU32::new(calls).ok_or(InvalidTrigger::ZeroCalls)?;
        Ok(Self { every_n_calls: Some(calls), ..Self::default() })
    }

    /// Due when so much time has passed since it last spoke, and at the first opportunity.
    pub fn every_n_seconds(seconds: f64) -> Result<Self, InvalidTrigger> {
        Ok(Self { every_n_seconds: Some(Seconds::try_from(seconds)?), ..Self::default() })
    }

    /// Due once for each file of this path, or of this name in any folder, that appears.
    pub fn on_file_created(path: &str) -> Result<Self, InvalidTrigger> {
        if path.is_empty() {
            return Err(InvalidTrigger::EmptyPath);
        }
        Ok(Self { on_file_created: Some(path.into()), ..Self::default() })
    }

    /// Due when either is; where both name a condition, the other one's counts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            every_n_calls: other.every_n_calls.or(self.every_n_calls),
            every_n_seconds: other.every_n_seconds.or(self.every_n_seconds),
            on_file_created: other.on_file_created.or(self.on_file_created),
        }
    }

    /// The file it waits for.
    pub fn file(&self) -> Option<&str> {
        self.on_file_created.as_deref()
    }

    pub(crate) fn is_due(&self, context: &FeedbackContext<'_>, provider: ProviderId) -> bool {
        let last = context.session().last_feedback(provider);
        let by_calls = self.every_n_calls.is_some_and(|n| {
            let before = last.map_or(0, |(_, call)| call);
            context.tool_call_count().saturating_sub(before) >= u64::from(n.get())
        });
        let by_time = self.every_n_seconds.is_some_and(|length| {
            last.is_none_or(|(at, _)| context.now().since(at) >= length.duration())
        });
        let by_file =
            self.file().is_some_and(|file| context.session().has_unannounced_file(provider, file));
        by_calls || by_time || by_file
    }
}

/// A trigger that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidTrigger {
    /// Every zero calls.
    #[error("a trigger every 0 calls is not possible: give 1 or more, or leave it out")]
    ZeroCalls,
    /// Not a length of time.
    #[error(transparent)]
    Seconds(#[from] InvalidSeconds),
    /// No file named.
    #[error("a trigger on a file needs the file's name or path")]
    EmptyPath,
}
