//! Stores an event, and the messages for the agent that the engine makes from it, with one commit.

use std::time::Instant;

use midcourse_core::Step;

use super::Store;
use super::batch::Batch;
use super::error::StoreError;
use super::synced_engine::SyncedEngine;
use crate::event::Event;
use crate::sink::Recorded;

impl Store {
    /// Shows an event to the engine, and stores the event and what the engine concludes from it.
    /// When this returns, the event and the messages in the step are on disk.
    pub fn step(
        &mut self,
        event: Event,
        engine: &mut SyncedEngine,
    ) -> Result<(Recorded, Step), StoreError> {
        let mut batch = Batch::new([event], &self.settings)?;
        self.step_batch(&mut batch, engine)
    }

    /// Evaluates a batch of events and commits it. If another process wrote to the run after the
    /// evaluation and before the commit, does both again, until `busy_timeout` is over. Returns the
    /// record of the last event, and what the engine concluded.
    pub(super) fn step_batch(
        &mut self,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<(Recorded, Step), StoreError> {
        let (start, busy_timeout) = (Instant::now(), self.settings.busy_timeout);
        let stepped = loop {
            let attempt = self.evaluate(batch, engine).and_then(|()| {
                let mut committed = self.commit(&mut [(&mut *batch, engine)])?;
                Ok(committed.pop().flatten())
            });
            match attempt {
                Ok(Some(mut recorded)) => {
                    let none = || StoreError::Rejected("a batch needs an event".to_owned());
                    break recorded.pop().ok_or_else(none);
                }
                Ok(None) if start.elapsed() < busy_timeout => {
                    self.set_busy_timeout(busy_timeout.saturating_sub(start.elapsed()))?;
                }
                Ok(None) => break Err(StoreError::Locked),
                Err(error) => break Err(error),
            }
        };
        self.set_busy_timeout(busy_timeout)?;
        if stepped.is_err() {
            engine.clear_position();
        }
        stepped.map(|recorded| (recorded, batch.take_step()))
    }
}
