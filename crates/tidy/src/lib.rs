//! Checks of the source tree that the test suites of all crates share.
//!
//! [`ModuleGraph`] finds which top-level module of a crate uses which, refuses import cycles, and
//! compares the graph with the import table in ARCHITECTURE.md. [`check_files`] limits the length
//! of files and requires a header in each. `#[cfg(test)]` modules are skipped: test code may use
//! any module.

mod graph;
mod paths;
mod tokens;

pub use graph::ModuleGraph;

use std::fs;
use std::path::Path;

/// The most lines that a source file may have.
pub const MAX_FILE_LINES: usize = 500;

/// File names that say nothing about the content.
const VAGUE_NAMES: [&str; 7] = ["utils", "helpers", "common", "manager", "service", "misc", "mod"];

/// A Rust source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path below the folder that was read, with `/` as separator: `prompt/template.rs`.
    pub path: String,
    /// The content of the file.
    pub text: String,
}

/// All Rust files below a folder, sorted by path.
pub fn rust_files(folder: &Path) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    collect(folder, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    if files.is_empty() {
        return Err(format!("{} has no Rust files", folder.display()));
    }
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let inside = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{inside}/"), files)?;
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).map_err(unreadable)?;
            files.push(SourceFile { path: inside, text });
        }
    }
    Ok(())
}

/// Checks that every Rust file in these folders of a crate is short, begins with a header comment
/// and has a name that says what it is about.
pub fn check_files(crate_folder: &Path, folders: &[&str]) -> Result<(), String> {
    let mut problems = Vec::new();
    for folder in folders {
        for SourceFile { path, text } in rust_files(&crate_folder.join(folder))? {
            let lines = text.lines().count();
            if lines > MAX_FILE_LINES {
                problems.push(format!("{folder}/{path} has {lines} lines; split it"));
            }
            if !text.starts_with("//!") {
                problems.push(format!("{folder}/{path} does not begin with a `//!` header"));
            }
            let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
            if stem.is_some_and(|stem| VAGUE_NAMES.contains(&stem)) {
                problems.push(format!("{folder}/{path} has a vague name"));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}
