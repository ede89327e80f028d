//! Copies of runs in a temporary store, so that commands read a run of a fleet with the code with which
//! they read a run of this machine.
//!
//! A run is copied when somebody asks for it, and only what is new when somebody asks again. The store
//! is in a private temporary folder and is removed with the process.

use std::collections::HashMap;

use midcourse::{
    ChainError, ChainLimit, ChainPart, ChainPosition, DataDir, Durability, Finding, RunId,
    SearchFilter, SearchHit, SearchIndex, Store, StoreError, StoreSettings, Timestamp,
};

use crate::copy_folder::CopyFolder;
use crate::error::FleetError;
use crate::reader::{ReadRun, RunReader};
use crate::ship::Level;
use crate::words::{Candidates, Words};

/// How much of a run is read at once.
const PART: ChainLimit = ChainLimit { entries: 5_000, bytes: 16 * 1024 * 1024 };

/// Copies of runs of a reader.
pub struct LocalCopy {
    store: Store,
    data_dir: DataDir,
    /// How far each run is copied, as a position of the original.
    copied: HashMap<RunId, Copied>,
    /// What could not be copied.
    unreadable: Vec<Finding>,
    /// Removed on drop, after the store is closed.
    _folder: CopyFolder,
}

/// A run that a search may find.
struct Candidate {
    run_id: RunId,
    /// The records that may contain all the words; `None` stands for all records.
    seqs: Option<Vec<u64>>,
}

/// How far a run is copied.
#[derive(Clone, Copy)]
struct Copied {
    /// The position in the original.
    original: ChainPosition,
    /// The last link of the copy. It differs from that of the original if the texts were not shipped,
    /// because the hashes are then those of what is left.
    link: midcourse::Link,
    level: Level,
}

impl LocalCopy {
    /// An empty copy.
    pub fn new() -> Result<Self, FleetError> {
        let folder = CopyFolder::new().map_err(StoreError::from)?;
        let data_dir = DataDir::at(folder.path().join("copy"));
        let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
        let store = Store::open(&data_dir, settings)?;
        Ok(Self {
            store,
            data_dir,
            copied: HashMap::new(),
            unreadable: Vec::new(),
            _folder: folder,
        })
    }

    /// The store with the copies.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The data directory of the store with the copies.
    pub const fn data_dir(&self) -> &DataDir {
        &self.data_dir
    }

    /// The runs that could not be copied although others were, because something in them cannot be
    /// read. Whoever may write to a fleet can ship such a run.
    pub fn unreadable(&self) -> &[Finding] {
        &self.unreadable
    }

    /// Copies a run with all its child runs, and the summaries of the runs above it, or what is new of
    /// them. Returns whether the run exists. Child runs that cannot be read are left out.
    pub fn bring(
        &mut self,
        reader: &mut dyn RunReader,
        run_id: &RunId,
    ) -> Result<bool, FleetError> {
        let family = reader.family(run_id)?;
        let Some(run) = family.first() else { return Ok(false) };
        self.bring_parents(reader, run)?;
        self.bring_one(reader, run)?;
        for child in family.iter().skip(1) {
            self.bring_if_readable(reader, child)?;
        }
        Ok(true)
    }

    /// Copies the summary of a run, if it exists.
    pub fn bring_summary(
        &mut self,
        reader: &mut dyn RunReader,
        run_id: &RunId,
    ) -> Result<(), FleetError> {
        match reader.family(run_id)?.first() {
            Some(run) => Ok(self.store.add_to_copy(&run.header, &[])?),
            None => Ok(()),
        }
    }

    /// Copies one run of many, or notes in [`Self::unreadable`] why it cannot be read.
    pub fn bring_if_readable(
        &mut self,
        reader: &mut dyn RunReader,
        run: &ReadRun,
    ) -> Result<(), FleetError> {
        let done = self.bring_one(reader, run);
        self.note(run.header.run_id(), done)
    }

    /// Notes an error if it is about this run only.
    fn note(&mut self, run_id: &RunId, done: Result<(), FleetError>) -> Result<(), FleetError> {
        use FleetError::{Data, Run, Server, Store};
        match done {
            Err(
                error @ (Run(_)
                | Server(_)
                | Data(_)
                | Store(StoreError::Damaged(_) | StoreError::Rejected(_))),
            ) => {
                let description = error.to_string();
                self.unreadable.push(Finding { run_id: Some(run_id.clone()), description });
                Ok(())
            }
            other => other,
        }
    }

