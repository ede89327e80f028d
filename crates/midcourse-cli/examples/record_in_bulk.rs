//! Stores JSON lines as `midcourse record` does, with the same engine and the same messages, but
//! commits many events at once. The browser tests and benchmarks of `midcourse ui` use it to make
//! stores with 100,000 records in seconds.
//!
//! ```console
//! $ cargo run -p midcourse-cli --example nights | MIDCOURSE_HOME=/tmp/nights cargo run -p midcourse-cli --example record_in_bulk
//! ```

use std::error::Error;
use std::io::{BufRead as _, Write as _, stdin, stdout};

use midcourse::{
    Batch, Budget, Channel, DataDir, DecisionPoint, Durability, Engine, Event, RunId, RunIdentity,
    Source, Store, StoreSettings, SyncedEngine, Timestamp, TrajectoryPayload,
};
use serde::Deserialize;

/// Events that are evaluated together. The state of the engine is saved once for all of them.
const MAX_BATCH_EVENTS: usize = 500;

/// Events that one transaction stores.
const MAX_COMMIT_EVENTS: usize = 4_000;

/// The fields of a line that `midcourse record` reads and that generated runs use.
#[derive(Deserialize)]
struct Line {
    run_id: String,
    parent_run_id: Option<String>,
    #[serde(default)]
    depth: usize,
    host: String,
    recorded_at_unix_ms: u64,
    payload: TrajectoryPayload,
}

impl Line {
    fn into_event(self) -> Event {
        let mut run = RunIdentity::root(&self.run_id);
        run.parent_run_id = self.parent_run_id.map(RunId::from);
        run.depth = self.depth;
        let source = Source::new(&self.host, Channel::Library);
        let at = Timestamp::from_unix_ms(self.recorded_at_unix_ms);
        Event::new(run, source, at, self.payload).at_decision_point(DecisionPoint::PreToolSelection)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A program that embeds the store may raise the limit of 1 MiB; pages have to bear such texts.
    let settings = StoreSettings {
        durability: Durability::Normal,
        body_limit: 16 * 1024 * 1024,
        ..StoreSettings::default()
    };
    let data_dir = DataDir::of_user()?;
    let settings = settings.in_data_dir(&data_dir);
    let mut recorder = Recorder {
        store: Store::open(&data_dir, settings.clone())?,
        settings,
        engines: Vec::new(),
        batches: Vec::new(),
    };
    let (mut events, mut waiting, mut stored) = (Vec::<Event>::new(), 0, 0);
    for line in stdin().lock().lines() {
        let event = serde_json::from_str::<Line>(&line?)?.into_event();
        let is_other_run = events.first().is_some_and(|first| first.run.run_id != event.run.run_id);
        if is_other_run || events.len() >= MAX_BATCH_EVENTS {
            recorder.add(std::mem::take(&mut events))?;
        }
        if waiting >= MAX_COMMIT_EVENTS {
            recorder.commit()?;
            waiting = 0;
        }
        events.push(event);
        (waiting, stored) = (waiting + 1, stored + 1);
    }
    if !events.is_empty() {
        recorder.add(events)?;
    }
    recorder.commit()?;
    writeln!(stdout(), "stored {stored} events")?;
    Ok(())
}

struct Recorder {
    store: Store,
    settings: StoreSettings,
    /// One for each batch of a commit. The first stays at the run that was stored last, so a long
    /// run is not loaded again.
    engines: Vec<SyncedEngine>,
    batches: Vec<Batch>,
}

impl Recorder {
    /// Evaluates events of one run. They are stored with the next commit, which comes first if it
    /// has events of this run already: an evaluation needs all earlier records.
    fn add(&mut self, events: Vec<Event>) -> Result<(), Box<dyn Error>> {
        let mut batch = Batch::new(events, &self.settings)?;
        if self.batches.iter().any(|other| other.run_id() == batch.run_id()) {
            self.commit()?;
        }
        if self.engines.len() == self.batches.len() {
            self.engines.push(SyncedEngine::new(Engine::shipped(Budget::default()))?);
        }
        if let Some(engine) = self.engines.get_mut(self.batches.len()) {
            self.store.evaluate(&mut batch, engine)?;
        }
        self.batches.push(batch);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Box<dyn Error>> {
        let mut batches = std::mem::take(&mut self.batches);
        let mut pairs: Vec<_> = batches.iter_mut().zip(&mut self.engines).collect();
        if self.store.commit(&mut pairs)?.iter().any(Option::is_none) {
            return Err("another process wrote to this store".into());
        }
        Ok(())
    }
}
