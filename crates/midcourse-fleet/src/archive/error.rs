//! Errors of archives.

use midcourse::{BrokenChain, RunId, StoreError};

/// Why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// There are no manifests, so there is no archive or it was never completed.
    #[error("{0} has no archive: there is no manifest; name the folder that contains `manifests`")]
    NoArchive(String),
    /// The address of an archive is not valid.
    #[error("invalid address `{0}`; try a folder or `s3://bucket/prefix`")]
    Address(String),
    /// A file is not what the manifest says, or cannot be read.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// A newer release has written the archive.
    #[error("{manifest} has format version {found}; this release reads versions up to {known}")]
    Newer {
        /// The manifest.
        manifest: String,
        /// Its format version.
        found: u32,
        /// The newest version that this release reads.
        known: u32,
    },
    /// A run that should be archived has a broken hash chain.
    #[error("the run {0} cannot be archived: {1}")]
    Chain(RunId, #[source] BrokenChain),
    /// A run that should be archived ended before the end that its header names.
    #[error("the run {0} cannot be archived: it has fewer entries than its header says")]
    Incomplete(RunId),
    /// The entries of a run could not be read from where they are stored.
    #[error("the run {0} could not be read")]
    Source(RunId, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing can be added to an archive after an error.
    #[error("the archive is not complete because of an earlier error")]
    Unfinished,
    /// A value does not fit into the tables.
    #[error("the tables of the archive have no place for {0}")]
    Schema(String),
    /// The folder or the object store reported an error.
    #[error("{0}: {1}")]
    Place(String, String),
    /// A Parquet file could not be written or read.
    #[error("a Parquet file could not be written or read")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A temporary file, or a folder, could not be written or read.
    #[error("cannot access {0}")]
    File(String, #[source] std::io::Error),
    /// The store into which the archive is imported reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ArchiveError {
    pub(super) const fn damaged(what: String) -> Self {
        Self::Damaged(what)
    }

    /// What could not be done, and the error at the root of an error of the object store, which repeats
    /// the text of its causes.
    pub(super) fn place(what: String, error: &object_store::Error) -> Self {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        Self::Place(what, cause.to_string())
    }

    pub(super) fn temporary(error: std::io::Error) -> Self {
        Self::File("a temporary file".to_owned(), error)
    }
}
