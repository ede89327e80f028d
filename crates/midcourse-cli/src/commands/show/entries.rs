//! Reads the entries that `midcourse show` prints, page by page.

use std::collections::VecDeque;

use anyhow::Result;
use midcourse::{
    Entry, EntryFilter, EntryOrder, RunId, RunSummary, SearchWords, Store, StoreError,
};

use crate::display::describe_entry;

/// How many entries are found at once.
const PAGE: usize = 256;

/// The entries of a run that pass a filter, in order.
pub(super) struct Entries {
    run_id: RunId,
    filter: EntryFilter,
    /// Only entries with these words.
    words: Option<SearchWords>,
    /// Entries that were found and not returned yet.
    seqs: VecDeque<u64>,
    /// Whether there may be entries after those in `seqs`.
    has_more: bool,
}

impl Entries {
    /// With `last`, only that many entries at the end of the run. Entries before them are read only
    /// if they have to be searched for words.
    pub(super) fn new(
        store: &Store,
        run: &RunSummary,
        filter: EntryFilter,
        words: Option<SearchWords>,
        last: Option<usize>,
    ) -> Result<Self> {
        let run_id = run.run_id.clone();
        let mut entries = Self { run_id, filter, words, seqs: VecDeque::new(), has_more: true };
        if let Some(last) = last {
            entries.find_last(store, last)?;
            entries.has_more = false;
        }
        Ok(entries)
    }

    fn find_last(&mut self, store: &Store, count: usize) -> Result<()> {
        let mut filter = self.filter.clone();
        while self.seqs.len() < count {
            let page = if self.words.is_none() { count } else { PAGE };
            let found =
                store.entry_seqs(self.run_id.as_str(), &filter, EntryOrder::Backward, page)?;
            let Some(oldest) = found.last().copied() else { break };
            for seq in found {
                if self.seqs.len() < count && self.has_words(store, seq)? {
                    self.seqs.push_front(seq);
                }
            }
            let Some(before) = oldest.checked_sub(1) else { break };
            filter.last = Some(before);
        }
        Ok(())
    }

    /// Whether the entry has the words. An entry that cannot be read passes, so that it is reported.
    fn has_words(&self, store: &Store, seq: u64) -> Result<bool> {
        let Some(words) = &self.words else { return Ok(true) };
        match store.entry(self.run_id.as_str(), seq) {
            Ok(entry) => Ok(entry.is_some_and(|entry| has_words(words, &entry))),
            Err(StoreError::Damaged(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the next entry is on another page.
    pub(super) fn is_page_end(&self) -> bool {
        self.seqs.is_empty()
    }

    /// The next entry, or the reason why it cannot be read; `None` at the end.
    pub(super) fn next(
        &mut self,
        store: &Store,
    ) -> Result<Option<(u64, Result<Entry, StoreError>)>> {
        loop {
            if self.seqs.is_empty() && self.has_more {
                let order = EntryOrder::Forward;
                let found = store.entry_seqs(self.run_id.as_str(), &self.filter, order, PAGE)?;
                self.has_more = found.len() == PAGE;
                if let Some(last) = found.last() {
                    self.filter.first = Some(last.saturating_add(1));
                }
                self.seqs = found.into();
            }
            let Some(seq) = self.seqs.pop_front() else { return Ok(None) };
            match store.entry(self.run_id.as_str(), seq) {
                Ok(Some(entry)) => {
                    if self.words.as_ref().is_none_or(|words| has_words(words, &entry)) {
                        return Ok(Some((seq, Ok(entry))));
                    }
                }
                // The run may just have been removed.
                Ok(None) => {}
                Err(error @ StoreError::Damaged(_)) => return Ok(Some((seq, Err(error)))),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn has_words(words: &SearchWords, entry: &Entry) -> bool {
    let description = describe_entry(entry, |seq| seq);
    let texts = [Some(description.text), description.details, description.result];
    words.are_in(&texts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}
