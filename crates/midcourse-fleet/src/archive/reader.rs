//! Reads archives: their manifests, and the runs in their parts.

use midcourse::{ChainEntry, ChainLimit, ChainPosition, RunHeader, RunId};

use super::error::ArchiveError;
use super::manifest::{Manifest, PartInfo};
use super::part_reader::{PartReader, read_headers};
use super::place::ArchivePlace;

/// All complete archives in one place.
#[derive(Debug)]
pub struct Archive<'p> {
    place: &'p ArchivePlace,
    manifests: Vec<Manifest>,
}

/// A run in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedRun {
    /// The run's id.
    pub run_id: RunId,
    /// The end of its hash chain.
    pub end: ChainPosition,
    /// The index of its part in [`Archive::parts`].
    pub part: usize,
}

impl<'p> Archive<'p> {
    /// Reads the manifests of a place. Fails if there is none.
    pub fn open(place: &'p ArchivePlace) -> Result<Self, ArchiveError> {
        let archive = Self::open_or_empty(place)?;
        match archive.manifests.is_empty() {
            true => Err(ArchiveError::NoArchive(place.name().to_owned())),
            false => Ok(archive),
        }
    }

    /// Like [`Self::open`], but a place without a manifest is an archive without runs.
    pub fn open_or_empty(place: &'p ArchivePlace) -> Result<Self, ArchiveError> {
        let manifests = place.manifests()?;
        let parse = |(name, json): &(String, bytes::Bytes)| Manifest::parse(name, json);
        let manifests = manifests.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { place, manifests })
    }

    /// The manifests, the oldest first.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// The parts of all archives, the oldest archive first.
    pub fn parts(&self) -> impl Iterator<Item = &PartInfo> {
        self.manifests.iter().flat_map(|manifest| &manifest.parts)
    }

    /// The runs of a part.
    pub fn runs(&self, index: usize, part: &PartInfo) -> Result<Vec<ArchivedRun>, ArchiveError> {
        let headers = read_headers(self.place, part)?.into_iter();
        let run = |header: RunHeader| ArchivedRun {
            run_id: header.run_id().clone(),
            end: header.end(),
            part: index,
        };
        Ok(headers.map(run).collect())
    }

    /// Opens a part to read its runs. All its files are compared with the manifest.
    pub fn read(&self, part: &PartInfo) -> Result<PartReader, ArchiveError> {
        PartReader::open(self.place, part)
    }

    /// All runs with all their entries, in the order in which they were added. For archives that fit
    /// into memory.
    pub fn read_all(&self) -> Result<Vec<(RunHeader, Vec<ChainEntry>)>, ArchiveError> {
        let mut runs = Vec::new();
        for part in self.parts() {
            let mut reader = self.read(part)?;
            while let Some(header) = reader.next_run()? {
                let entries = reader.next_entries(ChainLimit::NONE)?;
                runs.push((header, entries));
            }
        }
        Ok(runs)
    }
}
