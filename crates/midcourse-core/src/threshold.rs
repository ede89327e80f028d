//! Thresholds that people set as plain numbers: checked once, where a provider or limit is built.

use std::num::NonZeroU32;

use crate::confidence::InvalidConfidence;

/// The error for an invalid threshold or limit.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidThreshold {
    /// A count of zero.
    #[error("a threshold of 0 is not possible; use 1 or more")]
    Zero,
    /// A cycle that is longer than any that can be detected.
    #[error("a cycle of {calls} calls is too long; use 1 to {max}")]
    CycleTooLong {
        /// The rejected length, in calls.
        calls: u32,
        /// The longest allowed length, in calls.
        max: usize,
    },
    /// A number outside the range of a confidence.
    #[error(transparent)]
    Confidence(#[from] InvalidConfidence),
}

/// Checks that a count is not zero.
pub(crate) fn at_least_one(count: u32) -> Result<NonZeroU32, InvalidThreshold> {
    NonZeroU32::new(count).ok_or(InvalidThreshold::Zero)
}
