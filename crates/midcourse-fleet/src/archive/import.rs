//! Imports archives into a store, without loss.
//!
//! A run may be in several archives, and in the store already. The longest copy is imported; a copy
//! whose hash chain is another one is refused, and the other runs are imported nevertheless.

use std::collections::HashMap;

use midcourse::{
    ChainEntry, ChainError, ChainLimit, ChainPosition, RunHeader, RunId, Store, StoreError,
};

use super::error::ArchiveError;
use super::part_reader::PartReader;
use super::reader::{Archive, ArchivedRun};

/// Runs are added in transactions of about this many bytes.
const BATCH_BYTES: usize = 8 << 20;

/// What became of the runs of an archive.
#[derive(Debug, Default)]
pub struct ImportedArchive {
    /// The number of runs in the archive.
    pub runs: u64,
    /// Runs that were not in the store.
    pub added: u64,
    /// Runs of which the store had an earlier state.
    pub grown: u64,
    /// Runs of which the store has the same state or a later one.
    pub unchanged: u64,
    /// The number of records that were added.
    pub records: u64,
    /// The number of further reports that were added.
    pub reports: u64,
    /// Copies of runs that were not imported because they contradict what is stored.
    pub refused: Vec<RefusedRun>,
    /// Parts that could not be read.
    pub damaged: Vec<ArchiveError>,
}

/// A copy of a run that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRun {
    /// The run's id.
    pub run_id: RunId,
    /// The part of the archive that has the copy.
    pub part: String,
    /// Why it was refused.
    pub why: String,
}

/// Imports all runs of the archive. `progress` gets the number of runs that are done.
pub fn import(
    archive: &Archive<'_>,
    store: &mut Store,
    mut progress: impl FnMut(u64),
) -> Result<ImportedArchive, ArchiveError> {
    let mut import = Import { store, done: ImportedArchive::default(), batch: Batch::default() };
    let mut longest: HashMap<RunId, ArchivedRun> = HashMap::new();
    let mut others = Vec::new();
    for (index, part) in archive.parts().enumerate() {
        let found = match archive.runs(index, part) {
            Ok(found) => found,
            Err(error) => {
                import.done.damaged.push(error);
                continue;
            }
        };
        for run in found {
            match longest.get_mut(&run.run_id) {
                None => drop(longest.insert(run.run_id.clone(), run)),
                // Of two that are equally long, the later archive has the later header.
                Some(known) if length(&run.end) >= length(&known.end) => {
                    others.push(std::mem::replace(known, run));
                }
                Some(_) => others.push(run),
            }
        }
    }
    import.done.runs = u64::try_from(longest.len()).unwrap_or_default();
    let mut wanted: HashMap<usize, Vec<ArchivedRun>> = HashMap::new();
    for run in longest.into_values() {
        wanted.entry(run.part).or_default().push(run);
    }
    for (index, part) in archive.parts().enumerate() {
        let runs = wanted.remove(&index).unwrap_or_default();
        let count = u64::try_from(runs.len()).unwrap_or_default();
        let mut missing = HashMap::new();
        for run in runs {
            if let Some(from) = import.missing_from(&run, &part.part)? {
                missing.insert(run.run_id, from);
            }
        }
        if !missing.is_empty() {
            let added = archive
                .read(part)
                .and_then(|reader| import.add_runs(reader, &mut missing, &part.part));
            match added {
                Err(ArchiveError::Store(error)) => return Err(error.into()),
                Err(error) => import.done.damaged.push(error),
                Ok(()) => {}
            }
            import.add_batch()?;
        }
        progress(count);
    }
    // Shorter copies: whether the stored run continues them.
    let parts: Vec<&str> = archive.parts().map(|part| part.part.as_str()).collect();
    for run in others {
        let part = parts.get(run.part).copied().unwrap_or_default();
        import.check_other(&run, part)?;
    }
    Ok(import.done)
}

const fn length(end: &ChainPosition) -> u64 {
    end.records.saturating_add(end.reports)
}

struct Import<'s> {
    store: &'s mut Store,
    done: ImportedArchive,
    batch: Batch,
}

/// Runs that have been read and not stored yet.
#[derive(Default)]
struct Batch {
    runs: Vec<(RunHeader, Vec<ChainEntry>)>,
    bytes: usize,
    part: String,
}

