//! The properties of a call that are either true or false.

use serde::{Deserialize, Serialize};

/// Properties of a call that are either true or false, one bit each. Most are explained at the
/// method of `ToolInvoked` that returns them, or at the field of `CommandView` with a similar name.
/// `NEW_TARGET` and `NEW_RESULT` are kinds of progress, which `is_progress` returns. Bits take
/// little space in the checkpoint (the saved session), which contains all kept calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallFlags(u64);

impl CallFlags {
    pub(super) const WRITES: Self = Self(1);
    pub(super) const WAITS: Self = Self(1 << 1);
    pub(super) const SHELL: Self = Self(1 << 2);
    pub(super) const DUPLICATE: Self = Self(1 << 3);
    pub(super) const REPEATS: Self = Self(1 << 4);
    pub(super) const BARE: Self = Self(1 << 5);
    pub(super) const NEW_TARGET: Self = Self(1 << 6);
    pub(super) const NEW_RESULT: Self = Self(1 << 7);
    pub(super) const LANDED: Self = Self(1 << 8);
    pub(super) const NEW_ERROR: Self = Self(1 << 9);
    pub(super) const IDLE: Self = Self(1 << 10);
    pub(super) const FOUND_NOTHING: Self = Self(1 << 11);
    pub(super) const PENDING: Self = Self(1 << 12);
    pub(super) const SERVICE_DOWN: Self = Self(1 << 13);
    pub(super) const REVERTS: Self = Self(1 << 14);
    pub(super) const PRINTS_CLOCK: Self = Self(1 << 15);
    pub(super) const IS_BENCHMARK: Self = Self(1 << 16);
    pub(super) const POLLS: Self = Self(1 << 17);
    pub(super) const NEGATIVE: Self = Self(1 << 18);
    pub(super) const LISTS_PROCESSES: Self = Self(1 << 19);
    pub(super) const HIDES_FAILURE: Self = Self(1 << 20);
    pub(super) const ONLY_READS: Self = Self(1 << 21);
    pub(super) const REMOTE: Self = Self(1 << 22);
    pub(super) const UI: Self = Self(1 << 23);

    // The following flags are needed only until the detectors have examined the call, so the
    // checkpoint does not contain them. It stores a small number in fewer bytes.
    /// The call reads a file or searches, so its result may contain any words.
    pub(super) const SHOWS_CONTENT: Self = Self(1 << 24);
    pub(super) const SEARCHES: Self = Self(1 << 25);
    /// The call is a query that counts something, so a result of 0 does not mean "nothing found".
    pub(super) const COUNTS: Self = Self(1 << 26);
    pub(super) const POSITIVE: Self = Self(1 << 27);
    pub(super) const SILENT: Self = Self(1 << 28);
    pub(super) const ORIENTS: Self = Self(1 << 29);
    pub(super) const ENDED: Self = Self(1 << 30);
    pub(super) const RUNS_CHECK: Self = Self(1 << 31);
    pub(super) const LIMITS_TIME: Self = Self(1 << 32);
    pub(super) const ANSWERS: Self = Self(1 << 33);
    pub(super) const COMPARES: Self = Self(1 << 34);
    pub(super) const PLACEHOLDER: Self = Self(1 << 35);
    pub(super) const IS_MEASUREMENT: Self = Self(1 << 36);
    pub(super) const EMPTY_ANSWER: Self = Self(1 << 37);
    const SAVED: Self = Self((1 << 24) - 1);

    pub(super) const PROGRESS: Self =
        Self(Self::NEW_TARGET.0 | Self::NEW_RESULT.0 | Self::LANDED.0 | Self::NEW_ERROR.0);

    pub(super) const fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    pub(super) const fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    /// Writes only the flags that belong in a checkpoint.
    pub(super) fn save<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self(self.0 & Self::SAVED.0).serialize(serializer)
    }

    /// Clears the flags that a checkpoint does not contain.
    pub(super) const fn clear_temporary(&mut self) {
        self.0 &= Self::SAVED.0;
    }

    /// Sets the flag if `on` is true; otherwise leaves it as it is.
    pub(super) fn set(&mut self, flag: Self, on: bool) {
        if on {
            self.0 |= flag.0;
        }
    }
}
