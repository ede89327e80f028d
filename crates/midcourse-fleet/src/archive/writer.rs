//! Writes an archive: runs in any number of parts, then the manifest.

use midcourse::{ChainEntry, ChainPosition, RunHeader, now};
use uuid::Uuid;

use super::error::ArchiveError;
use super::manifest::{Manifest, PartInfo};
use super::part::PartWriter;
use super::place::ArchivePlace;
use super::time::{day, rfc3339};

/// How much an archive keeps in memory and in one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Rows of a table are kept in memory until they have this many bytes.
    pub buffered_bytes: usize,
    /// A part that has this many bytes before compression gets no further run.
    pub part_bytes: usize,
    /// A part that has this many runs gets no further one.
    pub part_runs: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { buffered_bytes: 16 << 20, part_bytes: 512 << 20, part_runs: 20_000 }
    }
}

/// Writes runs into a new archive.
///
/// Runs that come in the order of the days on which they started make the fewest files. An archive
/// that is dropped before [`Self::finish`] does not exist: its files are removed, or have no manifest.
pub struct ArchiveWriter<'p> {
    place: &'p ArchivePlace,
    limits: ArchiveLimits,
    id: String,
    written: String,
    open: Option<PartWriter>,
    parts: Vec<PartInfo>,
    /// Files that may have been written and that no manifest names.
    placed: Vec<String>,
    is_broken: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenArchive {
    /// The path of the manifest below the place.
    pub path: String,
    /// The manifest.
    pub manifest: Manifest,
}

impl<'p> ArchiveWriter<'p> {
    /// A new archive in this place.
    pub fn new(place: &'p ArchivePlace) -> Self {
        let (at, random) = (now(), Uuid::new_v4().simple().to_string());
        let written = rfc3339(at);
        let digits: String = written.chars().filter(|char| !"-:".contains(*char)).collect();
        let short = random.get(..8).unwrap_or(&random);
        Self {
            place,
            limits: ArchiveLimits::default(),
            id: format!("{digits}-{short}"),
            written,
            open: None,
            parts: Vec::new(),
            placed: Vec::new(),
            is_broken: false,
        }
    }

    /// Changes the limits.
    #[must_use]
    pub const fn limits(mut self, limits: ArchiveLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a run. Its entries come in parts, from the first to the one at which its header ends, and
    /// each is checked. After an error the archive can get no further run and cannot be finished.
    pub fn add<E>(
        &mut self,
        header: &RunHeader,
        entries: impl IntoIterator<Item = Result<Vec<ChainEntry>, E>>,
    ) -> Result<(), ArchiveError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(ArchiveError::Unfinished);
        }
        let run_id = header.run_id();
        let part = self.part_of(&day(header.summary().started))?;
        let mut end = ChainPosition::start(run_id);
        for entries in entries {
            let entries =
                entries.map_err(|error| ArchiveError::Source(run_id.clone(), error.into()))?;
            for entry in entries {
                end = end.after(&entry).map_err(|why| ArchiveError::Chain(run_id.clone(), why))?;
                part.add_entry(run_id.as_str(), entry)?;
            }
        }
        if end != header.end() {
            return Err(ArchiveError::Incomplete(run_id.clone()));
        }
        part.add_header(header)?;
        self.is_broken = false;
        Ok(())
    }

    /// The part for the next run, which started on this day.
    fn part_of(&mut self, day: &str) -> Result<&mut PartWriter, ArchiveError> {
        let ArchiveLimits { part_bytes, part_runs, buffered_bytes } = self.limits;
        let is_full = |part: &PartWriter| part.bytes() >= part_bytes || part.runs() >= part_runs;
        if self.open.as_ref().is_some_and(|part| part.day() != day || is_full(part)) {
            self.close_part()?;
        }
        let part = match self.open.take() {
            Some(part) => part,
            None => {
                let name = format!("{}-{:04}", self.id, self.parts.len());
                PartWriter::new(self.place, name, day.to_owned(), buffered_bytes)?
            }
        };
        Ok(self.open.insert(part))
    }

    fn close_part(&mut self) -> Result<(), ArchiveError> {
        if let Some(part) = self.open.take() {
            let part = part.finish(self.place, &mut self.placed)?;
            self.parts.push(part);
        }
        Ok(())
    }

    /// Writes the rest and then the manifest, which makes the archive exist. `None` if no run was
    /// added: then there is nothing to write.
    pub fn finish(mut self) -> Result<Option<WrittenArchive>, ArchiveError> {
        if self.is_broken {
            return Err(ArchiveError::Unfinished);
        }
        self.close_part()?;
        if self.parts.is_empty() {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        let manifest = Manifest::new(self.id.clone(), self.written.clone(), parts);
        let json = manifest.json()?;
        // If this fails, the manifest may exist nevertheless: the files stay.
        let placed = std::mem::take(&mut self.placed);
        let path = self.place.put_manifest(&self.id, json)?;
        drop(placed);
        Ok(Some(WrittenArchive { path, manifest }))
    }
}

impl Drop for ArchiveWriter<'_> {
    fn drop(&mut self) {
        for name in &self.placed {
            self.place.delete(name);
        }
    }
}
