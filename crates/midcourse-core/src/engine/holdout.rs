//! The holdout: the share of problems about which the agent gets no message, so that the effect of
//! messages can be measured.
//!
//! The decision depends on the run and the problem alone. It is known before the problem occurs, it
//! is the same in a replay, and all messages about the problem share it.

use crate::cause::Cause;
use crate::digest::Digest;
use crate::message::Assignment;

/// The share of problems whose messages are withheld from the agent: at least 0 and less than 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Holdout(f64);

impl Holdout {
    /// No experiment: every message is delivered.
    pub const NONE: Self = Self(0.0);

    /// The share, from 0 to less than 1.
    pub const fn share(self) -> f64 {
        self.0
    }

    /// What is decided about all messages on this problem of this run; `None` if there is no
    /// experiment.
    pub(super) fn assign(self, run_id: &str, cause: &Cause) -> Option<Assignment> {
        if self == Self::NONE {
            return None;
        }
        // The prefix keeps this digest independent of all other uses of the run's id.
        let digest = Digest::of(b"midcourse holdout").then(run_id.as_bytes()).with(cause.id());
        #[expect(clippy::cast_precision_loss, reason = "a number of 53 bits is exact")]
        let draw = (digest.value() >> 11) as f64 / (1_u64 << 53) as f64;
        Some(if draw < self.0 { Assignment::Withheld } else { Assignment::Delivered })
    }
}

impl TryFrom<f64> for Holdout {
    type Error = InvalidHoldout;

    fn try_from(share: f64) -> Result<Self, InvalidHoldout> {
        // Adding zero turns -0.0 into 0.0.
        if (0.0..1.0).contains(&share) { Ok(Self(share + 0.0)) } else { Err(InvalidHoldout(share)) }
    }
}

/// The error for a holdout that is less than 0, at least 1, or NaN.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("invalid holdout `{0}`; expected a number from 0 to less than 1, such as 0.2")]
pub struct InvalidHoldout(pub f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld(share: f64, runs: u32) -> Vec<bool> {
        let (holdout, cause) = (Holdout::try_from(share).unwrap(), Cause::only("doom_loop"));
        (0..runs)
            .map(|run| holdout.assign(&format!("run-{run}"), &cause) == Some(Assignment::Withheld))
            .collect()
    }

    #[test]
    fn the_share_of_problems_is_withheld() {
        for share in [0.05, 0.2, 0.5, 0.95] {
            let count = withheld(share, 20_000).into_iter().filter(|it| *it).count();
            let expected = 20_000.0 * share;
            let spread = (expected * (1.0 - share)).sqrt();
            let off = (f64::from(u32::try_from(count).unwrap()) - expected).abs();
            assert!(off < 4.0 * spread, "{share}: {count}");
        }
    }

    #[test]
    fn a_larger_share_withholds_more_and_nothing_else() {
        let (few, many) = (withheld(0.1, 5_000), withheld(0.4, 5_000));
        assert!(few.iter().zip(&many).all(|(few, many)| !few || *many));
    }

    #[test]
    fn the_causes_of_one_run_are_assigned_independently() {
        let holdout = Holdout::try_from(0.5).unwrap();
        let assign = |run: u32, kind| holdout.assign(&format!("run-{run}"), &Cause::only(kind));
        let same = (0..4_000).filter(|run| assign(*run, "doom_loop") == assign(*run, "outage"));
        assert!((1_870..2_130).contains(&same.count()));
    }

    #[test]
    fn shares_out_of_range_are_refused() {
        for bad in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            assert!(Holdout::try_from(bad).is_err(), "{bad} was accepted");
        }
        assert_eq!(Holdout::try_from(0.0).unwrap().assign("r", &Cause::only("outage")), None);
    }
}
