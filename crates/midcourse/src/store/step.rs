//! The step: an event recorded, watched, and spoken about, with one commit.

use std::time::Instant;

use midcourse_core::{DecisionPoint, Delivery, Fault, Outcome};

use super::Store;
use super::draft::Draft;
use super::error::StoreError;
use super::plan::Plan;
use crate::event::Event;
use crate::sink::Recorded;
use crate::watch::Watch;

/// What became of an event of a watched run.
#[derive(Debug)]
pub struct Step {
    /// Its record.
    pub recorded: Recorded,
    /// What is to be said, where and why. It is on record already.
    pub said: Vec<(DecisionPoint, Delivery)>,
    /// What followed things said before. It is on record too.
    pub outcomes: Vec<Outcome>,
    /// Providers and detectors that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl Store {
    /// Records an event, watches it, and records what is said about it.
    pub fn step(&mut self, event: Event, watch: &mut Watch) -> Result<Step, StoreError> {
        let draft = Draft::new(event, &self.settings)?;
        self.step_draft(&draft, watch)
    }

    pub(super) fn step_draft(
        &mut self,
        draft: &Draft,
        watch: &mut Watch,
    ) -> Result<Step, StoreError> {
        let (begun, patience) = (Instant::now(), self.settings.patience);
        let stepped = loop {
            match self.try_step(draft, watch) {
                Ok(None) if begun.elapsed() < patience => {
                    self.set_patience(patience.saturating_sub(begun.elapsed()))?;
                }
                Ok(None) => break Err(StoreError::Locked),
                Ok(Some(step)) => break Ok(step),
                Err(error) => break Err(error),
            }
        };
        self.set_patience(patience)?;
        if stepped.is_err() {
            watch.lost_its_place();
        }
        stepped
    }

    /// One attempt; nothing, if another process was faster.
    fn try_step(&mut self, draft: &Draft, watch: &mut Watch) -> Result<Option<Step>, StoreError> {
        let Some(plan) = self.try_plan(std::slice::from_ref(draft), watch)? else {
            return Ok(None);
        };
        let written = self.carry_out(&mut [(&plan, watch)])?.pop().flatten();
        let Plan { said, outcomes, faults, .. } = plan;
        let recorded = written.and_then(|mut recorded| recorded.pop());
        Ok(recorded.map(|recorded| Step { recorded, said, outcomes, faults }))
    }
}
