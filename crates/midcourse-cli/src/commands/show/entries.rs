//! Reads the entries that `midcourse show` prints, page by page.

use std::collections::VecDeque;

use anyhow::Result;
use midcourse::{
    Entry, EntryFilter, EntryOrder, RunId, RunSummary, SearchWords, Store, StoreError,
};

use crate::display::{Tone, describe_entry};

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
    /// if some at the end are not shown, for example because they lack the words.
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
            let found =
                store.entry_seqs(self.run_id.as_str(), &filter, EntryOrder::Backward, PAGE)?;
            let Some(oldest) = found.last().copied() else { break };
            for seq in found {
                if self.seqs.len() < count && self.is_shown_at(store, seq)? {
                    self.seqs.push_front(seq);
                }
            }
            let Some(before) = oldest.checked_sub(1) else { break };
            filter.last = Some(before);
        }
        Ok(())
    }

    /// Whether the entry at this seq is shown. An entry that cannot be read is, so that it is
    /// reported.
    fn is_shown_at(&self, store: &Store, seq: u64) -> Result<bool> {
        match store.entry(self.run_id.as_str(), seq) {
            Ok(entry) => Ok(entry.is_some_and(|entry| self.is_shown(&entry))),
            Err(StoreError::Damaged(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the entry has the words. A response of the model without a text, which only makes
    /// calls, is not shown: the calls are entries of their own.
    fn is_shown(&self, entry: &Entry) -> bool {
        let described = describe_entry(entry, |seq| seq);
        if !self.filter.all && described.tone == Tone::Talk && described.text.trim().is_empty() {
            return false;
        }
        let Some(words) = &self.words else { return true };
        let texts = [Some(described.text), described.details, described.result];
        words.are_in(&texts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
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
                    if self.is_shown(&entry) {
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
