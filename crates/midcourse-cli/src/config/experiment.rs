//! The table `[experiment]`: how many messages are withheld at random, and how their effect is to be
//! analysed. The table is recorded with each run, so that the analysis follows a plan from before
//! the run. `midcourse report --effect` reads it there.

use std::num::NonZeroU32;

use midcourse::{CALLS_TO_DECIDE, Holdout};
use serde::Deserialize;

use super::value::{ExperimentName, HoldoutShare, OutcomeCalls, PlannedCases};

/// Cases (runs with a problem) to analyse, unless the configuration says otherwise. With a holdout
/// of 0.2, they show a recovery of 50 % instead of 30 % in four of five experiments.
const DEFAULT_CASES: NonZeroU32 = NonZeroU32::MIN.saturating_add(299);

/// An experiment: the share of problems whose messages are withheld, and the plan for its analysis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Experiment {
    /// Tells this experiment apart from others with the same plan.
    pub(crate) name: Option<String>,
    pub(crate) holdout: Holdout,
    /// A problem counts as recovered if it is gone within this many calls after its first message.
    pub(crate) within_calls: NonZeroU32,
    /// How many cases are analysed: the first ones, in the order of time.
    pub(crate) cases: NonZeroU32,
}

impl Experiment {
    /// Whether messages are withheld.
    pub(crate) fn is_on(&self) -> bool {
        self.holdout != Holdout::NONE
    }
}

/// After this many calls the outcome of each message is decided, so a plan cannot ask for more.
pub(super) fn max_within_calls() -> NonZeroU32 {
    let calls = u32::try_from(CALLS_TO_DECIDE).ok().and_then(NonZeroU32::new);
    calls.unwrap_or(NonZeroU32::MIN)
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            name: None,
            holdout: Holdout::NONE,
            within_calls: max_within_calls(),
            cases: DEFAULT_CASES,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ExperimentWire {
    name: Option<ExperimentName>,
    holdout: Option<HoldoutShare>,
    within_calls: Option<OutcomeCalls>,
    cases: Option<PlannedCases>,
}

impl ExperimentWire {
    pub(super) fn read(self) -> Experiment {
        let shipped = Experiment::default();
        let Self { name, holdout, within_calls, cases } = self;
        Experiment {
            name: name.map(|name| name.0),
            holdout: holdout.map_or(shipped.holdout, |holdout| holdout.0),
            within_calls: within_calls.map_or(shipped.within_calls, |calls| calls.0),
            cases: cases.map_or(shipped.cases, |cases| cases.0),
        }
    }
}
