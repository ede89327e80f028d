//! Confidence: how sure a detector or classifier is, as a number from 0 to 1.

use serde::{Deserialize, Serialize};

/// The confidence of a detector or classifier, from 0 to 1, never NaN.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(f64);

impl Confidence {
    /// 0, the lowest confidence.
    pub const ZERO: Self = Self(0.0);
    /// 0.5. By default a guidance provider delivers if its confidence is at least this high.
    pub const HALF: Self = Self(0.5);
    /// 1, the highest confidence.
    pub const ONE: Self = Self(1.0);

    /// Limits a number to the range from 0 to 1 and rounds it to thousandths; NaN becomes 0.
    pub const fn clamped(value: f64) -> Self {
        if value.is_nan() {
            Self::ZERO
        } else {
            Self((value.clamp(0.0, 1.0) * 1_000.0).round() / 1_000.0)
        }
    }

    /// The number, from 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

/// A confidence is never NaN, so any two confidences can be compared.
impl Ord for Confidence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Confidence {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Confidence {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Confidence {}

impl TryFrom<f64> for Confidence {
    type Error = InvalidConfidence;

    fn try_from(value: f64) -> Result<Self, InvalidConfidence> {
        // Adding zero turns -0.0 into 0.0; `total_cmp` would order -0.0 below 0.0.
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value + 0.0))
        } else {
            Err(InvalidConfidence(value))
        }
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

/// The error for a confidence that is less than 0, more than 1, or NaN.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("invalid confidence `{0}`; expected a number from 0 to 1")]
pub struct InvalidConfidence(pub f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_zero_to_one_are_refused() {
        for bad in [1.5, -0.1, f64::NAN, f64::INFINITY] {
            assert!(Confidence::try_from(bad).is_err(), "{bad} was accepted");
        }
        assert!(serde_json::from_str::<Confidence>("1.5").is_err());
        assert_eq!(Confidence::try_from(1.0).unwrap(), Confidence::ONE);
    }
}
