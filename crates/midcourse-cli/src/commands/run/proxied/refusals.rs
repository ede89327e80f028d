//! Remembers programs that refuse midcourse's certificates, so that they are left alone next time.

use std::collections::BTreeSet;
use std::path::PathBuf;

use midcourse::DataDir;

fn file(data_dir: &DataDir) -> PathBuf {
    data_dir.path().join("refused-certificates.json")
}

fn read(data_dir: &DataDir) -> BTreeSet<String> {
    let text = std::fs::read(file(data_dir)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Whether this program refused midcourse's certificate in an earlier `midcourse run`.
pub(super) fn contain(data_dir: &DataDir, program: &str) -> bool {
    read(data_dir).contains(program)
}

/// Adds a program. Errors are ignored: the program is then added when it refuses again.
pub(super) fn remember(data_dir: &DataDir, program: &str) {
    let mut programs = read(data_dir);
    if programs.insert(program.to_owned())
        && let Ok(text) = serde_json::to_vec(&programs)
    {
        let _ = std::fs::write(file(data_dir), text);
    }
}