    /// Copies the summaries of the runs above a run.
    fn bring_parents(
        &mut self,
        reader: &mut dyn RunReader,
        run: &ReadRun,
    ) -> Result<(), FleetError> {
        const MAX_LEVELS: usize = 64;
        let mut parent = run.header.summary().parent_run_id;
        for _ in 0..MAX_LEVELS {
            let Some(parent_id) = parent.take() else { break };
            if self.store.run(parent_id.as_str())?.is_some() {
                break;
            }
            let family = reader.family(&parent_id)?;
            let Some(found) = family.first() else { break };
            self.store.add_to_copy(&found.header, &[])?;
            parent = found.header.summary().parent_run_id;
        }
        Ok(())
    }

    /// Copies what is new of those of these runs that were copied before.
    pub fn refresh(
        &mut self,
        reader: &mut dyn RunReader,
        runs: &[ReadRun],
    ) -> Result<bool, FleetError> {
        let mut is_changed = false;
        for run in runs {
            let parent = run.header.summary().parent_run_id;
            let is_copied = |run_id: &RunId| self.copied.contains_key(run_id);
            // A new child run belongs to a run that is copied.
            if is_copied(run.header.run_id()) || parent.as_ref().is_some_and(is_copied) {
                self.bring_if_readable(reader, run)?;
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Whether a run that is copied was shipped without its texts.
    pub fn is_metadata(&self, run_id: &RunId) -> bool {
        self.copied.get(run_id).is_some_and(|copied| copied.level == Level::Metadata)
    }

    /// The number of runs that are copied.
    pub fn run_count(&self) -> usize {
        self.copied.len()
    }

    /// Copies one run, or what is new of it.
    pub fn bring_one(
        &mut self,
        reader: &mut dyn RunReader,
        run: &ReadRun,
    ) -> Result<(), FleetError> {
        self.add(reader, run, None)
    }

    /// Copies a run, of which the first new part may have been read already.
    fn add(
        &mut self,
        reader: &mut dyn RunReader,
        run: &ReadRun,
        mut read: Option<ChainPart>,
    ) -> Result<(), FleetError> {
        let run_id = run.header.run_id();
        let start = ChainPosition::start(run_id);
        let mut at = self.copied.get(run_id).copied().unwrap_or(Copied {
            original: start,
            link: start.link,
            level: run.level,
        });
        if at.original == run.header.end() && self.copied.contains_key(run_id) {
            return Ok(());
        }
        loop {
            let mut part = match read.take() {
                Some(part) => part,
                None => reader.chain_after(run_id, &at.original, PART)?,
            };
            if run.level == Level::Metadata {
                for entry in &mut part.entries {
                    entry.relink(&at.link);
                    at.link = entry.link();
                }
                part.header.link = at.link;
            }
            let end = ChainPosition { link: part.end.link, ..part.header.end() };
            self.store.add_to_copy(&part.header, &part.entries)?;
            let is_stuck = part.end == at.original;
            at.original = part.end;
            self.copied.insert(run_id.clone(), at);
            if part.end == end || is_stuck {
                return Ok(());
            }
        }
    }

    /// Copies the summaries of the runs of a period, with the records of messages to agents and what
    /// became of them: what a report over many runs reads. The copy must be empty before.
    pub fn bring_period(
        &mut self,
        reader: &mut dyn RunReader,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(), FleetError> {
        for run in reader.runs_between(since, until)? {
            let summary = run.header.summary();
            let has_messages = summary.deliveries.saturating_add(summary.shadow_deliveries) > 0;
            match has_messages {
                true => self.bring_if_readable(reader, &run)?,
                false => {
                    let done = self.store.add_to_copy(&run.header, &[]);
                    self.note(run.header.run_id(), done.map_err(FleetError::from))?;
                }
            }
        }
        Ok(())
    }

    /// Up to `count` entries that contain all the words, those of the newest runs first. The second
    /// list describes damage in the records that were found.
    pub fn search(
        &mut self,
        reader: &mut dyn RunReader,
        words: &str,
        filter: &SearchFilter,
        count: usize,
    ) -> Result<(Vec<SearchHit>, Vec<Finding>), FleetError> {
        /// The smallest and the largest number of runs that are read at once. The first time, it is the
        /// smallest: if the words are frequent, these runs have enough hits.
        const RUNS: std::ops::RangeInclusive<usize> = 4..=64;
        let wanted = Words::of(words);
        let (mut hits, mut findings, mut last) = (Vec::new(), Vec::new(), None);
        let mut at_once = *RUNS.start();
        while hits.len() < count {
            let found = match &filter.run_id {
                Some(run_id) if last.is_none() => vec![run_id.clone()],
                Some(_) => Vec::new(),
                None => reader.runs_with_words(words, &filter.runs, last.as_ref(), at_once)?,
            };
            let candidates = self.bring_candidates(reader, &found, &wanted)?;
            findings.append(&mut self.unreadable);
            let hits_before = hits.len();
            for Candidate { run_id, seqs } in candidates {
                let index = SearchIndex::of_run(&self.store, &run_id, seqs.as_deref())?;
                let only = SearchFilter { run_id: Some(run_id), ..filter.clone() };
                let most = count.saturating_sub(hits.len());
                let (found, damage) = index.search(&self.store, words, &only, most)?;
                hits.extend(found);
                findings.extend(damage);
            }
            if found.len() < at_once {
                break;
            }
            last = found.into_iter().next_back();
            // Usually each run has a hit. If none had one, the filter excludes most hits.
            at_once = match hits.len() > hits_before {
                true => count.saturating_sub(hits.len()),
                false => at_once.saturating_mul(2),
            };
            at_once = at_once.clamp(*RUNS.start(), *RUNS.end());
        }
        Ok((hits, findings))
    }

    /// Copies those of the runs that have records which may contain all the words.
    fn bring_candidates(
        &mut self,
        reader: &mut dyn RunReader,
        runs: &[RunId],
        wanted: &[i32],
    ) -> Result<Vec<Candidate>, FleetError> {
        let is_new = |run_id: &&RunId| !self.copied.contains_key(*run_id);
        let new: Vec<RunId> = runs.iter().filter(is_new).cloned().collect();
        // If one of them cannot be read, they are read one by one.
        let read = reader.chains(&new, PART).unwrap_or_default();
        let mut read: HashMap<RunId, (ReadRun, ChainPart)> =
            read.into_iter().map(|it| (it.0.header.run_id().clone(), it)).collect();
        let mut found = Vec::new();
        for run_id in runs {
            let seqs = match read.remove(run_id) {
                Some((run, part)) if part.end.records == part.header.end().records => {
                    let mut candidates = Candidates::new(wanted);
                    candidates.add(&part.entries);
                    let seqs = candidates.into_seqs();
                    if !seqs.is_empty() {
                        let done = self.add(reader, &run, Some(part));
                        self.note(run_id, done)?;
                    }
                    Some(seqs)
                }
                Some((run, part)) => {
                    let done = self.add(reader, &run, Some(part));
                    self.note(run_id, done)?;
                    self.candidates(run_id, wanted)?
                }
                None => {
                    self.bring_alone(reader, run_id)?;
                    self.candidates(run_id, wanted)?
                }
            };
            if seqs.as_ref().is_none_or(|seqs| !seqs.is_empty()) {
                found.push(Candidate { run_id: run_id.clone(), seqs });
            }
        }
        Ok(found)
    }

    /// The seqs of the records of a copied run that may contain all the words; `None` if its hash chain
    /// is broken, so that it cannot be read in order.
    fn candidates(&self, run_id: &RunId, wanted: &[i32]) -> Result<Option<Vec<u64>>, FleetError> {
        let mut candidates = Candidates::new(wanted);
        let mut from = ChainPosition::start(run_id);
        loop {
            let part = match self.store.chain_after(run_id, &from, PART) {
                Ok(part) => part,
                Err(ChainError::NoRun) => break,
                Err(ChainError::Store(StoreError::Damaged(_))) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            candidates.add(&part.entries);
            if part.end == from || part.end == part.header.end() {
                break;
            }
            from = part.end;
        }
        Ok(Some(candidates.into_seqs()))
    }

    /// Copies one run without its child runs, or notes why it cannot be read.
    fn bring_alone(
        &mut self,
        reader: &mut dyn RunReader,
        run_id: &RunId,
    ) -> Result<(), FleetError> {
        let family = reader.family(run_id);
        let done = match family.map(|family| family.into_iter().next()) {
            Ok(Some(run)) => self.bring_one(reader, &run),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.note(run_id, done)
    }
}
