//! Money, in whole millionths of a dollar.

use serde::{Deserialize, Serialize};

/// Millionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(u64);

impl MicroUsd {
    /// The number of millionths.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is more than `other`; nothing if it is less.
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
            reason = "not negative, and a cast from floating point saturates"
        )]
        let micro = (dollars * 1e6).round() as u64;
        Ok(Self(micro))
    }
}

/// In dollars and cents.
impl std::fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 1_000_000, self.0 % 1_000_000 / 10_000)
    }
}

/// A number that is no amount of money.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not an amount of money: give a finite number of dollars, zero or more")]
pub struct InvalidMoney(pub f64);
