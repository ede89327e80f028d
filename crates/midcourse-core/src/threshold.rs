//! Checks thresholds that users give as plain numbers. They are checked once, when the provider or
//! limit that uses them is built.

use std::num::NonZeroU32;

use crate::confidence::InvalidConfidence;

/// The error for an invalid threshold or limit.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidThreshold {
    /// The number is 0, which no threshold can be.
    #[error("a threshold of 0 is not possible; use 1 or more")]
    Zero,
    /// The length of a repeated sequence of calls is more than the loop detector can find.
    #[error("a cycle of {calls} calls is too long; use 1 to {max}")]
    CycleTooLong {
        /// The rejected length, in calls.
        calls: u32,
        /// The longest allowed length, in calls.
        max: usize,
    },
    /// A confidence is not a number from 0 to 1.
    #[error(transparent)]
    Confidence(#[from] InvalidConfidence),
}

pub(crate) fn at_least_one(count: u32) -> Result<NonZeroU32, InvalidThreshold> {
    NonZeroU32::new(count).ok_or(InvalidThreshold::Zero)
}
