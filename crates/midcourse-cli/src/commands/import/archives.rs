//! Importing archives that `midcourse archive` wrote.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use midcourse::Store;
use serde_json::Value;

/// The address of an archive in an object store begins with this.
const OBJECT_STORE: &str = "s3://";

/// The folder of an archive that has its manifests, and a text that each of them contains.
const MANIFESTS: &str = "manifests";
const MARK: &str = "\"midcourse archive\"";

/// Splits the paths into archives and others.
pub(super) fn split(paths: &[PathBuf]) -> (Vec<String>, Vec<PathBuf>) {
    let (archives, others): (Vec<&PathBuf>, _) = paths.iter().partition(|path| is_archive(path));
    let archives = archives.into_iter().map(|path| path.to_string_lossy().into_owned());
    (archives.collect(), others.into_iter().cloned().collect())
}

fn is_archive(path: &Path) -> bool {
    if path.to_str().is_some_and(|path| path.starts_with(OBJECT_STORE)) {
        return true;
    }
    let Ok(files) = fs::read_dir(path.join(MANIFESTS)) else { return false };
    let mut files = files.filter_map(Result::ok).map(|file| file.path());
    files.any(|file| {
        file.extension().is_some_and(|extension| extension == "json")
            && fs::read_to_string(file).is_ok_and(|text| text.contains(MARK))
    })
}

/// What was imported from all archives.
#[derive(Default)]
pub(super) struct ArchiveTotal {
    pub(super) runs: u64,
    added: u64,
    grown: u64,
    unchanged: u64,
    records: u64,
    reports: u64,
    /// The run and the reason.
    refused: Vec<(String, String)>,
    damaged: Vec<String>,
}

#[cfg(not(feature = "archive"))]
pub(super) fn import(archives: &[String], _: &mut Store) -> Result<ArchiveTotal> {
    match archives.first() {
        Some(archive) => anyhow::bail!(
            "{archive} is an archive, which this build cannot read; build midcourse with \
             `--features archive`"
        ),
        None => Ok(ArchiveTotal::default()),
    }
}

/// Imports archives, without loss.
#[cfg(feature = "archive")]
pub(super) fn import(archives: &[String], store: &mut Store) -> Result<ArchiveTotal> {
    use midcourse_fleet::archive::{Archive, ArchivePlace, import};

    let mut total = ArchiveTotal::default();
    for address in archives {
        let place = ArchivePlace::open(address)?;
        let archive = Archive::open(&place)?;
        let runs = archive.manifests().iter().map(|manifest| manifest.runs).sum();
        let bar = crate::commands::open::progress(runs, "importing");
        let imported = import(&archive, store, |runs| bar.inc(runs))?;
        bar.finish_and_clear();
        total.runs += imported.runs;
        total.added += imported.added;
        total.grown += imported.grown;
        total.unchanged += imported.unchanged;
        total.records += imported.records;
        total.reports += imported.reports;
        for refused in imported.refused {
            let why = format!("{} (in {})", refused.why, refused.part);
            total.refused.push((refused.run_id.as_str().to_owned(), why));
        }
        for error in imported.damaged {
            let error = anyhow::Error::new(error);
            total.damaged.push(format!("{address}: {error:#}"));
        }
    }
    Ok(total)
}

impl ArchiveTotal {
    /// Warns of what was not imported.
    pub(super) fn warn(&self, max_shown: usize) {
        let refused = self.refused.iter();
        let refused = refused.map(|(run_id, why)| format!("not imported: {run_id}: {why}"));
        let problems: Vec<String> = self.damaged.iter().cloned().chain(refused).collect();
        for problem in problems.iter().take(max_shown) {
            crate::terminal::warn(problem);
        }
        if let Some(more) = problems.len().checked_sub(max_shown).filter(|more| *more > 0) {
            crate::terminal::warn(&format!("and {more} more"));
        }
    }

    /// Fails if something was not imported.
    pub(super) fn check(&self) -> Result<()> {
        let (refused, damaged) = (self.refused.len(), self.damaged.len());
        let parts = if damaged == 1 { "part" } else { "parts" };
        match (refused, damaged) {
            (0, 0) => Ok(()),
            (_, 0) => anyhow::bail!("{refused} runs were not imported; all others were"),
            (0, _) => anyhow::bail!("{damaged} {parts} of the archive could not be read"),
            _ => anyhow::bail!(
                "{refused} runs were not imported, and {damaged} {parts} of the archive could not be \
                 read"
            ),
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { added, grown, unchanged, records, .. } = self;
        let grown = match grown {
            0 => String::new(),
            grown => format!(", continued {grown}"),
        };
        format!(
            "Imported {added} runs from archives{grown}: {records} records. {unchanged} runs were \
             already stored."
        )
    }

    pub(super) fn json(&self) -> Value {
        let refused = self.refused.iter();
        let refused: Vec<Value> = refused
            .map(|(run_id, why)| serde_json::json!({"run_id": run_id, "problem": why}))
            .collect();
        serde_json::json!({"runs": self.runs, "added": self.added, "continued": self.grown,
                           "unchanged": self.unchanged, "records": self.records,
                           "reports": self.reports, "refused": refused, "damaged": self.damaged})
    }
}
