//! Archives of runs: Parquet files in a folder or an object store.
//!
//! An archive has exact copies of runs (see `midcourse::ChainEntry`), which can be read back without
//! loss, in tables that DuckDB, Spark and other programs can query. [`ArchiveWriter`] takes runs from
//! anywhere, one at a time and in parts; [`Archive`] yields them back; [`import`] adds them to a store.
//! `docs/archive.md` describes the files.
//!
//! A crash never leaves something that looks like an archive: the data files of an archive are written
//! first and its manifest last, and a reader uses only files that a manifest names, after it has
//! compared their size and hash.

mod error;
mod import;
mod manifest;
mod part;
mod part_reader;
mod place;
mod reader;
mod rows;
mod s3;
mod schema;
mod table;
mod texts;
mod time;
mod writer;

pub use error::ArchiveError;
pub use import::{ImportedArchive, RefusedRun, import};
pub use manifest::{FileInfo, Manifest, PartFiles, PartInfo};
pub use part_reader::PartReader;
pub use place::ArchivePlace;
pub use reader::{Archive, ArchivedRun};
pub use writer::{ArchiveLimits, ArchiveWriter, WrittenArchive};
