//! Amounts of money, as a whole number of millionths of a US dollar.

use serde::{Deserialize, Serialize};

/// An amount of money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(u64);

impl MicroUsd {
    /// This many millionths of a US dollar.
    pub const fn from_micro(micro: u64) -> Self {
        Self(micro)
    }

    /// The amount in millionths of a US dollar.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This amount minus `other`; zero if `other` is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl TryFrom<f64> for MicroUsd {
    type Error = InvalidMoney;

    fn try_from(dollars: f64) -> Result<Self, InvalidMoney> {
        if !dollars.is_finite() || dollars < 0.0 {
            return Err(InvalidMoney(dollars));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the number is not negative, and casts from floating point saturate"
        )]
        let micro = (dollars * 1e6).round() as u64;
        Ok(Self(micro))
    }
}

/// Writes dollars and cents, such as `1.80`, and leaves out fractions of a cent.
impl std::fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 1_000_000, self.0 % 1_000_000 / 10_000)
    }
}

/// The error for a number of dollars that is negative or not finite.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("invalid amount `{0}`; expected a number of dollars, zero or more")]
pub struct InvalidMoney(pub f64);