impl Import<'_> {
    fn refuse(&mut self, run_id: &RunId, part: &str, why: String) {
        let (run_id, part) = (run_id.clone(), part.to_owned());
        self.done.refused.push(RefusedRun { run_id, part, why });
    }

    /// From where the store lacks entries of an archived run; `None` if it lacks none or has a run
    /// with another chain.
    fn missing_from(
        &mut self,
        run: &ArchivedRun,
        part: &str,
    ) -> Result<Option<ChainPosition>, ArchiveError> {
        let Some(stored) = self.store.run_header(&run.run_id)? else {
            return Ok(Some(ChainPosition::start(&run.run_id)));
        };
        let stored = stored.end();
        if stored == run.end {
            self.done.unchanged = self.done.unchanged.saturating_add(1);
        } else if stored.records <= run.end.records
            && stored.reports <= run.end.reports
            && length(&stored) < length(&run.end)
        {
            return Ok(Some(stored));
        } else if self.stored_chain_has(run)? {
            self.done.unchanged = self.done.unchanged.saturating_add(1);
        } else {
            self.refuse(&run.run_id, part, differs(run));
        }
        Ok(None)
    }

    /// Whether the stored run continues an archived copy, or is equal to it.
    fn stored_chain_has(&self, run: &ArchivedRun) -> Result<bool, ArchiveError> {
        let limit = ChainLimit { entries: 1, bytes: 1 };
        match self.store.chain_after(&run.run_id, &run.end, limit) {
            Ok(_) => Ok(true),
            Err(ChainError::Diverged(_) | ChainError::NoRun) => Ok(false),
            Err(ChainError::Store(error)) => Err(error.into()),
        }
    }

    /// Compares a copy that is not the longest with the stored run.
    fn check_other(&mut self, run: &ArchivedRun, part: &str) -> Result<(), ArchiveError> {
        // The longest copy could not be read or was refused, which is reported already.
        let is_stored = self.store.run_header(&run.run_id)?.is_some();
        if is_stored && !self.stored_chain_has(run)? {
            self.refuse(&run.run_id, part, differs(run));
        }
        Ok(())
    }

    /// Adds what is `missing` of the runs of a part.
    fn add_runs(
        &mut self,
        mut reader: PartReader,
        missing: &mut HashMap<RunId, ChainPosition>,
        part: &str,
    ) -> Result<(), ArchiveError> {
        part.clone_into(&mut self.batch.part);
        while let Some(header) = reader.next_run()? {
            let Some(from) = missing.remove(header.run_id()) else { continue };
            let entries = reader.next_entries(ChainLimit::NONE)?;
            if from == ChainPosition::start(header.run_id()) {
                let bytes: usize = entries.iter().map(ChainEntry::size).sum();
                self.batch.bytes = self.batch.bytes.saturating_add(bytes);
                self.batch.runs.push((header, entries));
                if self.batch.bytes >= BATCH_BYTES {
                    self.add_batch()?;
                }
            } else {
                self.extend(&header, entries, from, part)?;
            }
        }
        Ok(())
    }

    /// Adds to a stored run what follows its end in the archive.
    fn extend(
        &mut self,
        header: &RunHeader,
        mut entries: Vec<ChainEntry>,
        from: ChainPosition,
        part: &str,
    ) -> Result<(), ArchiveError> {
        let known = usize::try_from(length(&from)).unwrap_or(usize::MAX);
        let last = known.checked_sub(1).and_then(|last| entries.get(last));
        let link = last.map(ChainEntry::link);
        let records = entries.iter().take(known);
        let records = records.filter(|entry| matches!(entry, ChainEntry::Record(_))).count();
        if link != Some(from.link) || u64::try_from(records) != Ok(from.records) {
            self.refuse(header.run_id(), part, differs_from_stored(from.records));
            return Ok(());
        }
        let rest = entries.split_off(known);
        self.store.add_to_copy(header, &rest)?;
        self.done.grown = self.done.grown.saturating_add(1);
        self.count(&rest);
        Ok(())
    }

    /// Stores the runs of the batch.
    fn add_batch(&mut self) -> Result<(), ArchiveError> {
        let Batch { runs, part, .. } = std::mem::take(&mut self.batch);
        part.clone_into(&mut self.batch.part);
        if runs.is_empty() {
            return Ok(());
        }
        match self.store.add_copies(&runs) {
            Ok(()) => runs.iter().for_each(|(_, entries)| self.count_run(entries)),
            // One of them is not accepted: add each alone.
            Err(StoreError::Damaged(_) | StoreError::Rejected(_)) => {
                for run in &runs {
                    match self.store.add_copies(std::slice::from_ref(run)) {
                        Ok(()) => self.count_run(&run.1),
                        Err(StoreError::Damaged(why) | StoreError::Rejected(why)) => {
                            self.refuse(run.0.run_id(), &part, why);
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn count_run(&mut self, entries: &[ChainEntry]) {
        self.done.added = self.done.added.saturating_add(1);
        self.count(entries);
    }

    fn count(&mut self, entries: &[ChainEntry]) {
        for entry in entries {
            let count = match entry {
                ChainEntry::Record(_) => &mut self.done.records,
                ChainEntry::Report(_) => &mut self.done.reports,
            };
            *count = count.saturating_add(1);
        }
    }
}

fn differs(run: &ArchivedRun) -> String {
    differs_from_stored(run.end.records)
}

fn differs_from_stored(records: u64) -> String {
    format!("its first {records} records differ from those in the store")
}
