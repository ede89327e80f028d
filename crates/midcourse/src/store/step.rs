//! One step: stores an event, the engine's conclusions and any delivery with one commit.

use std::time::Instant;

use midcourse_core::Step;

use super::Store;
use super::batch::Batch;
use super::error::StoreError;
use super::synced_engine::SyncedEngine;
use crate::event::Event;
use crate::sink::Recorded;

impl Store {
    /// Stores an event and what the engine concludes from it. The deliveries of the step are on
    /// disk when this returns.
    pub fn step(
        &mut self,
        event: Event,
        engine: &mut SyncedEngine,
    ) -> Result<(Recorded, Step), StoreError> {
        let mut batch = Batch::new([event], &self.settings)?;
        self.step_batch(&mut batch, engine)
    }

    /// Like [`step`](Self::step), for a batch of events that are already prepared.
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
