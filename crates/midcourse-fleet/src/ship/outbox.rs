//! What a store still has to ship: which runs have something new, and the next parts of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use midcourse::{ChainError, ChainLimit, ChainPosition, Link, RunId, Store, StoreError};

use super::batch::{Batch, Part};
use super::cursors::Cursors;
use super::{Refused, ShipSettings};
use crate::error::FleetError;

/// How much one batch contains at most. While its rows are sent, those of the next one are read: both
/// are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimit {
    /// The number of runs.
    pub runs: usize,
    /// The number of records and reports.
    pub entries: usize,
    /// After this many bytes, nothing is added.
    pub bytes: usize,
}

impl Default for BatchLimit {
    fn default() -> Self {
        Self { runs: 500, entries: 5_000, bytes: 8 * 1024 * 1024 }
    }
}

/// After this time, a run that was refused is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// The runs of a store that may have something new.
pub(super) struct Outbox {
    store: Store,
    settings: ShipSettings,
    pub(super) limit: BatchLimit,
    /// Runs that may have something new, each once.
    waiting: VecDeque<RunId>,
    /// How many of these, from the front, are shipped one by one, because one of them made the batch
    /// fail that they were in.
    alone: usize,
    /// Runs that were refused, with the last link that they had then, and when: they are tried again
    /// when they have grown, and after a while, because the owner of the fleet may have done something.
    refused: HashMap<RunId, (Link, Instant)>,
}

/// What was read for one batch.
pub(super) struct Read {
    pub(super) batch: Batch,
    /// Runs that cannot be shipped.
    pub(super) refused: Vec<Refused>,
}

impl Read {
    pub(super) const fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.refused.is_empty()
    }
}

impl Outbox {
    pub(super) fn new(store: Store, settings: ShipSettings) -> Self {
        Self {
            store,
            settings,
            limit: BatchLimit::default(),
            waiting: VecDeque::new(),
            alone: 0,
            refused: HashMap::new(),
        }
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a run is left that was not read to its end.
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Finds the runs whose hash chain does not end where their cursor is.
    pub(super) fn find_news(&mut self, cursors: &Cursors) -> Result<(), FleetError> {
        let ends = self.store.chain_ends()?;
        let ends_at: HashMap<&RunId, &Link> =
            ends.iter().map(|(run_id, end)| (run_id, end)).collect();
        self.refused.retain(|run_id, (link, since)| {
            ends_at.get(run_id) == Some(&&*link) && since.elapsed() < TRY_AGAIN
        });
        let is_news = |run_id: &RunId, link: &Link| {
            let cursor = cursors.position(run_id);
            cursor.is_none_or(|cursor| cursor.link != *link) && !self.refused.contains_key(run_id)
        };
        let news = ends.into_iter().filter(|(run_id, link)| is_news(run_id, link));
        self.waiting = news.map(|(run_id, _)| run_id).collect();
        self.alone = 0;
        Ok(())
    }

    /// Reads the next part of as many runs as fit into a batch. If a batch is still being sent, it is
    /// `ahead`: this method assumes that the server accepts its parts.
    pub(super) fn read(
        &mut self,
        cursors: &mut Cursors,
        ahead: Option<&Batch>,
    ) -> Result<Read, FleetError> {
        let mut read = Read { batch: Batch::new(self.settings.level), refused: Vec::new() };
        let ahead = ahead.map(Batch::parts).unwrap_or_default().iter();
        let ahead: HashMap<&RunId, ChainPosition> =
            ahead.map(|part: &Part| (part.run_id(), part.end())).collect();
        let runs = if self.alone > 0 { 1 } else { self.limit.runs.max(1) };
        self.alone = self.alone.saturating_sub(1);
        for _ in 0..runs.min(self.waiting.len()) {
            let entries = self.limit.entries.max(1).saturating_sub(read.batch.entries());
            let bytes = self.limit.bytes.max(1).saturating_sub(read.batch.bytes());
            if entries == 0 || bytes == 0 {
                break;
            }
            let Some(run_id) = self.waiting.pop_front() else { break };
            let from = ahead.get(&run_id).copied().or_else(|| cursors.position(&run_id));
            let from = from.unwrap_or_else(|| ChainPosition::start(&run_id));
            match self.store.chain_after(&run_id, &from, ChainLimit { entries, bytes }) {
                // A run without records is not shipped: the server refuses it.
                Ok(part) if part.header.end() == ChainPosition::start(&run_id) => {}
                Ok(part) if !read.batch.has_room_for(&from, &part.header) => {
                    self.waiting.push_front(run_id);
                    break;
                }
                Ok(part) => {
                    let is_whole = part.end == part.header.end();
                    if let Err(why) = read.batch.add(&self.store, from, part) {
                        read.refused.push(self.refuse(run_id, why)?);
                    } else if !is_whole {
                        self.waiting.push_back(run_id);
                    }
                }
                // The run was deleted, or its records moved into the run that adopted it.
                Err(ChainError::NoRun) => {}
                Err(error @ ChainError::Diverged(_)) => {
                    let why = format!(
                        "{error}: it was changed here after it was shipped (`midcourse redact`, \
                         `repair`), or another store ships a run with this id; the fleet keeps its \
                         version; to replace it, {}",
                        self.settings.delete()
                    );
                    // What the cursor says may be out of date.
                    cursors.forget(&run_id);
                    read.refused.push(self.refuse(run_id, why)?);
                }
                Err(ChainError::Store(error @ StoreError::Damaged(_))) => {
                    let why = format!("{error}; `midcourse verify` says more");
                    read.refused.push(self.refuse(run_id, why)?);
                }
                Err(ChainError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(read)
    }

    /// Has runs tried again that were refused.
    pub(super) fn forget_refusals(&mut self) {
        self.refused.clear();
    }

    /// Takes back a batch that was not sent.
    pub(super) fn put_back(&mut self, batch: &Batch) {
        let runs: HashSet<&RunId> = batch.parts().iter().map(Part::run_id).collect();
        self.waiting.retain(|waiting| !runs.contains(waiting));
        batch.parts().iter().rev().for_each(|it| self.waiting.push_front(it.run_id().clone()));
    }

    /// Takes back a batch that the server could not store, to ship its runs one by one: so it turns out
    /// which one is at fault.
    pub(super) fn separate(&mut self, batch: &Batch) {
        self.put_back(batch);
        self.alone = batch.parts().len();
    }

    /// Reads a run again, from where its cursor is now.
    pub(super) fn try_again(&mut self, run_id: RunId) {
        self.waiting.retain(|waiting| *waiting != run_id);
        self.waiting.push_front(run_id);
    }

    /// Leaves a run out until it has grown.
    pub(super) fn refuse(&mut self, run_id: RunId, why: String) -> Result<Refused, FleetError> {
        self.waiting.retain(|waiting| *waiting != run_id);
        if let Some(header) = self.store.run_header(&run_id)? {
            self.refused.insert(run_id.clone(), (header.link, Instant::now()));
        }
        Ok(Refused { run_id, why })
    }
}
