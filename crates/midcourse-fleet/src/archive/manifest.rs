//! Manifests: which files belong to an archive.

use serde::{Deserialize, Serialize};

use super::error::ArchiveError;
use super::schema::Table;

/// What the field `format` of every manifest says.
const FORMAT: &str = "midcourse archive";

/// The version of the format that this release writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;

/// Lists the files of one archive, with their sizes and hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    /// The version of the format.
    pub version: u32,
    /// The id of the archive, with which the names of its files begin.
    pub archive: String,
    /// When it was written, in UTC.
    pub written: String,
    /// The release of midcourse that wrote it.
    pub midcourse: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of records.
    pub records: u64,
    /// The number of further reports.
    pub reports: u64,
    /// The size of all files in bytes.
    pub bytes: u64,
    /// The parts of the archive.
    pub parts: Vec<PartInfo>,
}

/// One part of an archive: a file for each table, with runs that started on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// The name of the part, which its rows have in the column `part`.
    pub part: String,
    /// The day (UTC) on which its runs started, such as `2026-11-18`.
    pub day: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of records.
    pub records: u64,
    /// The number of further reports.
    pub reports: u64,
    /// The number of long texts.
    pub texts: u64,
    /// The files.
    pub files: PartFiles,
}

/// The files of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the file of the table of its name")]
pub struct PartFiles {
    pub runs: FileInfo,
    pub records: FileInfo,
    pub reports: FileInfo,
    pub bodies: FileInfo,
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its path below the folder of the archive.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 hash in hexadecimal digits.
    pub sha256: String,
}

impl PartFiles {
    pub(super) const fn of(&self, table: Table) -> &FileInfo {
        match table {
            Table::Runs => &self.runs,
            Table::Records => &self.records,
            Table::Reports => &self.reports,
            Table::Bodies => &self.bodies,
        }
    }
}

impl Manifest {
    /// A manifest of these parts.
    pub(super) fn new(archive: String, written: String, parts: Vec<PartInfo>) -> Self {
        let sum = |count: fn(&PartInfo) -> u64| parts.iter().map(count).sum();
        let bytes = |part: &PartInfo| Table::ALL.iter().map(|it| part.files.of(*it).bytes).sum();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            archive,
            written,
            midcourse: env!("CARGO_PKG_VERSION").to_owned(),
            runs: sum(|part| part.runs),
            records: sum(|part| part.records),
            reports: sum(|part| part.reports),
            bytes: sum(bytes),
            parts,
        }
    }

    /// Parses the manifest of this name. Fails if this release cannot read the archive.
    pub(super) fn parse(name: &str, json: &[u8]) -> Result<Self, ArchiveError> {
        #[derive(Deserialize)]
        struct Versions {
            format: String,
            version: u32,
        }
        let damaged = |why: &dyn std::fmt::Display| {
            ArchiveError::damaged(format!("{name} is not a manifest of an archive ({why})"))
        };
        let versions: Versions = serde_json::from_slice(json).map_err(|error| damaged(&error))?;
        if versions.format != FORMAT {
            return Err(damaged(&format!("its format is `{}`", versions.format)));
        }
        if versions.version > VERSION {
            let (manifest, found) = (name.to_owned(), versions.version);
            return Err(ArchiveError::Newer { manifest, found, known: VERSION });
        }
        serde_json::from_slice(json).map_err(|error| damaged(&error))
    }

    /// The JSON of the manifest, for people and programs.
    pub(super) fn json(&self) -> Result<Vec<u8>, ArchiveError> {
        let json = serde_json::to_vec_pretty(self);
        json.map_err(|error| ArchiveError::Schema(format!("a manifest ({error})")))
    }
}
